"""The life cycles of devices, leases, requests and jobs, as literal tables from (state, step) to state.

Theory of operation. A *device* is IDLE when it may be matched, BUSY while it has a lease in hand or has not yet said
that it stopped with one, LEAVING when it was sent away and its stream is still up, SERVED from the moment it reaches
a limit until its next check-in, and GONE without a session. A *lease* takes a place when OFFERED, gives it back when
its device's session is lost (ABSENT), and takes one again if the device returns in time. DELIVERED is RUNNING without
a device: the device has its receipt and is free, and the place is kept until the driver records the response (the
driver alone says what counts). An ENDED lease changes in one way only: a driver that had already counted it is right
(``attempts``). A *request* is FILLING until all its places were taken at once, then COLLECTING; its one outcome is
CLOSED or ABORTED. A *job* mirrors its latest request, and is AGGREGATING between two; what pauses it is kept beside.

What is not in a table cannot happen: ``advance`` raises InvariantError with the recent history of the thing.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

# (engine time, kind, text, what is filled into the text when it is told ...) of what happened last, oldest first. Few
# are ever told.
History = deque[tuple[Any, ...]]
HISTORY_LENGTH = 24

State = TypeVar("State", bound=StrEnum)
Step = TypeVar("Step", bound=StrEnum)


class InvariantError(Exception):
    """A bug of ours: something happened that cannot, or an invariant does not hold."""


class PlanError(InvariantError):
    """An error of the policy: its plan cannot be followed. The message names the plan."""


class DeviceState(StrEnum):
    GONE = "gone"
    IDLE = "idle"
    BUSY = "busy"
    LEAVING = "leaving"
    SERVED = "served"


class DeviceStep(StrEnum):
    CHECK_IN = "check_in"
    TAKE = "take"  # a lease, or one that it still has to stop
    FREE = "free"
    SERVE = "serve"  # reaches a limit
    DISMISS = "dismiss"  # is sent away
    LEAVE = "leave"  # its session ends


DEVICE: Mapping[tuple[DeviceState, DeviceStep], DeviceState] = {
    (DeviceState.GONE, DeviceStep.CHECK_IN): DeviceState.IDLE,
    (DeviceState.SERVED, DeviceStep.CHECK_IN): DeviceState.IDLE,
    (DeviceState.IDLE, DeviceStep.TAKE): DeviceState.BUSY,
    (DeviceState.BUSY, DeviceStep.TAKE): DeviceState.BUSY,
    (DeviceState.LEAVING, DeviceStep.TAKE): DeviceState.LEAVING,
    (DeviceState.SERVED, DeviceStep.TAKE): DeviceState.SERVED,
    (DeviceState.BUSY, DeviceStep.FREE): DeviceState.IDLE,
    (DeviceState.IDLE, DeviceStep.SERVE): DeviceState.SERVED,
    (DeviceState.IDLE, DeviceStep.DISMISS): DeviceState.LEAVING,
    (DeviceState.IDLE, DeviceStep.LEAVE): DeviceState.GONE,
    (DeviceState.BUSY, DeviceStep.LEAVE): DeviceState.GONE,
    (DeviceState.LEAVING, DeviceStep.LEAVE): DeviceState.GONE,
    (DeviceState.SERVED, DeviceStep.LEAVE): DeviceState.SERVED,
}


class LeaseState(StrEnum):
    OFFERED = "offered"
    RUNNING = "running"
    ABSENT = "absent"
    DELIVERED = "delivered"
    ENDED = "ended"


class LeaseStep(StrEnum):
    ACCEPT = "accept"
    MISS = "miss"  # its device's session is lost
    RETURN = "return"
    DELIVER = "deliver"  # its device has a receipt
    END = "end"
    CORRECT = "correct"  # it had ended, and its driver had counted it


LEASE: Mapping[tuple[LeaseState, LeaseStep], LeaseState] = {
    (LeaseState.OFFERED, LeaseStep.ACCEPT): LeaseState.RUNNING,
    (LeaseState.OFFERED, LeaseStep.END): LeaseState.ENDED,
    (LeaseState.RUNNING, LeaseStep.MISS): LeaseState.ABSENT,
    (LeaseState.RUNNING, LeaseStep.DELIVER): LeaseState.DELIVERED,
    (LeaseState.RUNNING, LeaseStep.END): LeaseState.ENDED,
    (LeaseState.ABSENT, LeaseStep.RETURN): LeaseState.RUNNING,
    (LeaseState.ABSENT, LeaseStep.DELIVER): LeaseState.DELIVERED,
    (LeaseState.ABSENT, LeaseStep.END): LeaseState.ENDED,
    (LeaseState.DELIVERED, LeaseStep.END): LeaseState.ENDED,
    (LeaseState.ENDED, LeaseStep.CORRECT): LeaseState.ENDED,
}

# Members that rules name for every event: in Python 3.11 looking one up in its enum takes ten times as long.
GONE, IDLE, BUSY, LEAVING, SERVED = DeviceState
CHECK_IN, TAKE, FREE, SERVE, DISMISS, LEAVE = DeviceStep
OFFERED, RUNNING, ABSENT, DELIVERED, ENDED = LeaseState
ACCEPT, MISS, RETURN, DELIVER, END, CORRECT = LeaseStep

PLACED = (OFFERED, RUNNING, DELIVERED)  # states that take a place of the request


class RequestState(StrEnum):
    FILLING = "filling"
    COLLECTING = "collecting"
    CLOSED = "closed"
    ABORTED = "aborted"


class RequestStep(StrEnum):
    FILL = "fill"
    CLOSE = "close"
    ABORT = "abort"


REQUEST: Mapping[tuple[RequestState, RequestStep], RequestState] = {
    (RequestState.FILLING, RequestStep.FILL): RequestState.COLLECTING,
    (RequestState.FILLING, RequestStep.CLOSE): RequestState.CLOSED,
    (RequestState.FILLING, RequestStep.ABORT): RequestState.ABORTED,
    (RequestState.COLLECTING, RequestStep.CLOSE): RequestState.CLOSED,
    (RequestState.COLLECTING, RequestStep.ABORT): RequestState.ABORTED,
}


class JobState(StrEnum):
    ARRIVING = "arriving"
    FILLING = "filling"
    COLLECTING = "collecting"
    AGGREGATING = "aggregating"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"


class JobStep(StrEnum):
    OPEN = "open"
    FILL = "fill"
    SETTLE = "settle"  # its attempt closes or aborts
    FINISH = "finished"  # these three are named like the model's JobEnd
    CANCEL = "cancelled"
    FAIL = "failed"


JOB: Mapping[tuple[JobState, JobStep], JobState] = {
    (JobState.ARRIVING, JobStep.OPEN): JobState.FILLING,
    (JobState.ARRIVING, JobStep.FINISH): JobState.FINISHED,
    (JobState.ARRIVING, JobStep.CANCEL): JobState.CANCELLED,
    (JobState.ARRIVING, JobStep.FAIL): JobState.FAILED,
    (JobState.FILLING, JobStep.FILL): JobState.COLLECTING,
    (JobState.FILLING, JobStep.SETTLE): JobState.AGGREGATING,
    (JobState.COLLECTING, JobStep.SETTLE): JobState.AGGREGATING,
    (JobState.AGGREGATING, JobStep.OPEN): JobState.FILLING,
    (JobState.AGGREGATING, JobStep.FINISH): JobState.FINISHED,
    (JobState.AGGREGATING, JobStep.CANCEL): JobState.CANCELLED,
    (JobState.AGGREGATING, JobStep.FAIL): JobState.FAILED,
}


def new_history() -> History:
    return deque(maxlen=HISTORY_LENGTH)


def entries(history: History) -> Iterator[tuple[float, str, str]]:
    """(engine time, kind, text) of each entry, oldest first."""
    return ((at, kind, (text.format(*what) if what else text).rstrip()) for at, kind, text, *what in history)


def tell(history: History) -> list[str]:
    """A line for each entry, oldest first."""
    return [f"{at:.3f} {kind} {text}".rstrip() for at, kind, text in entries(history)]


def advance(
    table: Mapping[tuple[State, Step], State], state: State, step: Step, what: object, history: History
) -> State:
    """The next state of ``what``. Raises InvariantError where the table has no entry."""
    try:
        return table[state, step]
    except KeyError:
        lines = "; ".join(tell(history)) or "nothing"
        raise InvariantError(f"{what}: no step {step} from {state}. Before: {lines}") from None
