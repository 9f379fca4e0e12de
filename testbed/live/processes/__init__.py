"""The backend ``process``: the components of a run as processes of this machine."""

from testbed.scenario.backends import OF_A_TASK, BackendSpec
from testbed.world.limits import LINK
from testbed.world.timeline import Verb

PROCESS = BackendSpec(
    name="process",
    make="testbed.live.processes.backend:Processes",
    leftovers="testbed.live.processes.programs:find_leftovers",
    limits=frozenset((*OF_A_TASK, *LINK)),
    outside=frozenset((Verb.SUSPEND, Verb.DISCONNECT, Verb.PARTITION)),
    code_here=True,
)
