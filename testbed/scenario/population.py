"""The devices of a simulation, by the million: generated or from files."""

from fractions import Fraction
from pathlib import Path

from testbed.population.day import Day
from testbed.population.sessions import PHONES as AS_PHONES
from testbed.population.sessions import Availability
from testbed.population.spec import PopulationSpec
from testbed.scenario.fields import (
    Capability,
    Chance,
    Devices,
    DevicesSource,
    Duration,
    Factor,
    Lasting,
    Limit,
    LongDuration,
    SessionsSource,
    Swing,
)
from testbed.scenario.part import Part
from testbed.scenario.readers import GENERATED, PHONES


class Population(Part):
    """Devices by the million, generated or from files; docs/population.md says what the files hold."""

    devices: DevicesSource = PHONES
    """What each device is: `phones`, a generated phone each, or a file: CSV or Parquet of capabilities, or a pickled
    dictionary of FedScale or Venn (`.pickle`, `.pkl` or no suffix)."""

    sessions: SessionsSource = GENERATED
    """When the devices are there: `generated`, or a file: CSV with `device,start_s,end_s` sorted by start, or a pickled
    trace of FedScale."""

    count: Devices | None = None
    """How many devices have generated sessions. Give either this or `check_ins_per_day`. Without both: as many as the
    file of devices has. A file with fewer devices is repeated from its beginning."""

    check_ins_per_day: Factor | None = None
    """How many generated sessions begin in 24 hours, on average; it sets the number of devices. With day and night they
    are 2 % fewer."""

    session: Lasting = AS_PHONES.session
    """How long a device stays, each time."""

    gap: Lasting = AS_PHONES.gap
    """How long a device is away between two sessions."""

    swing: Swing = AS_PHONES.day.swing
    """How much faster a gap passes when most devices come than when fewest do; 1: no day and night."""

    peak: Duration = AS_PHONES.day.peak_s
    """When most devices come, after midnight; time 0 is midnight."""

    crash: Chance = Fraction(0)
    """The part of the sessions that end without a goodbye."""

    replay: LongDuration | None = None
    """The sessions of this period are repeated until all jobs have ended. Without it generated sessions continue, and
    those of a file end."""

    tasks_per_session: Limit = 0
    """The most tasks in a session; 0: no limit."""

    tasks_per_day: Limit = 0
    """The most tasks in a day (24 hours, counted from the start); 0: no limit."""

    slow: Capability | None = None
    """The capability that the time of a task is proportional to: compute x its value / its mean over the devices.
    Without it: compute / cpu."""

    def spec(self) -> PopulationSpec:
        """As ``testbed.population.check_ins`` takes it."""
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
