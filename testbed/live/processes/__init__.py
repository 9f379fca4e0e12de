"""The backend ``process``: the components of a run as processes of this machine."""

from testbed.scenario.backends import OF_A_TASK, OUTSIDE, BackendSpec
from testbed.world.limits import LINK

PROCESS = BackendSpec(
    name="process",
    make="testbed.live.processes.backend:Processes",
    leftovers="testbed.live.processes.programs:find_leftovers",
    limits=frozenset((*OF_A_TASK, *LINK)),
    outside=OUTSIDE,
    outside_of="testbed.live.throttle.throttles:outside_of",
    code_here=True,
)
