"""What a population for the simulator is asked to be."""

from dataclasses import dataclass, field
from pathlib import Path

from testbed.population.sessions import PHONES, Availability


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationSpec:
    """Devices and their sessions, each generated or from a file."""

    devices: Path | None = None  # None: generated phones
    sessions: Path | None = None  # None: generated; then ``count`` and ``availability`` say how
    count: int = 0  # devices; 0: as many as the file of devices has
    availability: Availability = field(default=PHONES)
    crash: float = 0.0  # the part of the sessions that end without a goodbye, in [0, 1]
    replay_s: float | None = None  # the sessions that begin before it are repeated; None: they are not
    slow: str | None = None  # a task's time is compute x this capability / its mean; None: compute / cpu
