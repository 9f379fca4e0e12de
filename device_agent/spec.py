"""Descriptions of devices, from flags or a line of population.jsonl."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from device_agent.availability import Absence, Interval, Spans, always, as_trace, generated, traced, without
from venn.v1.common_pb2 import Capabilities
from venn.wire.errors import UsageError
from venn.wire.notation import Constant, parse_distribution
from venn.wire.text import printable

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
MOST_LABEL_VALUES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """The description of one device. Its sessions are a pure function of its seed and its name, live and simulated.

    Numbers are in base units (a score, bytes). All times have the time scale of their run in them.
    """

    device: str
    fleet: str = ""  # of a scenario
    seed: int = 0
    numbers: Mapping[str, float] = field(default_factory=dict)  # those that it reports: cpu, memory, os and others
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    data: Mapping[str, Path] = field(default_factory=dict)  # its own share of each data set, by name
    session: str | None = None  # a distribution of durations in the notation; None: always there
    gap: str | None = None  # the same; None: no gap
    trace: tuple[tuple[float, float], ...] | None = None  # its sessions; None: as the two say
    crash: float = 0.0  # probability that a session ends without a goodbye
    tasks_per_session: int = 0  # 0: no limit
    tasks_per_day: int = 0  # 0: no limit
    process: str | None = None  # that hosts it: its own name if it has one to itself; None: the one that fleets share
    absences: tuple[Absence, ...] = ()  # by a run's timeline; in order of time, without overlap

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.device):
            raise UsageError(
                "NAME",
                "is not a device name",
                where=repr(printable(self.device, 80)),
                fix="use 1 to 64 letters, digits, '.', '_' and '-'",
            )
        if not 0 <= self.crash <= 1:
            raise UsageError("CRASH", f"crash {self.crash:g} is not between 0 and 1", where=self.device, fix="e.g. 30%")
        if self.gap is not None and self.session is None:
            raise UsageError("GAP", "a gap needs sessions", where=self.device, fix="give --session exp(8s) too")
        for name, values in self.labels.items():
            if len(values) > MOST_LABEL_VALUES:
                fix = f"at most {MOST_LABEL_VALUES} values"
                raise UsageError("LABEL", f"the label {name} has {len(values)} values", where=self.device, fix=fix)

    @property
    def alone(self) -> bool:
        """Whether it has a process to itself."""
        return self.process == self.device

    def intervals(self, trace: Spans | None = None) -> Iterator[Interval]:
        """The intervals in which the device is there. Raises UsageError."""
        own = self._own_intervals(trace)
        return without(own, self.absences) if self.absences else own

    def _own_intervals(self, trace: Spans | None) -> Iterator[Interval]:
        if trace is not None:
            return traced(self.seed, self.device, trace, self.crash)
        if self.trace is not None:
            return traced(self.seed, self.device, {self.device: self.trace}, self.crash)
        if self.session is None:
            return always()
        gap = Constant(0.0, "duration") if self.gap is None else parse_distribution(self.gap)
        return generated(self.seed, self.device, parse_distribution(self.session), gap, self.crash)

    def capabilities(self) -> Capabilities:
        message = Capabilities(numbers=self.numbers)
        for name, values in self.labels.items():
            message.labels[name].values.extend(values)
        return message

    def to_json(self) -> dict[str, Any]:
        """A line of population.jsonl."""
        value = {each.name: getattr(self, each.name) for each in fields(self)}
        data = {name: str(path) for name, path in self.data.items()}
        return {**value, "data": data, "absences": [absence.to_json() for absence in self.absences]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "DeviceSpec":
        """Raises UsageError, KeyError, TypeError, ValueError or AttributeError for anything but a device."""
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


def read_population(path: Path, only: str | None = None) -> list[DeviceSpec]:
    """Read the devices of a population.jsonl; ``only`` the one of that name. Raises UsageError, naming the line."""
    devices = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    devices.append(_from_line(line, f"{path}:{number}"))
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UsageError("POPULATION", message, where=str(path), fix="name a population.jsonl") from error
    if only is None:
        return devices
    found = [device for device in devices if device.device == only]
    if not found:
        raise UsageError(
            "POPULATION", f"has no device {printable(only, 64)}", where=str(path), fix="name one of its devices"
        )
    return found


def _from_line(line: str, where: str) -> DeviceSpec:
    try:
        return DeviceSpec.from_json(json.loads(line))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"is not a device: {type(error).__name__}: {error}"
        raise UsageError("POPULATION", message, where=where, fix="use the file as `venn run` wrote it") from error
    except UsageError as error:
        error.where = f"{where}: {error.where}"
        raise
