"""Jobs drawn from a table: what each asks for, of whom, and when it comes.

A row of a table says how many participants a round has, how many rounds there are, and their deadline. A row that
stands there twice is twice as likely. ``paper`` are the jobs of the evaluation in Liu et al., "Venn: Resource
Management for Collaborative Learning Jobs", MLSys 2025 (arXiv:2312.08298), in ``paper-jobs.csv``.

What a job is depends on the seed and on its own number only, and its arrival on the gaps before it: a longer draw
begins with the jobs of a shorter one.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path

import numpy as np

from coordinator.engine.chance import index
from venn.wire.chance import Purpose, at, draws, uniform
from venn.wire.errors import UsageError
from venn.wire.notation import Distribution

PAPER = "paper"
COLUMNS = ("participants", "rounds", "deadline_s")
MOST_ROWS = 10_000
MOST = 1_000_000  # participants, and rounds
LONGEST_S = 366 * 86_400.0
_PAPER_FILE = Path(__file__).with_name("files") / "paper-jobs.csv"


class Which(StrEnum):
    """Rows of a table, by what they ask for."""

    ALL = "all"
    SMALL = "small"  # in all its rounds fewer devices than the average row
    LARGE = "large"  # more
    LOW = "low"  # fewer devices in a round than the average row
    HIGH = "high"  # more


@dataclass(frozen=True, slots=True)
class JobSize:
    """A row."""

    participants: int  # of a round, >= 1
    rounds: int  # >= 1
    deadline_s: float  # of a round, > 0

    @property
    def total(self) -> int:
        """Devices over all rounds."""
        return self.participants * self.rounds


class TableError(UsageError):
    """A table of jobs that cannot be used."""

    def __init__(self, where: str, message: str, fix: str = "") -> None:
        super().__init__("JOB_TABLE", message, where=where, fix=fix)


def read_table(source: str) -> tuple[JobSize, ...]:
    """``paper``, or a CSV file with the columns participants, rounds and deadline_s. Raises TableError."""
    path = _PAPER_FILE if source == PAPER else Path(source)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return tuple(_rows(csv.DictReader(file), str(path)))
    except OSError as error:
        raise TableError(str(path), f"cannot be read: {error.strerror}", "name a CSV file, or write paper") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TableError(str(path), f"is not a CSV file: {error}") from error


def subset(table: Sequence[JobSize], which: Which) -> tuple[JobSize, ...]:
    """The rows of it that are wanted, in their order; none where all rows are alike."""
    if which is Which.ALL:
        return tuple(table)
    by_total = which in (Which.SMALL, Which.LARGE)
    sizes = [row.total if by_total else row.participants for row in table]
    average = Fraction(sum(sizes), len(sizes))
    below = which in (Which.SMALL, Which.LOW)
    return tuple(row for row, size in zip(table, sizes, strict=True) if (size < average if below else size > average))


def _rows(reader: "csv.DictReader[str]", name: str) -> Iterator[JobSize]:
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise TableError(f"{name}:1", f"has no column {missing[0]}", f"the first line names {','.join(COLUMNS)}")
    count = 0
    for count, row in enumerate(reader, 1):
        where = f"{name}:{reader.line_num}"
        if count > MOST_ROWS:
            raise TableError(where, f"has more than {MOST_ROWS} jobs")
        yield JobSize(
            int(_number(row["participants"], where, "participants", MOST, whole=True)),
            int(_number(row["rounds"], where, "rounds", MOST, whole=True)),
            _number(row["deadline_s"], where, "deadline_s", LONGEST_S, whole=False),
        )
    if not count:
        raise TableError(name, "has no job", "give each a line below the names of the columns")


def _number(text: str | None, where: str, column: str, most: float, *, whole: bool) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 < value <= most or (whole and not value.is_integer()):
        fix = f"write a whole number from 1 to {most:.0f}" if whole else f"write seconds, at most {most:.0f}"
        raise TableError(where, f"{column} is {text or 'empty'}", fix)
    return value


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """A job as drawn, before any scale."""

    name: str  # job-07
    size: JobSize
    requirement: str  # its name
    arrives_s: float


def draw_jobs(
    count: int,
    table: Sequence[JobSize],
    requirements: Mapping[str, Fraction],
    gap: Distribution,
    *,
    seed: int,
) -> tuple[DrawnJob, ...]:
    """Draw so many jobs in order of arrival, each a row of the table, all rows alike likely.

    ``requirements``: the probability of each name, in all 1. ``gap``: seconds between two arrivals, and before the
    first.
    """
    numbers = np.arange(1, count + 1, dtype=np.int64)
    sizes = draws(seed, Purpose.JOB_SIZE, numbers).tolist()
    whom = draws(seed, Purpose.JOB_REQUIREMENT, numbers).tolist()
    arrivals = np.cumsum(at(gap, uniform(seed, Purpose.JOB_GAP, numbers))).tolist()
    return tuple(
        DrawnJob(name, table[index(size, len(table))], _one_of(requirements, asked), arrival)
        for name, size, asked, arrival in zip(job_names(count), sizes, whom, arrivals, strict=True)
    )


def job_names(count: int) -> list[str]:
    """What so many drawn jobs are called."""
    width = max(2, len(str(count)))
    return [f"job-{number:0{width}}" for number in range(1, count + 1)]


def _one_of(parts: Mapping[str, Fraction], bits: int) -> str:
    """The name in whose part of the whole the 64 bits fall; exact, so that no platform differs."""
    drawn, reached = Fraction(bits, 2**64), Fraction(0)
    for name, part in parts.items():
        reached += part
        if drawn < reached:
            return name
    raise ValueError(f"the parts add up to {reached}, not to 1")
