"""What the devices of a fleet are where that is not said of the fleet: generated phones, or devices of a file."""

from hashlib import sha256
from pathlib import Path

from coordinator.engine.requirements import Capabilities
from testbed.population.columns import Devices, GeneratedPhones
from testbed.population.device_files import read_devices

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
