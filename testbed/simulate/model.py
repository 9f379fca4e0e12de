"""What a simulation is given, and what it gives back. Times are seconds of engine time."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import NormalDist

import numpy as np

from coordinator.engine.chance import Purpose, draw, index
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq
from coordinator.engine.model import EngineSettings, JobSpec, LeaseEnd
from coordinator.engine.model import Outcome as Decided
from coordinator.engine.requirements import Capabilities
from testbed.runfolder.attempts import Attempts
from testbed.world.arrays import CheckIns, Matching, Reals
from testbed.world.links import LinkSchedule
from testbed.world.timeline import Action


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """A job and what its driver does: it opens the next attempt at once when one has ended."""

    spec: JobSpec  # ``rounds`` is what the scheduler knows
    arrives_s: float  # >= 0
    rounds: int  # it ends when so many have closed, >= 1


class Cut(StrEnum):
    """How a timeline gets a device out of reach; it keeps what it has in hand. Words of ``churn``."""

    DISCONNECT = "disconnect"
    PARTITION = "partition"
    SUSPEND = "suspend"


@dataclass(frozen=True, slots=True)
class Break:
    """What a timeline does to a program: it is killed, or suspended."""

    at_s: float
    until_s: float  # it is there again, or goes on; ``at_s``: one that was killed is started again at once
    job: JobId | None  # whose driver it is; None: the coordinator
    stands_still: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """One cell: a world and the settings of the engine that schedules it. The policy comes beside it."""

    settings: EngineSettings
    jobs: tuple[SimulatedJob, ...]  # by (arrival, job id)
    kinds: tuple[Capabilities, ...]  # devices of one kind answer every job's requirement alike; fewer than 2**31
    trace: Callable[[], Iterator[CheckIns]]  # from the start, the same each time; ends, or goes on for ever
    samples: tuple[DeviceId, ...] = ()  # by kind: one of its devices; empty: no requirement names devices
    devices: int = 0  # how many there are; 0: nobody has counted
    names: tuple[DeviceId, ...] = ()  # of devices by number; empty: their numbers
    matching: Matching = Matching.WHILE_PRESENT
    tasks_per_session: int = 0  # 0: no limit
    tasks_per_day: int = 0  # 0: no limit
    limits: tuple[tuple[int, int], ...] = ()  # (per session, per day) by kind, in place of these two; empty: these
    links: tuple[LinkSchedule | None, ...] = ()  # by device; None: bytes take no time; empty: for all
    noise_sigma: float = 0.0  # log-sigma of what a task's time is multiplied by; 0: nothing
    until_s: float = np.inf  # given up then: what is due later does not happen
    breaks: tuple[Break, ...] = ()  # of programs, in the order of the timeline
    actions: tuple[Action, ...] = ()  # of a timeline, by time, for the record: the trace, links and breaks have them
    cuts: Mapping[tuple[int, float], Cut] = field(default_factory=dict)  # by (device, when): how it gets out of reach

    def sample(self, kind: int) -> tuple[DeviceId, Capabilities]:
        """A device that stands for all of its kind: whatever requirement it meets, they all meet."""
        return self.samples[kind] if self.samples else DeviceId(""), self.kinds[kind]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a simulation is."""

    now_s: float
    check_ins: int
    jobs_ended: int


Watch = Callable[[Progress], bool]  # called now and then; False: stop here, with what came of it so far


@dataclass(frozen=True, slots=True)
class Unheard:
    """A response that a driver has decided about, and that no coordinator has heard of."""

    lease: LeaseSeq
    job: JobId
    round: int
    attempt: int
    outcome: Decided


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What came of it, the same by either path."""

    ended_s: Reals  # per job; NaN: unfinished
    attempts: Attempts
    check_ins: int
    plans: int
    leases: dict[LeaseEnd, int] = field(default_factory=dict)  # ended, by reason
    live: int = 0  # leases not ended when the simulation did
    device_s: Reals = field(default_factory=lambda: np.empty(0))  # leased, per job
    wasted_device_s: Reals = field(default_factory=lambda: np.empty(0))  # leased and in no closed round, per job
    now_s: float = 0.0  # when it ended
    digest: str = ""  # of all leases and transitions, see ``coordinator.engine.record.Digest``
    unheard: tuple[Unheard, ...] = ()
    killed: bool = False  # the coordinator was, and was not back when the simulation ended
    path: str = ""  # "events" or "bulk"
    why: str = ""  # it could not be in bulk; empty: it could
    wall_s: float = 0.0  # that it took


QUANTILES = 4096  # of the log-normal distribution, at the middles of equal shares


def noise_table(sigma: float) -> Reals:
    """Log-normal factors with median 1 and log-sigma ``sigma`` >= 0, ascending, of shape (QUANTILES,)."""
    normal = NormalDist()
    return np.array([math.exp(sigma * normal.inv_cdf((i + 0.5) / QUANTILES)) for i in range(QUANTILES)])


def noise_index(seed: int, lease: int) -> int:
    """Which of the table's factors is a lease's."""
    return index(draw(seed, Purpose.NOISE, lease), QUANTILES)
