"""Fleets and their devices.

What a device is depends on (seed, fleet, its number) and on nothing else. So another fleet, a larger count, or one more
capability leaves all other devices and values as they were.
"""

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path

import numpy as np

from coordinator.engine.requirements import Capabilities
from device_agent.spec import DeviceSpec, Ending, Interval, Spans, read_trace
from testbed.world.arrays import CheckIns
from venn.wire.errors import UsageError
from venn.wire.files import write_atomic
from venn.wire.notation import Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """Devices of one kind. ``cpu``, ``memory`` and ``os`` are drawn once per device, ``session`` and ``gap`` by it."""

    name: str
    count: int  # >= 1
    devices: str | None = None  # `phones` or a file: what they report that is not said below; None: nothing else
    cpu: Distribution | None = None  # a score; None: not reported, or as ``devices`` has it, here and below
    memory: Distribution | None = None  # bytes
    os: Distribution | None = None  # a level
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # all but `fleet` and `data`
    session: Distribution | None = None  # seconds, before the time scale; None: always available
    gap: Distribution | None = None  # seconds, before the time scale
    trace: Path | None = None  # of its devices' sessions, in place of both; seconds, before the time scale
    crash: float = 0.0  # the part of its sessions that end without a goodbye, in [0, 1]
    tasks_per_session: int = 0  # 0: no limit
    tasks_per_day: int = 0  # 0: no limit
    processes: int = 1  # that host it: `count` is one each; 1 is none of its own; in 1 .. count


def write_population(path: Path, devices: Iterable[DeviceSpec]) -> None:
    """One line per device. Raises PeerError OUT_OF_SPACE."""
    write_atomic(path, "".join(json.dumps(device.to_json(), separators=(",", ":")) + "\n" for device in devices))


OURS = ("fleet", "data")  # labels that every device gets from us


def expand(
    fleets: Sequence[FleetSpec], *, seed: int, time_scale: float, data: Mapping[str, Sequence[Path]]
) -> list[DeviceSpec]:
    """All devices, fleet by fleet. ``data`` holds for each data set one share per device, in that order.

    Raises UsageError for fleets that no devices can be made of.
    """
    total = sum(fleet.count for fleet in fleets)
    if total == 0:
        raise UsageError("NO_DEVICES", "there is no device", where="fleets", fix="give a fleet a count of 1 or more")
    for name, shares in data.items():
        if len(shares) != total:
            raise ValueError(f"data set {name} has {len(shares)} shares for {total} devices")
    devices: list[DeviceSpec] = []
    for fleet in fleets:
        _check(fleet)
        spans = read_trace(fleet.trace) if fleet.trace is not None else None
        for index, has in enumerate(capabilities_of(fleet, seed)):
            own = {name: shares[len(devices)].absolute() for name, shares in data.items()}
            devices.append(_device(fleet, index, has, seed, time_scale, own, spans))
    return devices


_FEW, _MANY = (
    16,
    1024,
)  # rows of the first block, and of any: sessions have no end, and those made beyond it are in vain


def check_ins_of(devices: Sequence[DeviceSpec], kind: Sequence[int] = ()) -> Iterator[CheckIns]:
    """The sessions of all devices in order of time, with their absences. Devices go by their place.

    ``kind``: of each device; empty: nobody asks for it.
    """
    slow = [1.0 / device.numbers["cpu"] for device in devices]
    kind = kind or [0] * len(devices)
    sessions = heapq.merge(*(_sessions_of(number, device) for number, device in enumerate(devices)), key=_start)
    size = _FEW
    while rows := list(islice(sessions, size)):
        size = min(2 * size, _MANY)
        yield CheckIns(
            start_s=np.array([each.start_s for _, each in rows], np.float64),
            end_s=np.array([each.end_s for _, each in rows], np.float64),
            device=np.array([number for number, _ in rows], np.int64),
            interval=np.array([each.number for _, each in rows], np.int64),
            kind=np.array([kind[number] for number, _ in rows], np.int32),
            slow=np.array([slow[number] for number, _ in rows], np.float64),
            byte_s=np.zeros(len(rows)),
            crash=np.array([each.ends is not Ending.GOODBYE for _, each in rows], np.bool_),
        )


def _sessions_of(number: int, device: DeviceSpec) -> Iterator[tuple[int, Interval]]:
    return ((number, each) for each in device.intervals())


def _start(session: tuple[int, Interval]) -> tuple[float, int]:
    number, interval = session
    return interval.start_s, number


def device_name(fleet: str, index: int, count: int) -> str:
    """``phones-01``: the first of a fleet, by its number from 0."""
    return f"{fleet}-{index + 1:0{max(2, len(str(count)))}}"


def _check(fleet: FleetSpec) -> None:
    where = f"fleets.{fleet.name}"
    if not 1 <= fleet.processes <= max(1, fleet.count):
        raise UsageError(
            "PROCESSES",
            f"{fleet.processes} processes cannot host {fleet.count} devices",
            where=f"{where}.processes",
            fix=f"at most {fleet.count}, one for each device",
        )
    for name in OURS:
        if name in fleet.labels:
            raise UsageError("LABEL", f"the label {name} is set for every device", where=where, fix="take another name")


def capabilities_of(fleet: FleetSpec, seed: int) -> list[Capabilities]:
    """What each device has by ``fleet.devices``. Raises UsageError for a file that no devices can be made of."""
    if fleet.devices is None:
        return [Capabilities()] * fleet.count
    from testbed.world.population import reported

    found = reported(fleet.devices, fleet=fleet.name, count=fleet.count, seed=seed)
    for number, one in enumerate(found, start=1):
        _check_given(fleet, number, one)
    return found


def _check_given(fleet: FleetSpec, number: int, has: Capabilities) -> None:
    """Check that a device's task times are known, and that it has no label of ours. Raises UsageError."""
    where = f"fleets.{fleet.name}.devices"
    if fleet.cpu is None and not has.numbers.get("cpu", 0.0) > 0:
        told = f"reports {has.numbers['cpu']:g} as its" if "cpu" in has.numbers else "reports no"
        message = f"device {number} {told} cpu, which task times depend on"
        raise UsageError("CPU", message, where=where, fix="give each a cpu above 0 there, or the fleet one")
    for name in OURS:
        if name in has.labels:
            message = f"device {number} has the label {name}, which is set for every device"
            raise UsageError("LABEL", message, where=where, fix="take another name for the column")


def _device(
    fleet: FleetSpec,
    index: int,
    has: Capabilities,
    seed: int,
    time_scale: float,
    data: Mapping[str, Path],
    spans: Spans | None,
) -> DeviceSpec:
    drawn = {"cpu": fleet.cpu, "memory": fleet.memory, "os": fleet.os}
    given_labels = {name: tuple(values) for name, values in has.labels.items()}  # a value each
    labels = {**given_labels, **fleet.labels, "fleet": (fleet.name,)}
    if data:
        labels["data"] = tuple(data)
    name = device_name(fleet.name, index, fleet.count)
    return DeviceSpec(
        device=name,
        fleet=fleet.name,
        seed=seed,
        numbers={
            **has.numbers,
            **{
                capability: distribution.sample(_generator(seed, fleet.name, index, capability))
                for capability, distribution in drawn.items()
                if distribution is not None
            },
        },
        labels=labels,
        data=data,
        session=_scaled(fleet.session, time_scale),
        gap=_scaled(fleet.gap, time_scale),
        trace=None if spans is None else _sessions(fleet, name, spans, time_scale),
        crash=fleet.crash,
        tasks_per_session=fleet.tasks_per_session,
        tasks_per_day=fleet.tasks_per_day,
        process=_process(fleet, index, name),
    )


def _generator(seed: int, fleet: str, index: int, capability: str) -> np.random.Generator:
    digest = sha256(f"{seed}/{fleet}/{index}/{capability}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def _sessions(fleet: FleetSpec, device: str, spans: Spans, time_scale: float) -> tuple[tuple[float, float], ...]:
    """Sessions of a device in its fleet's trace; what lies before the start is left out."""
    if device not in spans:
        where = f"fleets.{fleet.name}.trace"
        raise UsageError("TRACE", f"{fleet.trace} has no device {device}", where=where, fix="give it a row there")
    return tuple((max(0.0, start) * time_scale, end * time_scale) for start, end in spans[device] if end > 0)


def _scaled(distribution: Distribution | None, time_scale: float) -> str | None:
    return None if distribution is None else str(distribution.scaled(time_scale))


def _process(fleet: FleetSpec, index: int, device: str) -> str | None:
    if fleet.processes == fleet.count:
        return device
    if fleet.processes == 1:
        return None
    return f"{fleet.name}-process-{index * fleet.processes // fleet.count + 1}"
