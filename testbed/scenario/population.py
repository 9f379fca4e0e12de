"""The keys ``drawn_jobs`` and ``population``: jobs drawn from a table, and devices by the million."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

from pydantic import Field, field_validator

from device_agent.sessions import Availability, Day
from testbed.scenario import fields
from testbed.scenario.errors import Part, wrong
from testbed.scenario.readers import GENERATED, PHONES
from testbed.world.jobs import PAPER, Which
from testbed.world.population import PopulationSpec
from testbed.world.sessions import PHONES_AVAILABILITY
from venn.wire.notation import format_fraction

_ALL = MappingProxyType({"all": Fraction(1)})


class DrawnJobs(Part):
    """Jobs that are drawn at random; the same seed draws the same ones."""

    count: fields.Count
    """How many jobs. They are called `job-01`, `job-02` and so on, in order of arrival."""

    table: fields.JobTable = PAPER
    """The table that jobs are drawn from, each row with the same probability. It is `paper` (the jobs of the evaluation
    of Venn), or a CSV file with the columns `participants`, `rounds` and `deadline_s`."""

    which: fields.Rows = Which.ALL
    """Which rows of the table. `all` is every row. `small` and `large` have a total demand over all rounds below or
    above the average row's. `low` and `high` have a demand in a round below or above the average row's."""

    requirement: Mapping[fields.RequirementText, fields.Portion] = Field(default_factory=lambda: dict(_ALL))
    """Which devices may serve the jobs: the probability of each requirement, in all 100 %."""

    arrives: fields.Lasting
    """The gap between two arrivals, and before the first. `exp(30m)` makes them a Poisson process."""

    compute: fields.Duration = 0.0
    """As `workload.compute` of a job."""

    download: fields.Bytes = 0
    """As `workload.download` of a job."""

    upload: fields.Bytes = 0
    """As `workload.upload` of a job."""

    min_response: fields.Portion = Fraction(4, 5)
    """As that of a job."""

    repeat: fields.Repeat = "once"
    """As that of a job."""

    @field_validator("requirement", mode="after")
    @classmethod
    def _is_a_whole(cls, parts: Mapping[str, Fraction]) -> Mapping[str, Fraction]:
        total = sum(parts.values(), Fraction(0))
        if total != 1:
            raise wrong(f"the probabilities add up to {format_fraction(total)}", "make them add up to 100%")
        return parts


class Population(Part):
    """Devices by the million, generated or from files; docs/population.md says what the files hold."""

    devices: fields.DevicesSource = PHONES
    """What each device is: `phones`, a generated phone each, or a file: CSV or Parquet of capabilities, or a pickled
    dictionary of FedScale or Venn (`.pickle`, `.pkl` or no suffix)."""

    sessions: fields.SessionsSource = GENERATED
    """When the devices are there: `generated`, or a file: CSV with `device,start_s,end_s` sorted by start, or a pickled
    trace of FedScale."""

    count: fields.Devices | None = None
    """How many devices have generated sessions. Give either this or `check_ins_per_day`. Without both: as many as the
    file of devices has. A file with fewer devices is repeated from its beginning."""

    check_ins_per_day: fields.Factor | None = None
    """How many generated sessions begin in 24 hours, on average; it sets the number of devices. With day and night they
    are 2 % fewer."""

    session: fields.Lasting = PHONES_AVAILABILITY.session
    """How long a device stays, each time."""

    gap: fields.Lasting = PHONES_AVAILABILITY.gap
    """How long a device is away between two sessions."""

    swing: fields.Swing = PHONES_AVAILABILITY.day.swing
    """How much faster a gap passes when most devices come than when fewest do; 1: no day and night."""

    peak: fields.Duration = PHONES_AVAILABILITY.day.peak_s
    """When most devices come, after midnight; time 0 is midnight."""

    crash: fields.Chance = Fraction(0)
    """The part of the sessions that end without a goodbye."""

    replay: fields.LongDuration | None = None
    """The sessions of this period are repeated until all jobs have ended. Without it generated sessions continue, and
    those of a file end."""

    tasks_per_session: fields.Limit = 0
    """The most tasks in a session; 0: no limit."""

    tasks_per_day: fields.Limit = 0
    """The most tasks in a day (24 hours, counted from the start); 0: no limit."""

    slow: fields.Capability | None = None
    """The capability that the time of a task is proportional to: compute x its value / its mean over the devices.
    Without it: compute / cpu."""

    def spec(self) -> PopulationSpec:
        """The population as ``testbed.world.population`` takes it."""
        about = Availability(self.session, self.gap, Day(self.swing, self.peak))
        count = self.count or 0
        if self.check_ins_per_day is not None:
            count = about.devices_for(self.check_ins_per_day / 86_400.0)
        return PopulationSpec(
            devices=None if self.devices == PHONES else Path(self.devices),
            sessions=None if self.sessions == GENERATED else Path(self.sessions),
            count=count,
            availability=about,
            crash=float(self.crash),
            replay_s=self.replay,
            slow=self.slow,
        )
