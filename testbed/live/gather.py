"""From what containers wrote to what a report reads: the devices that there were, and the limits that they had.

Each device wrote into its folder what it is (``population.jsonl``) and what its entrypoint held it to (``limits.json``;
testbed/live/throttle/entrypoint.py).
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from device_agent.spec import DeviceSpec, read_population
from testbed.live.throttle.plan import SPARE_CORES
from testbed.live.throttle.throttles import moved_by_device
from testbed.report.host import EMULATION_FILE
from testbed.runfolder.jsonlines import Row, maybe, number, rows_in, text, texts
from testbed.runfolder.paths import RunFolder
from testbed.world.fleets import write_population
from testbed.world.limits import COUNTS, OF_A_CONTAINER, SAME
from testbed.world.profiles import FIELDS
from venn.wire.files import write_atomic

SESSIONS = "sessions.jsonl"  # of an agent that had some


@dataclass(frozen=True, slots=True)
class _Device:
    name: str
    fleet: str
    said: bool  # which limits it had
    limits: tuple[Row, ...]
    degraded: tuple[str, ...]
    passed: Mapping[str, object] | None  # what its relay has passed; None: it has none


def gather(folder: RunFolder, *, cores: int) -> None:
    """Writes devices/population.jsonl and emulation.json. ``cores`` are those of this machine."""
    found = sorted((folder.root / "devices").glob("*/population.jsonl"))
    specs = [device for path in found for device in read_population(path)]
    write_population(folder.population, specs)
    devices = [_device(folder, spec) for spec in specs]
    problems = [*_degraded(devices), *_too_many(devices, cores), *_bypassed(folder, devices)]
    _write(folder, devices, problems)


def write_held(folder: RunFolder, specs: Iterable[DeviceSpec], degraded: Sequence[str]) -> None:
    """Writes emulation.json: how the containers of these devices held their limits, and what was not in force."""
    _write(folder, [_device(folder, spec) for spec in specs], degraded)


def not_held(folder: RunFolder, specs: Iterable[DeviceSpec], *, restarted: Collection[str]) -> list[str]:
    """What of the limits of these devices was not in force, a line each. The relay of one that was ``restarted`` has
    begun to count anew, and is not judged.
    """
    devices = [_device(folder, spec) for spec in specs]
    whole = [device for device in devices if device.name not in restarted]
    return [*_silent(folder, devices), *_degraded(devices), *_bypassed(folder, whole)]


def _write(folder: RunFolder, devices: Sequence[_Device], degraded: Sequence[str]) -> None:
    fleets: dict[str, list[_Device]] = {}
    for device in devices:
        if device.limits:
            fleets.setdefault(device.fleet, []).append(device)
    told = {
        "fleets": [{"fleet": fleet, "count": len(members)} for fleet, members in fleets.items()],
        "limits": [row for fleet, members in fleets.items() for row in _limits(fleet, members)],
        "degraded": list(degraded),
    }
    write_atomic(folder.root / EMULATION_FILE, json.dumps(told, indent=2) + "\n")


def _device(folder: RunFolder, spec: DeviceSpec) -> _Device:
    own = folder.device_host(spec.device)
    told, passed = _object(own / OF_A_CONTAINER), _object(own / COUNTS)
    held = told or {}
    counts = None if passed is None else next((each for each in passed.values() if isinstance(each, dict)), {})
    limits, degraded = tuple(rows_in(held.get("limits"))), tuple(texts(held, "degraded"))
    return _Device(spec.device, spec.fleet, told is not None, limits, degraded, counts)


def _limits(fleet: str, members: list[_Device]) -> Iterator[dict[str, object]]:
    """A row for each limit: all means that its devices have, and the value read back that is furthest from what was
    asked."""
    for key in dict.fromkeys(text(row, "key") for device in members for row in device.limits):
        rows = [row for device in members for row in device.limits if text(row, "key") == key]
        asked = text(rows[0], "asked")
        read = [value for row in rows if (value := maybe(row.get("read_back"))) is not None]
        furthest = max(read, key=lambda value: abs(value - FIELDS[key](asked)), default=None)
        means = " and ".join(dict.fromkeys(text(row, "means") for row in rows if text(row, "means")))
        yield {"fleet": fleet, "key": key, "asked": asked, "read_back": furthest, "means": means}


def _silent(folder: RunFolder, devices: list[_Device]) -> Iterator[str]:
    for device in devices:
        if not device.said and (folder.device_host(device.name) / SESSIONS).exists():
            yield f"{device.name}: does not say which limits were in force"


def _degraded(devices: list[_Device]) -> Iterator[str]:
    """A line for all devices of a fleet that lack the same."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for device in devices:
        for line in device.degraded:
            lacking.setdefault((device.fleet, line), []).append(device.name)
    for (fleet, line), names in lacking.items():
        yield f"{names[0] if len(names) == 1 else f'{len(names)} devices of {fleet}'}: {line}"


def _too_many(devices: list[_Device], cores: int) -> Iterator[str]:
    """Quotas that are never reached slow nothing down."""
    asked = sum(number(row, "read_back") for device in devices for row in device.limits if text(row, "key") == "cores")
    have = cores - SPARE_CORES
    if asked > have:
        yield f"all devices together have {asked:.2f} cores and this machine {have:g} for them: not all are reached"


def _bypassed(folder: RunFolder, devices: list[_Device]) -> Iterator[str]:
    """Devices that say that they moved more bytes than their relay has passed."""
    moved = moved_by_device(folder.root)
    for device in devices:
        if device.passed is not None:
            seen = (number(dict(device.passed), "up"), number(dict(device.passed), "down"))
            if any(have < (1 - SAME) * said for have, said in zip(seen, moved.get(device.name, (0, 0)), strict=True)):
                yield f"{device.name}: moved bytes past its link"


def _object(path: Path) -> Row | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
