"""What summary.json holds: the figures of a run, each with its unit in its name."""

from dataclasses import dataclass, field

from coordinator.engine.explain import Why
from coordinator.engine.model import LeaseSum

CLOCK = "seconds since the coordinator started"  # the zero of every time of a run; a simulated one starts at 0


@dataclass(frozen=True, slots=True)
class Waited:
    """A part of a job's scheduling delay."""

    why: Why
    job: str  # the name of the one that had the devices; empty: none
    rule: str  # the policy that gave them away, or the reason of a pause
    text: str  # the same in words
    seconds: float


@dataclass(frozen=True, slots=True)
class Staleness:
    """The staleness of an asynchronous job's responses in closed rounds, in rounds."""

    mean: float
    most: int


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often devices counted again, in a job that lets a device count several times in a round."""

    responses: int | None  # in closed rounds, of devices that count there already; None: nobody counted


@dataclass(frozen=True, slots=True)
class JobFigures:
    """What a job came to: JCT = delay + collection + gaps, exactly. An unfinished job has neither JCT nor gaps.

    The delay of an attempt ends when all its places are taken, its collection when it closes or aborts. An attempt of
    an asynchronous job has no delay: all of it is collection.
    """

    name: str
    requirement: str  # its name, else its text
    finished: bool
    rounds: int  # closed
    aborts: int
    arrived_s: float
    jct_s: float | None
    delay_s: float
    collect_s: float
    gaps_s: float | None
    wasted_device_s: float  # leased, and in no closed round
    accuracy: float | None = None  # of the last round
    metrics: dict[str, float] = field(default_factory=dict)  # of the last round
    overhead_s: float | None = None  # of the JCT: neither modelled nor measured on devices; None: not known
    leases: int | None = None  # granted; None: nobody counted
    stragglers: int | None = None  # None: nobody counted
    staleness: Staleness | None = None  # None: not asynchronous, or nobody counted
    repeats: Repeats | None = None  # None: a device counts once a round
    waits: tuple[Waited, ...] = ()  # why it was delayed; adds up to delay_s, unless nobody knows
    message: str = ""  # why it did not finish


@dataclass(frozen=True, slots=True)
class Expected:
    """An expectation of the scenario, and whether it held."""

    expect: str
    got: float | None  # None: the run has no such number
    held: bool
    judged: bool = True  # False: it is about what is not measured in a simulation


@dataclass(frozen=True, slots=True)
class Injected:
    """One cause, and what became of the sessions that it hit."""

    name: str  # the verb
    actions: int
    observed: dict[
        str, int
    ]  # how their sessions ended, by the coordinator's reason; adds up to ``actions``, or empty: nobody looked
    slowest_s: float | None  # from the action to the end of its session, at most; None: no session ended


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """The tasks of one job on one fleet whose processor was really limited; means over those that finished."""

    fleet: str
    job: str
    tasks: int  # >= 1
    measured_s: float  # wall time of the job's function, on one thread of a warm worker
    modelled_s: float | None  # the job's ``workload.compute`` over the device's cpu; None: neither was stated
    compute_cpu_s: float  # processor time of it
    held_back: float  # how often the limit was used up meanwhile


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of one fleet."""

    fleet: str
    key: str
    asked: str  # in the notation
    read_back: float | None  # base unit, as the kernel has it; None: the kernel does not hold it
    means: str  # empty: it was not in force


@dataclass(frozen=True, slots=True)
class Emulation:
    """How the devices of a run were slowed down."""

    cpu: str
    memory: str
    link: str
    processes: int  # devices that had a process of their own
    limits: tuple[Limit, ...] = ()
    degraded: tuple[str, ...] = ()  # what was asked and was not in force
    tasks: tuple[TaskTimes, ...] = ()  # measured beside modelled, where the processor was limited
    confined: tuple[str, ...] = ()  # the means that held job code, as read back, with how many programs each

    @property
    def limited(self) -> frozenset[str]:
        """The fleets whose tasks took the time that they really took."""
        return frozenset(limit.fleet for limit in self.limits if limit.key == "cores" and limit.means)


EVERY_EVENT = "every event is asked for"  # why a simulation with a journal is not in bulk


@dataclass(frozen=True, slots=True)
class Simulated:
    """How a simulation went, beside what its jobs did."""

    devices: int
    path: str  # "events" or "bulk"
    why: str  # it could not be in bulk; empty: it could, or need not
    check_ins: int
    plans: int
    virtual_s: float  # that passed
    wall_s: float  # that it took


@dataclass(frozen=True, slots=True)
class Stall:
    """A moment in which a process stalled."""

    process: str
    at_s: float  # when it began, on the run's clock
    for_s: float
    jobs: tuple[str, ...] = ()  # whose figures it may have moved, by at most its length

    @property
    def end_s(self) -> float:
        """When it ended, on the run's clock."""
        return self.at_s + self.for_s


@dataclass(frozen=True, slots=True)
class HostSummary:
    """How busy the machine was."""

    cpu_max: float | None  # fraction of all cores, the busiest second; None: not sampled
    cpu_mean: float | None
    memory_max_bytes: int | None
    lag_p99_max_s: dict[str, float]  # by process: how late its event loop was at worst
    late_fraction: float  # of finished tasks: their work took longer than their modelled time
    stalls: tuple[Stall, ...]  # by their beginning
    stalled_s: dict[str, float]  # by job: seconds of its JCT in which a process that it needs stalled
    saturated: bool
    reasons: tuple[str, ...]  # why saturated, when, and what to do
    too_small: tuple[str, ...]  # what it lacked for the fleet, as estimated before the start


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the auditor found wrong."""

    kind: str  # UPPER_SNAKE, for programs
    subject: str  # the lease or the attempt
    message: str


@dataclass(frozen=True, slots=True)
class Audit:
    """What the auditor found: every acknowledged response is in one of four places; the last is where none may be."""

    leases: LeaseSum
    responses: int  # acknowledged: a device holds a COUNTED receipt, or a driver wrote that decision down
    in_rounds: int
    in_aborted: int
    pending: int  # of attempts that were open when the record ends
    lost: int
    counted_twice: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run."""

    name: str
    policy: str
    seed: int
    backend: str
    devices: int
    duration_s: float  # from the first job's arrival to the end of the last
    interrupted: bool
    jobs: tuple[JobFigures, ...]  # by arrival
    unfinished_jobs: int
    mean_jct_s: float | None  # over finished jobs
    sessions: int
    sessions_by_end: dict[str, int]  # as the coordinator observed it; "open" when the record ends
    devices_lost_in_task: (
        int | None
    )  # sessions that ended while a lease was RUNNING, Goodbye or not; None: nobody counted
    lost_in_task_by_end: dict[str, int]
    processes_killed: int  # crashes of devices with a process of their own: each was a SIGKILL
    injected: tuple[Injected, ...]  # what the timeline did, by verb, and what was observed of it
    leases: LeaseSum
    responses_acknowledged: int
    responses_in_rounds: int
    responses_in_aborted: int
    responses_pending: int  # of attempts that were open when the record ends
    responses_lost: int
    responses_counted_twice: int
    emulation: Emulation
    host: HostSummary
    expectations: tuple[Expected, ...]
    digest: str  # of all decisions, 64 bits in hex
    audit: Audit
    simulated: Simulated | None = None  # None: it was live
    cut_at_s: float | None = None  # the journal breaks off then, without its end; None: it is whole, or there is none
    clock: str = CLOCK  # what every point in time counts from

    @property
    def passed(self) -> bool:
        """Whether every expectation held that could be judged."""
        return all(one.held for one in self.expectations if one.judged)
