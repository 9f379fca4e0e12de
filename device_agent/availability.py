"""When a device is there: numbered intervals, from distributions or from a trace. Pure.

Intervals are a function of (seed, device) alone, so that every policy meets the same devices at the same times. Seconds
count from the run's epoch.
"""

import csv
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from venn.wire.errors import UsageError
from venn.wire.notation import Distribution

SETTLING_CYCLES = 64  # sessions and gaps before the epoch: by then how they began is forgotten
LEAST_SESSION_S = 0.001

Spans = Mapping[str, Sequence[tuple[float, float]]]  # device -> its (start, end), seconds, in order


class Ending(Enum):
    """How a device goes when its interval is over."""

    GOODBYE = "goodbye"
    CRASH = "crash"  # its process dies, and forgets all
    CUT = "cut"  # its connections break, and it works on
    SILENT = "silent"  # nothing comes from it or reaches it, its connections stay open, and it works on


@dataclass(frozen=True, slots=True)
class Interval:
    """The device is there from ``start_s`` until ``end_s``."""

    number: int  # from 1
    start_s: float
    end_s: float  # inf: for ever
    ends: Ending = Ending.GOODBYE


def always() -> Iterator[Interval]:
    """One interval without an end."""
    yield Interval(1, 0.0, math.inf)


def generated(seed: int, device: str, session: Distribution, gap: Distribution, crash: float) -> Iterator[Interval]:
    """Sessions and gaps in turn, without an end, in their steady state at 0: the first may have begun before.

    ``crash`` is the probability that a session ends without a goodbye.
    """
    rng = _generator(seed, device, "availability")
    at = -(session.mean + gap.mean) * (SETTLING_CYCLES + rng.random())
    number = 0
    while True:
        start = at
        end = start + max(LEAST_SESSION_S, session.sample(rng))
        at = end + max(0.0, gap.sample(rng))
        ends = _ending(rng, crash)
        if end > 0:
            number += 1
            yield Interval(number, max(0.0, start), end, ends)


def traced(seed: int, device: str, spans: Spans, crash: float) -> Iterator[Interval]:
    """What a trace says of this device. Raises UsageError NOT_IN_TRACE."""
    if device not in spans:
        raise UsageError(
            "NOT_IN_TRACE", "the trace has no such device", where=device, fix="give it a row, or --name another"
        )
    rng = _generator(seed, device, "crash")
    for number, (start, end) in enumerate(spans[device], start=1):
        yield Interval(number, start, end, _ending(rng, crash))


def as_trace(value: Sequence[Sequence[float]] | None) -> tuple[tuple[float, float], ...] | None:
    """A device's sessions out of JSON. Raises TypeError or ValueError for anything else."""
    return None if value is None else tuple((float(start), float(end)) for start, end in value)


def upcoming(intervals: Iterable[Interval], now_s: float, first: int = 1) -> Iterator[Interval]:
    """Those that are not over, from the ``first`` number on."""
    return (interval for interval in intervals if interval.end_s > now_s and interval.number >= first)


def read_trace(path: Path) -> Spans:
    """A CSV file with the columns device, start_s, end_s. Raises UsageError TRACE, naming the line."""
    spans: dict[str, list[tuple[float, float]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            missing = [name for name in ("device", "start_s", "end_s") if name not in (rows.fieldnames or ())]
            if missing:
                raise _bad_trace(f"{path}:1", f"the columns {', '.join(missing)} are missing")
            for row in rows:
                _add_row(spans, row, f"{path}:{rows.line_num}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise _bad_trace(str(path), f"cannot be read: {why}") from error
    return spans


def _ending(rng: np.random.Generator, crash: float) -> Ending:
    return Ending.CRASH if rng.random() < crash else Ending.GOODBYE


def _add_row(spans: dict[str, list[tuple[float, float]]], row: Mapping[str, str | None], where: str) -> None:
    try:
        start, end = float(row["start_s"] or ""), float(row["end_s"] or "")
    except ValueError:
        raise _bad_trace(where, "start_s and end_s must be seconds") from None
    if not (math.isfinite(start) and start < end):
        raise _bad_trace(where, f"a session from {start:g} s to {end:g} s has no length")
    mine = spans.setdefault(row["device"] or "", [])
    if mine and start < mine[-1][1]:
        raise _bad_trace(where, f"begins at {start:g} s, before the session above it ends at {mine[-1][1]:g} s")
    mine.append((start, end))


def _bad_trace(where: str, message: str) -> UsageError:
    return UsageError("TRACE", message, where=where, fix="write rows like flagship-07,0.0,41.5 in order of time")


def _generator(seed: int, device: str, purpose: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed}/{device}/{purpose}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))
