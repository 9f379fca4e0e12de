"""A scenario as a value, resolved: every job and fleet with all that it inherits.

The text below a key is its reference: docs/scenario.md is made from it.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from pydantic import Field

from device_agent.confine.settings import DISK_BYTES, FILES, PROCESSES, Wanted
from device_agent.spec import DeviceSpec
from testbed.scenario import fields
from testbed.scenario.backends import DEFAULT, BackendSpec, backend_spec
from testbed.scenario.document import written
from testbed.scenario.errors import Part
from testbed.scenario.expect import Verdict, evaluate, with_defaults
from testbed.scenario.population import DrawnJobs, Population
from testbed.world.absences import Expansion, on_fleets
from testbed.world.arrays import Matching
from testbed.world.fleets import FleetSpec, expand
from testbed.world.limits import Limits
from venn.wire.notation import Constant


class Data(Part):
    """A data set that is split over all devices; each keeps its own share, and no device has what is held out."""

    source: fields.Source
    """Where the samples come from: `sklearn-digits` (1,797 handwritten digits of 8 x 8 pixels), or FILE.npz with the
    arrays `x` and `y`."""

    split: fields.Split = "dirichlet(3)"
    """How the samples are divided among the devices. With `dirichlet(A)` each class goes to all devices in proportions
    drawn from Dirichlet(A), so that a smaller A leaves a device fewer classes. With `iid` they are divided at random
    and evenly. No device is left empty."""

    held_out: fields.MinorPart = Fraction(1, 5)
    """The part that no device gets. The job's `evaluate` is given it after each round."""


class Workload(Part):
    """What a task costs where its time is modelled."""

    compute: fields.Duration = 0.0
    """How long a task takes on a device with cpu 1. A device with cpu 8 takes an eighth of it."""

    download: fields.Bytes = 0
    """The size of the model that a task fetches from its driver. Simulated links take their time for it. Real devices
    fetch the real model, and do not use this."""

    upload: fields.Bytes = 0
    """The size of the response that a task sends to its driver; used as `download` is."""


class Job(Part):
    """One learning or analytics job, and its driver."""

    file: fields.JobFile | None = None
    """The job file, a Python file that ends in `job = Job(...)`. A relative path starts at the scenario's folder. Not
    needed with `backend: sim`, which trains nothing."""

    requirement: fields.RequirementText = "all"
    """Which devices may serve the job: a name from `requirements`, or a requirement itself."""

    data: fields.Name | None = None
    """The data set that its tasks read. Only devices that have a share of it are eligible. Without it: none."""

    demand: fields.Count
    """How many devices a round asks for. With `buffer`: how many are at work at any time."""

    buffer: fields.Count | None = None
    """Makes the job asynchronous (FedBuff): a round closes whenever this many responses are there, at most the demand,
    and the devices at work continue. `min_response`, `deadline` and `stragglers` then have no effect, except that the
    deadline is the length of a lease if `lease` is not given. `over_commit` must be 0."""

    max_staleness: fields.Limit | None = None
    """With `buffer`: the most rounds by which a response's model may be old. An older response is a straggler. Without
    it all count, with less weight the older they are."""

    over_commit: fields.Surplus = Fraction(0)
    """How many devices more than the demand are leased, as a part of it, so that a round need not wait for the
    slowest."""

    min_response: fields.Portion = Fraction(4, 5)
    """A round closes when this part of the demand has responded."""

    deadline: fields.LongDuration
    """The time from the opening of an attempt (one try of a round). Without enough responses by then it is aborted, and
    the round is tried again."""

    lease: fields.LongDuration | None = None
    """How long a device may keep a task. Without it: as long as the deadline."""

    stragglers: fields.StragglerRule = "finish"
    """What happens to tasks that still run when their round closes: they `finish`, and count as stragglers, or the
    coordinator takes their leases back (`revoke`)."""

    repeat: fields.Repeat = "once"
    """How often a device may count in one round, however many attempts it takes part in, or with `buffer` in one
    buffer: `once`, or as often as it responds (`allow`)."""

    rounds: fields.Count | None = None
    """The exact number of rounds, known to the scheduler. The job file's `stop` is not called. Give either this or
    `max_rounds`."""

    max_rounds: fields.Count | None = None
    """The most rounds. The job file's `stop` may end the job earlier, and the scheduler takes the number as unknown.
    Give either this or `rounds`."""

    params: Mapping[fields.ParameterName, fields.Parameter] = Field(default_factory=dict)
    """Passed to the job file's function as `task.params`."""

    arrives: fields.Duration = 0.0
    """When the job arrives, after the start of the run."""

    workload: Workload = Workload()
    """What a task costs a device; see below."""

    deterministic: fields.Truth = False
    """Whether responses are aggregated in the order of their leases, not of their arrival. Then the same responses give
    the same model to the last bit."""


class Fleet(Part):
    """Devices of one kind. A value that is a distribution is drawn once per device, or once per session."""

    count: fields.Count
    """How many devices."""

    devices: fields.DevicesSource | None = None
    """What each device reports: `phones`, a generated phone each, or a file: CSV or Parquet of capabilities, or a
    pickled dictionary of FedScale or Venn. The fleet's own keys override these values. docs/population.md describes
    both."""

    cpu: fields.Score | None = None
    """The cpu score of a device: a capability that requirements test. Modelled task time is divided by it. Without it:
    the value from `devices`, or 1."""

    memory: fields.Size | None = None
    """The memory that a device reports, for requirements to test. It limits nothing. Without it a device reports none,
    and no comparison on memory holds."""

    os: fields.Score | None = None
    """The level of the operating system that a device reports, for requirements to test."""

    labels: Mapping[fields.LabelName, fields.LabelValues] = Field(default_factory=dict)
    """Free labels, such as `{site: lab}`, for requirements to test. `fleet` and `data` are set for every device."""

    session: fields.Lasting | None = None
    """How long a device stays, each time. Without it: always."""

    gap: fields.Lasting | None = None
    """How long a device is away between two sessions. `gap` and `session` need each other."""

    trace: fields.TraceFile | None = None
    """The sessions of its devices, in place of `session` and `gap`. It is a CSV file with a row `device,start_s,end_s`
    for each session, in seconds from the start and in order of time. Each device, by its name (`phones-01`), has at
    least one."""

    crash: fields.Chance = Fraction(0)
    """The part of the sessions that end without a goodbye: the socket breaks, or with a process per device the process
    is killed."""

    tasks_per_session: fields.Limit = 0
    """The most tasks in a session; 0: no limit."""

    tasks_per_day: fields.Limit = 0
    """The most tasks in a day (24 hours, counted from the start); 0: no limit."""

    processes: fields.Count = 1
    """How many processes host the fleet. With as many as `count` each device has its own. Fleets with 1 share one
    process. With `backend: compose` each device has a container, so as many as `count`."""

    profile: fields.ProfileName | None = None
    """A kind of device (`venn profile list`), or a file such as mine.yaml. It gives `cpu`, `memory`, and, as far as
    they can be enforced here, the limits below. The fleet's own keys override it."""

    link: fields.ProfileName | None = None
    """A kind of link, in place of the profile's. It gives `up`, `down`, `delay` and `jitter` in the same way."""

    cores: fields.Cores | None = None
    """How much of this machine's processor a device's task gets. Its time is then measured, not modelled. Needs a
    process for each device, as `memory_limit` does."""

    memory_limit: fields.SizeLimit | None = None
    """The memory that a device's task may use. Beyond it the task is killed."""

    up: fields.Rate | None = None
    """How fast a device sends, all of its connections together."""

    down: fields.Rate | None = None
    """How fast a device receives, all of its connections together."""

    delay: fields.Duration = 0.0
    """Added to each round trip, half of it each way."""

    jitter: fields.Duration = 0.0
    """How much the delay of a round trip varies, evenly up and down. The order of packets is kept."""

    loss: fields.Loss = Fraction(0)
    """The part of the packets that is lost, each way. On real devices it needs a kernel with netem (`venn doctor`)."""

    @property
    def limits(self) -> Limits:
        """The limits of each of its devices."""
        return Limits(
            cores=self.cores,
            memory_bytes=self.memory_limit,
            up_bits=self.up,
            down_bits=self.down,
            delay_s=self.delay,
            jitter_s=self.jitter,
            loss=float(self.loss),
        )


class Confine(Part):
    """What the job code on each device may use, and whether it must be held to that."""

    level: fields.ConfineLevel = Wanted.POSSIBLE
    """Whether job code must be confined: `possible`, by what this machine has; `required`, or no device starts; `off`,
    not at all."""

    memory: fields.SizeLimit | None = None
    """The data of each process of a task. Without it: half of this machine's memory, shared by the workers of a
    program."""

    disk: fields.SizeLimit = DISK_BYTES
    """The size of a task's temporary folder, and of a file in it."""

    files: fields.Files = FILES
    """How many files a task may have open."""

    processes: fields.Processes = PROCESSES
    """How many processes and threads a task may have."""


class Scenario(Part):
    """One run: what is asked for, by whom, on which devices."""

    version: fields.Version
    """The version of the scenario format: 1."""

    name: fields.Name
    """The name of the run, in the report and in its folder's name."""

    seed: fields.Seed = 0
    """The seed of all random draws of the run. The same seed gives the same devices, sessions and split."""

    policy: fields.Policy = "venn"
    """The scheduling policy, which decides the device for each job: an installed policy (`venn policy list`), or
    FILE.py:NAME for your own."""

    backend: fields.Backend = DEFAULT
    """What the devices are: `process`, real processes on this machine; `compose`, a container each; `sim`, simulated
    ones in virtual time."""

    duration: fields.LongDuration = 600.0
    """The longest time that the run may take. After that it ends unfinished."""

    time_scale: fields.Factor = 1.0
    """Multiplies what is modelled: arrivals, sessions, gaps, task times and deadlines. At 0.1 a run takes a tenth of
    the time."""

    scale: fields.Factor = 1.0
    """Multiplies the number of devices and the demand of each round, so that contention stays the same: 0.1 makes a
    tenth of the check-ins. Demands are rounded, half up, to 1 at least. Only with `backend: sim`."""

    rounds_scale: fields.Factor = 1.0
    """Multiplies the rounds of each job (rounded, half up, to 1 at least), the arrival times of jobs and the gap
    between two arrivals, so that contention stays the same. Only with `backend: sim`."""

    match: fields.Match = Matching.WHILE_PRESENT
    """When a device may be given a task: at any time `while present`, or only `at check-in`. In the second case it
    leaves if there is none for it, and after its one task. Only with `backend: sim`."""

    noise: fields.Spread = 0.0
    """How much task times vary: each is multiplied by a log-normal factor with median 1 and this log-sigma. Only with
    `backend: sim`."""

    requirements: Mapping[fields.Name, fields.RequirementText] = Field(default_factory=dict)
    """Which devices may serve a job, by name. Jobs with the same requirement form a job group."""

    data: Mapping[fields.Name, Data] = Field(default_factory=dict)
    """The data sets, by name."""

    jobs: Mapping[fields.Name, Job] = Field(default_factory=dict)
    """The jobs, by name; at least one, unless jobs are drawn."""

    drawn_jobs: DrawnJobs | None = None
    """Jobs drawn at random, in addition to `jobs` or in place of them. Only with `backend: sim`."""

    fleets: Mapping[fields.Name, Fleet] = Field(default_factory=dict)
    """The devices, by the name of their fleet; at least one. A device is named after its fleet: `budget-07`."""

    population: Population | None = None
    """In place of `fleets` with `backend: sim`: millions of devices, generated or from files; see below."""

    confine: Confine | None = None
    """How job code is confined on the devices; see below. docs/security.md says by what. Not with `backend: sim`."""

    churn: tuple[fields.ChurnEntry, ...] = ()
    """What is done to the devices in addition to their own sessions, and when: `{at: 30s, crash: 25% of flagship}`.
    docs/churn.md describes the verbs."""

    expect: tuple[fields.Expected, ...] = ()
    """What must hold of the run's summary. Otherwise the exit code is 1. By default every job is expected to finish."""

    def dump(self) -> str:
        """YAML text of all keys, resolved, that loads to an equal scenario from any folder; without keys that have no
        value, such as a limit that is not set."""
        return written(self.model_dump(mode="python", exclude_none=True))

    def about(self) -> dict[str, object]:
        """What the manifest of a run says of its scenario."""
        stated = {"name": self.name, "policy": self.policy, "seed": self.seed, "backend": self.backend}
        return {**stated, "jobs": list(self.jobs), "expect": [str(expected) for expected in self.expect]}

    def requirement_of(self, job: str) -> tuple[str, str]:
        """The name and the text of a job's requirement. One that stands in the job itself is its own name."""
        stated = self.jobs[job].requirement
        return stated, self.requirements.get(stated, stated)

    @property
    def backend_spec(self) -> BackendSpec:
        """What its backend can do. Raises UsageError BACKEND."""
        return backend_spec(self.backend)

    @property
    def devices(self) -> int:
        """The number of devices in all fleets."""
        return sum(fleet.count for fleet in self.fleets.values())

    def fleet_specs(self) -> list[FleetSpec]:
        """The fleets as ``testbed.world.fleets`` takes them."""
        return [
            FleetSpec(
                name=name,
                cpu=Constant(1.0) if fleet.cpu is None and fleet.devices is None else fleet.cpu,
                crash=float(fleet.crash),
                **{key: value for key, value in fleet if key in FleetSpec.__slots__ and key not in ("cpu", "crash")},
            )
            for name, fleet in self.fleets.items()
        ]

    def drawn_devices(self) -> list[DeviceSpec]:
        """All devices as a run draws them, without ``churn`` and with data that nobody reads. Raises UsageError."""
        nowhere = dict.fromkeys(self.data, [Path("share.npz")] * self.devices)
        return expand(self.fleet_specs(), seed=self.seed, time_scale=self.time_scale, data=nowhere)

    def timeline(self, devices: Sequence[DeviceSpec]) -> Expansion:
        """What ``churn`` comes to on these devices, those of all fleets."""
        return on_fleets(self.churn, devices, seed=self.seed, scale=self.time_scale)

    def verdicts(self, summary: Mapping[str, object]) -> list[Verdict]:
        """What is expected, the default included, against the run's summary."""
        return evaluate(with_defaults(self.expect), summary)
