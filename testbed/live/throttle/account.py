"""The account of limits: what was asked of devices, what was read back, and whether it held.

Each container wrote into its folder what it is (``population.jsonl``) and what its entrypoint held it to
(``limits.json``; testbed/live/throttle/entrypoint.py).
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from device_agent.spec import DeviceSpec, read_population
from testbed.live.throttle.means import SPARE_CORES, FleetPlan, Plan
from testbed.live.throttle.tc import RefusedError
from testbed.report.host import EMULATION_FILE
from testbed.runfolder.jsonlines import Row, maybe, number, rows_in, text, texts
from testbed.runfolder.paths import RunFolder
from testbed.world.fleets import write_population
from testbed.world.limits import COUNTS, OF_A_CONTAINER, SAME, same
from testbed.world.profiles import FIELDS
from venn.wire.files import read_json_lines, write_atomic

TOO_FAST = 0.15  # more of the processor than asked, on average over a fleet
LONG_TASK_S = 0.5  # of wall time: a shorter task may lie within a burst
SESSIONS = "sessions.jsonl"  # of an agent that had some


@dataclass(frozen=True, slots=True)
class _Device:
    name: str
    fleet: str
    said: bool  # which limits it had
    limits: tuple[Row, ...]
    degraded: tuple[str, ...]
    passed: Row | None  # what its relay has passed; None: it has none


def gather(folder: RunFolder, *, cores: int) -> None:
    """Write devices/population.jsonl and emulation.json from what containers wrote. ``cores``: of this machine."""
    found = sorted((folder.root / "devices").glob("*/population.jsonl"))
    specs = [device for path in found for device in read_population(path)]
    write_population(folder.population, specs)
    devices = [_device(folder, spec) for spec in specs]
    problems = [*_degraded(devices), *_too_many(devices, cores), *_bypassed(folder, devices)]
    _write(folder, devices, problems)


def write_held(folder: RunFolder, specs: Iterable[DeviceSpec], degraded: Sequence[str]) -> None:
    """Write emulation.json: how the containers of these devices held their limits, and what was not in force."""
    _write(folder, [_device(folder, spec) for spec in specs], degraded)


def not_held(folder: RunFolder, specs: Iterable[DeviceSpec], *, restarted: Collection[str]) -> list[str]:
    """The limits of these devices that were not in force, a line each. The relay of one that was ``restarted`` began to
    count anew, and is not judged.
    """
    devices = [_device(folder, spec) for spec in specs]
    whole = [device for device in devices if device.name not in restarted]
    return [*_silent(folder, devices), *_degraded(devices), *_bypassed(folder, whole)]


def _write(folder: RunFolder, devices: Sequence[_Device], degraded: Sequence[str]) -> None:
    fleets: dict[str, list[_Device]] = {}
    for device in devices:
        if device.limits:
            fleets.setdefault(device.fleet, []).append(device)
    counts = {fleet: len(members) for fleet, members in fleets.items()}
    rows = [row for fleet, members in fleets.items() for row in _limits(fleet, members)]
    _write_emulation(folder.root, counts, rows, degraded)


def _write_emulation(
    root: Path, counts: Mapping[str, int], limits: Sequence[Mapping[str, object]], degraded: Sequence[str]
) -> None:
    """Write emulation.json: the devices of each fleet, a row for each limit, and what was not in force."""
    fleets = [{"fleet": fleet, "count": count} for fleet, count in counts.items()]
    told = {"fleets": fleets, "limits": limits, "degraded": list(degraded)}
    write_atomic(root / EMULATION_FILE, json.dumps(told, indent=2) + "\n")


def _device(folder: RunFolder, spec: DeviceSpec) -> _Device:
    own = folder.device_host(spec.device)
    told, passed = _object(own / OF_A_CONTAINER), _object(own / COUNTS)
    held = told or {}
    counts = None if passed is None else next((each for each in passed.values() if isinstance(each, dict)), {})
    limits, degraded = tuple(rows_in(held.get("limits"))), tuple(texts(held, "degraded"))
    return _Device(spec.device, spec.fleet, told is not None, limits, degraded, counts)


def _limits(fleet: str, members: list[_Device]) -> Iterator[dict[str, object]]:
    """Yield a row for each limit, with all means of its devices, and the value read back that is furthest from what
    was asked."""
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
    """Yield a line for all devices of a fleet that lack the same."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for device in devices:
        for line in device.degraded:
            lacking.setdefault((device.fleet, line), []).append(device.name)
    for (fleet, line), names in lacking.items():
        yield f"{names[0] if len(names) == 1 else f'{len(names)} devices of {fleet}'}: {line}"


def _too_many(devices: list[_Device], cores: int) -> Iterator[str]:
    """Yield a line if the cores of all devices are more than this machine has: such quotas are never reached."""
    asked = sum(number(row, "read_back") for device in devices for row in device.limits if text(row, "key") == "cores")
    have = cores - SPARE_CORES
    if asked > have:
        yield f"all devices together have {asked:.2f} cores and this machine {have:g} for them: not all are reached"


def _bypassed(folder: RunFolder, devices: list[_Device]) -> Iterator[str]:
    """Yield a line for each device that says that it moved more bytes than its relay passed."""
    passed = {device.name: device.passed for device in devices if device.passed is not None}
    for name in bypassed(passed, moved_by_device(folder.root)):
        yield f"{name}: moved bytes past its link"


def bypassed(passed: Mapping[str, Row], moved: Mapping[str, tuple[int, int]]) -> list[str]:
    """The devices that moved more bytes (up, down) than passed their links: they went past them."""
    ways = ("up", "down")
    return [
        name
        for name, row in passed.items()
        for said in [moved.get(name, (0, 0))]
        if any(number(row, way) < (1 - SAME) * bytes_ for way, bytes_ in zip(ways, said, strict=True))
    ]


def _object(path: Path) -> Row | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(slots=True)
class Account:
    """What was asked of the devices of one run, and what was read back."""

    plan: Plan
    fleet_of: Mapping[str, str]  # device -> its fleet, of those that are limited
    read_back: dict[tuple[str, str], float] = field(default_factory=dict)  # (fleet, key) -> the worst value

    def read(self, fleet: FleetPlan, key: str, asked: float | None, got: float | None) -> None:
        """Note what is in force for a device. Raises RefusedError: it is not what was asked."""
        if asked is None:
            return
        if not same(got, asked) or got is None:
            raise RefusedError(f"{fleet.fleet}: {key} {asked:g} was asked, and {got} is in force")
        before = self.read_back.get((fleet.fleet, key), asked)
        self.read_back[fleet.fleet, key] = got if abs(got - asked) >= abs(before - asked) else before

    def too_fast(self, used: Mapping[str, tuple[float, float]]) -> list[str]:
        """Return a line for each fleet whose tasks got more of the processor than was asked for. Note what they got
        (read back where no kernel holds it). ``used`` is processor and wall time by device, in seconds.
        """
        fast = []
        for name, plan in self.plan.fleets.items():
            own = [used[device] for device, fleet in self.fleet_of.items() if fleet == name and device in used]
            wall = sum(each[1] for each in own)
            if plan.limits.cores is None or not plan.cpu or not wall:
                continue
            got = sum(each[0] for each in own) / wall
            self.read_back.setdefault((name, "cores"), got)
            if got > (1 + TOO_FAST) * plan.limits.cores:
                fast.append(f"fleets.{name}.cores: {plan.limits.cores:g} was asked, and tasks had {got:.3g}")
        return fast

    def write(self, root: Path, degraded: Sequence[str]) -> None:
        """Write emulation.json into a run folder: what was asked and what is in force."""
        rows = []
        for name, plan in self.plan.fleets.items():
            for key, value, means in plan.asked():
                got = self.read_back.get((name, key))
                rows.append({"fleet": name, "key": key, "asked": value, "read_back": got, "means": means})
        _write_emulation(root, {name: plan.count for name, plan in self.plan.fleets.items()}, rows, degraded)


def moved_by_device(root: Path) -> dict[str, tuple[int, int]]:
    """Bytes up and down by device, as the agents of a run have counted them."""
    moved: dict[str, tuple[int, int]] = {}
    for path in sorted((root / "devices").glob("*/receipts.jsonl")):
        for row in read_json_lines(path):
            up, down = moved.get(row["device"], (0, 0))
            moved[row["device"]] = (up + row["uploaded"], down + row["downloaded"])
    return moved


def used_by_device(root: Path) -> dict[str, tuple[float, float]]:
    """Processor and wall time of each device's longer tasks, in seconds."""
    used: dict[str, tuple[float, float]] = {}
    for path in sorted((root / "devices").glob("*/receipts.jsonl")):
        for row in read_json_lines(path):
            if row["compute_s"] >= LONG_TASK_S:
                cpu, wall = used.get(row["device"], (0.0, 0.0))
                used[row["device"]] = (cpu + row["compute_cpu_s"], wall + row["compute_s"])
    return used
