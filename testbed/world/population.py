"""Populations: the settings, the kinds of devices that the jobs' requirements tell apart, and the check-ins.

Devices of one kind answer every job's requirement alike. They are found for whole columns at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Capabilities, Comparison, Requirement, comparisons
from device_agent.sessions import Availability, Block
from testbed.world.arrays import CheckIns
from testbed.world.columns import Columns, Devices, GeneratedPhones, chunks
from testbed.world.sessions import PHONES_AVAILABILITY, Replay, sessions
from testbed.world.trace_files import read_devices, read_sessions
from venn.wire.chance import Purpose, Reals, uniform
from venn.wire.errors import UsageError
from venn.wire.text import did_you_mean


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


def reported(devices: str, *, fleet: str, count: int, seed: int) -> list[Capabilities]:
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


Kinds = NDArray[np.int32]

_AT_ONCE = 40  # answers that a code has room for, beside the rank of those before


def atoms(requirements: Iterable[Requirement]) -> tuple[Comparison, ...]:
    """Every comparison in them once, in the order of the first time."""
    return tuple(dict.fromkeys(atom for requirement in requirements for atom in comparisons(requirement)))


class KindTable:
    """The kinds seen so far, numbered in the order of their first device, which stands for all of its kind."""

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._atoms = atoms(requirements)
        self._found: dict[bytes, int] = {}  # answers to the atoms -> kind
        self._capabilities: list[Capabilities] = []

    @property
    def capabilities(self) -> tuple[Capabilities, ...]:
        """Capabilities by kind."""
        return tuple(self._capabilities)

    def kinds(self, columns: Columns) -> Kinds:
        """The kind of each of these devices."""
        answers = np.empty((len(self._atoms), columns.rows), np.bool_)
        for index, atom in enumerate(self._atoms):
            answers[index] = columns.answers(atom)
        first, place = _distinct(answers)
        # New kinds are numbered by their first device, whatever the order of the codes.
        order = np.argsort(first)
        number = np.empty(len(first), np.int32)
        for rank in order.tolist():
            row = int(first[rank])
            key = answers[:, row].tobytes()
            if key not in self._found:
                self._found[key] = len(self._capabilities)
                self._capabilities.append(columns.row(row))
            number[rank] = self._found[key]
        return number[place]

    def met_by_some(self, requirement: Requirement) -> bool:
        """Whether any device seen so far is eligible. A requirement that names devices is not asked for here."""
        return any(requirement.matches(DeviceId(""), each) for each in self._capabilities)


def _distinct(answers: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first column of each distinct kind of column, and for every column the place of its kind among them."""
    place = np.zeros(answers.shape[1], np.int64)
    first = np.zeros(min(1, answers.shape[1]), np.int64)
    for start in range(0, len(answers), _AT_ONCE):
        code = place
        for answer in answers[start : start + _AT_ONCE]:
            code = code * 2 + answer
        _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return first.astype(np.int64), place.astype(np.int64)


ROWS = 1 << 18  # of a block: its columns stay in the cache of a usual machine


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """What the simulator is given of a population."""

    kinds: tuple[Capabilities, ...]  # devices of one kind answer every requirement alike
    trace: Callable[[], Iterator[CheckIns]]  # from the start, the same each time; for ever, or until a file ends
    devices: int  # how many there are
    of_kind: tuple[int, ...]  # how many of each kind
    reports: Devices  # what each of them reports


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """A row per device."""

    kind: Kinds
    slow: Reals
    byte_s: Reals


def check_ins(spec: PopulationSpec, *, seed: int, requirements: Sequence[Requirement]) -> Population:
    """The population that ``seed`` names. ``requirements`` are those of all jobs, and name no devices.

    Raises UsageError: a file that cannot be used, a requirement that no device meets, a device whose task times are not
    known.
    """
    world = _world(spec, seed)
    _check_names(world.devices, spec.slow)
    table = KindTable(requirements)
    rows = _rows(world.devices, world.count, spec.slow, table)
    for requirement in requirements:
        if not table.met_by_some(requirement):
            message = f"none of the {world.count} devices meets {requirement}"
            raise UsageError("NOT_SERVED", message, where="population", fix="`venn population describe` shows them")
    trace = _trace(world.sessions, rows, spec.crash, seed)
    of_kind = tuple(np.bincount(rows.kind, minlength=len(table.capabilities)).tolist())
    return Population(table.capabilities, trace, world.count, of_kind, world.devices)


@dataclass(frozen=True, slots=True, eq=False)
class _World:
    """Devices and sessions, generated or from files."""

    devices: Devices
    count: int
    sessions: Callable[[], Iterator[Block]]  # from the start, the same each time


def _world(spec: PopulationSpec, seed: int) -> _World:
    devices: Devices = GeneratedPhones(seed)
    count, ids = spec.count, None
    if spec.devices is not None:
        file = read_devices(spec.devices)
        devices, ids = file.devices, file.ids
        count = count or file.columns.rows
    if spec.sessions is not None:
        listed = read_sessions(spec.sessions, ids)
        source, count = listed.blocks, listed.devices
    else:
        until_s = np.inf if spec.replay_s is None else spec.replay_s
        source = partial(sessions, spec.availability, count, seed, until_s)
    if spec.replay_s is not None:
        source = Replay(source, count, spec.replay_s, begun_before=spec.sessions is None)
    return _World(devices, count, source)


def _check_names(devices: Devices, slow: str | None) -> None:
    """Check that some device reports the capability that task times depend on. Raises UsageError."""
    wanted = slow or "cpu"
    if wanted not in devices.names:
        hint = did_you_mean(wanted, devices.names) or f"known are {', '.join(devices.names)}"
        message = f"no device reports {wanted}, which task times depend on"
        raise UsageError("SLOW", message, where="population.slow", fix=hint)


def _rows(devices: Devices, count: int, slow: str | None, table: KindTable) -> _Rows:
    rows = _Rows(np.empty(count, np.int32), np.empty(count), np.zeros(count))
    first = 0
    for columns in chunks(devices, count):
        here = slice(first, first + columns.rows)
        rows.kind[here] = table.kinds(columns)
        rows.slow[here] = _positive(columns, slow or "cpu", first)
        if "link" in columns.numbers:
            link = columns.numbers["link"]
            np.divide(8.0, link, out=rows.byte_s[here], where=link > 0)
        first += columns.rows
    slow_s = 1 / rows.slow if slow is None else rows.slow / rows.slow.mean()
    return _Rows(rows.kind, slow_s, rows.byte_s)


def _positive(columns: Columns, name: str, first: int) -> Reals:
    value = columns.numbers.get(name, np.full(columns.rows, np.nan))
    wrong = np.flatnonzero(~((value > 0) & np.isfinite(value)))
    if len(wrong):
        row = int(wrong[0])
        told = "reports no" if np.isnan(value[row]) else f"reports {value[row]:g} as its"
        message = f"device {first + row + 1} {told} {name}, which task times depend on"
        raise UsageError("SLOW", message, where="population.devices", fix="give every device a number above 0")
    return value


def _trace(
    source: Callable[[], Iterator[Block]], rows: _Rows, crash: float, seed: int
) -> Callable[[], Iterator[CheckIns]]:
    def blocks() -> Iterator[CheckIns]:
        for block in source():
            for first in range(0, len(block), ROWS):
                yield _check_ins(block.rows(slice(first, first + ROWS)), rows, crash, seed)

    return blocks


def _check_ins(block: Block, rows: _Rows, crash: float, seed: int) -> CheckIns:
    crashes = np.zeros(len(block), np.bool_)
    if crash:
        crashes = uniform(seed, Purpose.CRASH, block.device, block.number) < crash
    return CheckIns(
        start_s=block.start_s,
        end_s=block.end_s,
        device=block.device,
        interval=block.number,
        kind=rows.kind[block.device],
        slow=rows.slow[block.device],
        byte_s=rows.byte_s[block.device],
        crash=crashes,
    )
