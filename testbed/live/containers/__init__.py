"""The backend ``compose``: the components of a run as containers of a Compose project."""

from testbed.scenario.backends import OF_A_TASK, BackendSpec
from testbed.world.limits import LINK
from testbed.world.timeline import Verb

COMPOSE = BackendSpec(
    name="compose",
    make="testbed.live.containers.backend:Containers",
    checks="testbed.live.containers.engine:checks",
    leftovers="testbed.live.containers.engine:find_made",
    requires="venn-testbed[compose]",
    limits=frozenset((*OF_A_TASK, *LINK)),
    outside=frozenset({Verb.SUSPEND}),
    as_well=frozenset((Verb.CRASH, Verb.DISCONNECT, Verb.PARTITION)),
    each_device="container",
    overhead_bytes=15_000_000,
)
