"""A fleet as it was asked for, a device as it will be, and population.jsonl, which holds one device per line."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from device_agent.absences import Absence
from device_agent.availability import as_trace
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
