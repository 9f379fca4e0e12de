"""The settings of a simulated population.

What a population for the simulator is asked to be.

What the devices of a fleet are where that is not said of the fleet: generated phones, or devices of a file.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from coordinator.engine.requirements import Capabilities
from device_agent.sessions import Availability
from testbed.world.columns import Devices, GeneratedPhones
from testbed.world.sessions import PHONES_AVAILABILITY
from testbed.world.trace_files import read_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationSpec:
    """Devices and their sessions, each generated or from a file."""

    devices: Path | None = None  # None: generated phones
    sessions: Path | None = None  # None: generated; then ``count`` and ``availability`` say how
    count: int = 0  # devices; 0: as many as the file of devices has
    availability: Availability = field(default=PHONES_AVAILABILITY)
    crash: float = 0.0  # the part of the sessions that end without a goodbye, in [0, 1]
    replay_s: float | None = None  # the sessions that begin before it are repeated; None: they are not
    slow: str | None = None  # a task's time is compute x this capability / its mean; None: compute / cpu


PHONES = "phones"


def given(devices: str, *, fleet: str, count: int, seed: int) -> list[Capabilities]:
    """What each of them reports. ``devices`` is PHONES or a file, which is gone through again if it has too few.

    A phone depends on (seed, fleet, its number) alone. Raises UsageError for a file that cannot be read.
    """
    columns = _source(devices, fleet, seed).columns(0, count)
    return [columns.row(index) for index in range(count)]


def _source(devices: str, fleet: str, seed: int) -> Devices:
    if devices != PHONES:
        return read_devices(Path(devices)).devices
    digest = sha256(f"{seed}/{fleet}/{PHONES}".encode()).digest()
    return GeneratedPhones(int.from_bytes(digest[:8], "big"))
