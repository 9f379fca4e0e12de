"""The settings of a job: how many devices, which, when, and where its driver keeps and serves things."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal, assert_never

from job_driver.bounds import DriverBounds
from job_driver.job import Job
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.wire.calls import duration
from venn.wire.errors import UsageError
from venn.wire.notation import exact_decimal

ParamValue = bool | int | float | str

STRAGGLERS = {"finish": pb.STRAGGLER_RULE_FINISH, "revoke": pb.STRAGGLER_RULE_REVOKE}
REPEAT = {"once": pb.REPEAT_ONCE, "allow": pb.REPEAT_ALLOW}

PATIENCE_S = 120.0  # with a coordinator that was met and does not answer, unless told otherwise


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run of one job. Durations are seconds. Raises UsageError where two settings do not go together."""

    name: str
    run: str
    owner: str = "me"
    coordinator: str = "127.0.0.1:9700"
    keys: Path | None = None  # folder with a key of the role job; None: the default one
    requirement: common.Requirement = field(default_factory=common.Requirement)  # an empty one: all devices
    requirement_name: str = ""  # for people
    demand: int = 1  # D, devices per round; asynchronously the tasks that are out at a time
    buffer: int | None = None  # None: rounds one after the other; else asynchronous, a round is so many responses
    max_staleness: int | None = None  # asynchronously: an older response is a straggler; None: none is
    over_commit: Fraction = Fraction(0)
    min_response: Fraction = Fraction(4, 5)
    deadline_s: float = 60.0
    lease_s: float | None = None  # None: the deadline
    stragglers: Literal["finish", "revoke"] = "finish"
    repeat: Literal["once", "allow"] = "once"  # how often a device may count in one round, or in one buffer
    rounds: int | None = None  # exact; or:
    max_rounds: int | None = None  # the job's ``stop`` may end it earlier
    compute_s: float = 0.0  # of a task on a device whose cpu score is 1, where time is modelled
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    data: str = ""  # the name of the devices' local data; empty: none
    held_out: Path | None = None
    seed: int = 0
    folder: Path | None = None  # None: a temporary one, and nothing to resume
    resume: bool = False
    bind: str = "127.0.0.1:0"
    advertise: str = ""  # host:port that devices dial; empty: what was bound
    insecure: bool = False
    fsync: bool = False  # on: what was acknowledged survives a power cut; off: a SIGKILL
    deterministic: bool = False  # responses are summed in the order of their leases
    start_at: float | None = None  # Unix seconds: ready before, submitted then
    patience_s: float | None = None  # with a coordinator that does not answer; None: 120 s, 10 s before it ever did
    most_response_bytes: int = 2**30  # where the aggregator takes any arrays
    bounds: DriverBounds = field(default_factory=DriverBounds)

    def __post_init__(self) -> None:
        if (self.rounds is None) == (self.max_rounds is None):
            raise _wrong("give exactly one of --rounds and --max-rounds", "--rounds 10")
        positive = {"--demand": self.demand, "--rounds": self.limit, "--deadline": self.deadline_s}
        for flag, value in positive.items():
            if value <= 0:
                raise _wrong(f"{flag} must be above 0, not {value}", f"{flag} 10")
        if not 0 < self.min_response <= 1:
            raise _wrong("--min-response must be above 0 and at most 100%", "--min-response 80%")
        if self.over_commit < 0 or self.compute_s < 0 or (self.lease_s is not None and self.lease_s <= 0):
            raise _wrong("--over-commit and --compute must not be negative, --lease must be above 0", "--lease 15s")
        if self.buffer is not None and not 0 < self.buffer <= self.demand:
            raise _wrong(f"--buffer must be 1 to --demand, {self.demand}, not {self.buffer}", "--demand 20 --buffer 8")
        if self.buffer is not None and self.over_commit > 0:
            raise _wrong("--over-commit and --buffer do not go together", "a larger --demand")
        if self.max_staleness is not None and (self.buffer is None or self.max_staleness < 0):
            raise _wrong("--max-staleness needs --buffer, and is at least 0", "--buffer 8 --max-staleness 10")
        if self.resume and self.folder is None:
            raise _wrong("--resume needs the --dir to resume from", "--dir runs/digits --resume")

    @property
    def limit(self) -> int:
        """The last round."""
        return self.rounds if self.rounds is not None else self.max_rounds or 0

    @property
    def responses_needed(self) -> int:
        """The number of responses that close a round: K = ceil(min_response x D), or the buffer."""
        if self.buffer is not None:
            return self.buffer
        wanted = self.min_response * self.demand
        return -(-wanted.numerator // wanted.denominator)

    @property
    def key(self) -> common.JobKey:
        """The name of the job at the coordinator."""
        return common.JobKey(owner=self.owner, name=self.name, run=self.run)

    def keep_receipts_s(self, driver_grace_s: float) -> float:
        """Seconds after an attempt's end in which a ticket of it may be shown: a lease, its grace, and 60 s."""
        return (self.lease_s or self.deadline_s) + driver_grace_s + 60.0

    def spec(self, job: Job) -> pb.JobSpec:
        """The job as the scheduler knows it. Only devices that have the job's data and packages are eligible."""
        return pb.JobSpec(
            requirement=with_labels(self.requirement, self.data, job.packages),
            requirement_name=self.requirement_name,
            rounds=self.rounds or 0,
            demand=self.demand,
            min_response=exact_decimal(self.min_response),
            over_commit=exact_decimal(self.over_commit),
            deadline=duration(self.deadline_s),
            lease=None if self.lease_s is None else duration(self.lease_s),
            stragglers=STRAGGLERS[self.stragglers],
            workload=self.workload,
            asynchronous=None
            if self.buffer is None
            else pb.Asynchronous(buffer=self.buffer, max_staleness=self.max_staleness),
            repeat=REPEAT[self.repeat],
        )

    @property
    def workload(self) -> common.Workload:
        """The workload of a task where time is modelled."""
        return common.Workload(compute=duration(self.compute_s))

    def param_values(self) -> dict[str, common.Value]:
        """The parameters as they travel."""
        return {name: _value(value) for name, value in self.params.items()}


def with_labels(wanted: common.Requirement, data: str, packages: Sequence[str]) -> common.Requirement:
    """A requirement that asks, in addition, that the device has the data and each package."""
    labels = ([("data", data)] if data else []) + [("package", name) for name in packages]
    items = [] if wanted.WhichOneof("kind") in (None, "all") else [wanted]
    equal = common.OPERATOR_EQUAL
    items += [
        common.Requirement(comparison=common.Comparison(name=name, operator=equal, text=text)) for name, text in labels
    ]
    if not items:
        return common.Requirement(all=common.AllDevices())
    return items[0] if len(items) == 1 else common.Requirement(every=common.Requirements(items=items))


def _value(value: ParamValue) -> common.Value:
    match value:
        case bool():
            return common.Value(boolean=value)
        case int():
            return common.Value(integer=value)
        case float():
            return common.Value(number=value)
        case str():
            return common.Value(text=value)
        case _:
            assert_never(value)


def _wrong(message: str, example: str) -> UsageError:
    return UsageError("SETTINGS", message, fix=f"for example: {example}")
