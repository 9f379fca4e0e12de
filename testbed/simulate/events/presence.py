"""What a simulation knows of a device that is there: its session, and what it works on."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from coordinator.engine.effects import Effect
from coordinator.engine.ids import JobId, LeaseSeq, SessionSeq
from coordinator.engine.model import Outcome, value
from job_driver.counting import AttemptNo
from testbed.simulate.model import Cut
from testbed.world.arrays import CheckIns

_AT_A_TIME = 4096  # rows that are turned into Python's own numbers


class Kind(IntEnum):
    """What happens next, in the order of events at one instant."""

    RESPONSE = 1
    FINISH = 2
    DUE = 3  # what the engine has due itself
    SESSION_END = 4
    ARRIVAL = 5
    CHECK_IN = 6
    BREAK = 7


RESPONSE, FINISH, DUE, SESSION_END, ARRIVAL, CHECK_IN, BREAK = Kind  # see ``programs.THERE``


@value
class Row:
    """A row of ``CheckIns``, in the order of its columns."""

    start_s: float
    end_s: float
    device: int
    interval: int
    kind: int
    slow: float
    byte_s: float
    crash: bool


class Response(NamedTuple):
    """A task is done then, if its device still has it in hand. In the order of the fields, which is that of events."""

    at: float
    lease: LeaseSeq
    session: SessionSeq
    job: JobId
    no: AttemptNo
    device: int


class Finish(NamedTuple):
    """A device says then that it has finished, if it is still there. In the order of events."""

    at: float
    lease: LeaseSeq
    session: SessionSeq
    outcome: Outcome


@dataclass(slots=True)
class Present:
    """A device that is there, or that the timeline has cut off and that works on."""

    row: Row
    lease: LeaseSeq | None = None  # in hand
    task: Response | None = None  # what its driver has not answered yet
    receipt: Finish | None = None  # under way to it, through its link
    ends_s: float = 0.0  # when its session does
    how: Cut | None = None  # nobody can reach it, for this reason; None: it is within reach
    since_s: float = 0.0  # that it is out of reach
    missed: tuple[Effect, ...] = ()  # what waits in the connections of one that is suspended
    met: frozenset[JobId] = frozenset()  # whose drivers it has a connection to
    told: tuple[LeaseSeq, Outcome] | None = None  # its driver has answered, and no coordinator has heard of it
    gone: bool = False  # and the coordinator has not heard of it yet


def rows(block: CheckIns) -> Iterator[Row]:
    """The rows of a block, in order."""
    columns = (
        block.start_s,
        block.end_s,
        block.device,
        block.interval,
        block.kind,
        block.slow,
        block.byte_s,
        block.crash,
    )
    for first in range(0, len(block), _AT_A_TIME):
        yield from map(Row, *(one[first : first + _AT_A_TIME].tolist() for one in columns))
