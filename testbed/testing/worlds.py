"""Small worlds to simulate: jobs and sessions, written by hand. Times are seconds of engine time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from coordinator.engine.ids import JobId
from coordinator.engine.model import Asynchronous, JobSpec, Repeat, StragglerRule, Workload
from coordinator.engine.requirements import AllDevices, Capabilities, Comparison, Every, Requirement
from testbed.simulate.build import simulated_settings
from testbed.simulate.model import SimulatedJob, Simulation
from testbed.world.arrays import CheckIns


@dataclass(frozen=True)
class Session:
    """A row of a trace: a device is there from ``start`` to ``end``. The fields are columns of CheckIns."""

    start: float
    end: float
    device: int
    kind: int = 0
    slow: float = 1.0
    byte_s: float = 0.0
    crash: bool = False


def needs(*letters: str) -> Requirement:
    """The requirement of devices that have all these capabilities; of all devices if none is named."""
    items = tuple(Comparison(letter, ">=", 1.0) for letter in letters)
    return items[0] if len(items) == 1 else Every(items) if items else AllDevices()


def has(letters: str) -> Capabilities:
    """A kind of device that has a capability for each letter."""
    return Capabilities(dict.fromkeys(letters, 1.0))


def job(
    name: str,
    demand: int,
    requirement: Requirement | None = None,
    *,
    rounds: int = 1,
    known: bool = True,
    arrives: float = 0.0,
    min_response: str = "1",
    over_commit: str = "0",
    deadline: float = 1e6,
    lease: float = 1e6,
    stragglers: StragglerRule = StragglerRule.FINISH,
    compute: float = 0.0,
    down: int = 0,
    up: int = 0,
    asynchronous: Asynchronous | None = None,
    repeat: Repeat = Repeat.ONCE,
) -> SimulatedJob:
    """A job and its driver.

    ``rounds``: it ends when so many have closed; ``known``: the scheduler knows that number. ``compute``: seconds of a
    task on a device with ``slow`` 1; ``down``, ``up``: bytes. The others are fields of JobSpec.
    """
    spec = JobSpec(
        JobId(name),
        requirement or AllDevices(),
        str(requirement or AllDevices()),
        rounds if known else None,
        demand,
        Fraction(min_response),
        Fraction(over_commit),
        deadline,
        lease,
        stragglers,
        Workload(compute, down, up),
        asynchronous,
        repeat,
    )
    return SimulatedJob(spec, arrives, rounds)


def block(sessions: Sequence[Session]) -> CheckIns:
    """The columns of sessions, which come in order of their starts."""
    intervals: dict[int, int] = {}
    numbers = []
    for one in sessions:
        intervals[one.device] = intervals.get(one.device, -1) + 1
        numbers.append(intervals[one.device])
    return CheckIns(
        start_s=np.array([one.start for one in sessions], np.float64),
        end_s=np.array([one.end for one in sessions], np.float64),
        device=np.array([one.device for one in sessions], np.int64),
        interval=np.array(numbers, np.int64),
        kind=np.array([one.kind for one in sessions], np.int32),
        slow=np.array([one.slow for one in sessions], np.float64),
        byte_s=np.array([one.byte_s for one in sessions], np.float64),
        crash=np.array([one.crash for one in sessions], np.bool_),
    )


def world(
    jobs: Iterable[SimulatedJob],
    sessions: Sequence[Session],
    *,
    kinds: Sequence[Capabilities] = (Capabilities(),),
    seed: int = 1,
    blocks: int = 1,
    **settings: object,
) -> Simulation:
    """A simulation of these jobs on these sessions, for ``testbed.simulate.run.simulate``.

    ``settings``: further fields of Simulation. ``blocks``: how many the trace comes in.
    """
    rows = sorted(sessions, key=lambda one: one.start)

    def trace() -> Iterator[CheckIns]:
        whole = block(rows)
        for part in np.array_split(np.arange(len(rows)), blocks):
            yield whole.take(part)

    ordered = tuple(sorted(jobs, key=lambda one: (one.arrives_s, one.spec.job)))
    made = Simulation(simulated_settings(seed, "test"), ordered, tuple(kinds), trace)
    for name, value in settings.items():
        object.__setattr__(made, name, value)
    return made
