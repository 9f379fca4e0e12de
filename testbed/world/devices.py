"""Fleets and their devices.

A fleet as it was asked for, a device as it will be, and population.jsonl, which holds one device per line.

Fleets become devices. What a device is depends on (seed, fleet, its number) and on nothing else.

So another fleet, a larger count, or one more capability leaves all other devices and values as they were.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.engine.requirements import Capabilities
from device_agent.availability import Absence, Spans, as_trace, read_trace
from venn.wire.errors import UsageError
from venn.wire.files import read_json_lines, write_atomic
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One device. Its sessions are a pure function of its seed and its name."""

    device: str
    fleet: str
    seed: int
    numbers: Mapping[str, float]  # cpu, memory, os and others: those that it reports, in base units
    labels: Mapping[str, tuple[str, ...]]  # with `fleet`, and `data` if it has any
    data: Mapping[str, Path]  # its share of each data set, absolute
    session: str | None  # a distribution of durations in the notation, with the time scale in it
    gap: str | None
    crash: float
    tasks_per_session: int
    tasks_per_day: int
    process: str | None  # that hosts it: its own name if it has one to itself; None: the one that fleets share
    trace: tuple[tuple[float, float], ...] | None = None  # its sessions, with the time scale in them
    absences: tuple[Absence, ...] = ()  # by the run's timeline, with the time scale in it; in order, without overlap

    @property
    def alone(self) -> bool:
        """Whether it has a process to itself."""
        return self.process == self.device

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "fleet": self.fleet,
            "seed": self.seed,
            "numbers": dict(self.numbers),
            "labels": {name: list(values) for name, values in self.labels.items()},
            "data": {name: str(path) for name, path in self.data.items()},
            "session": self.session,
            "gap": self.gap,
            "trace": self.trace,
            "crash": self.crash,
            "tasks_per_session": self.tasks_per_session,
            "tasks_per_day": self.tasks_per_day,
            "process": self.process,
            "absences": [absence.to_json() for absence in self.absences],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "DeviceSpec":
        """Raises KeyError, TypeError, ValueError or AttributeError for anything but a device."""
        return cls(
            device=str(value["device"]),
            fleet=str(value["fleet"]),
            seed=int(value["seed"]),
            numbers={name: float(number) for name, number in value["numbers"].items()},
            labels={name: tuple(map(str, values)) for name, values in value["labels"].items()},
            data={name: Path(path) for name, path in value["data"].items()},
            session=value["session"],
            gap=value["gap"],
            trace=as_trace(value["trace"]),
            crash=float(value["crash"]),
            tasks_per_session=int(value["tasks_per_session"]),
            tasks_per_day=int(value["tasks_per_day"]),
            process=value["process"],
            absences=tuple(Absence.from_json(absence) for absence in value["absences"]),
        )


def write_population(path: Path, devices: Iterable[DeviceSpec]) -> None:
    """One line per device. Raises PeerError OUT_OF_SPACE."""
    write_atomic(path, "".join(json.dumps(device.to_json(), separators=(",", ":")) + "\n" for device in devices))


def read_population(path: Path) -> list[DeviceSpec]:
    """Raises UsageError, which names the line."""
    devices: list[DeviceSpec] = []
    try:
        for line in read_json_lines(path):
            devices.append(DeviceSpec.from_json(line))
    except OSError as error:
        raise UsageError("POPULATION", f"cannot be read: {error.strerror}", where=str(path)) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            "POPULATION",
            f"is not a device: {type(error).__name__}: {error}",
            where=f"{path}:{len(devices) + 1}",
            fix="`venn run` writes this file; take an unchanged one",
        ) from error
    return devices


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
    from testbed.world.population import given  # SciPy comes with it

    found = given(fleet.devices, fleet=fleet.name, count=fleet.count, seed=seed)
    for number, one in enumerate(found, start=1):
        _check_given(fleet, number, one)
    return found


def _check_given(fleet: FleetSpec, number: int, has: Capabilities) -> None:
    """Raises UsageError for a device whose task times would not be known, or with a label of ours."""
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
    """Those of a device in its fleet's trace; what lies before the start is left out."""
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
