"""A simulated run that kept no journal, as its folder tells it: rounds.csv, and what outcome.json and run.json say.

``outcome.json`` holds ``digest``, ``leases`` (ended, by reason), ``live``, ``unheard``, ``injected`` (actions of the
timeline, by verb) and ``jobs``: by arrival, the fields of ``JobFacts``. ``run.json`` holds ``simulated``, the
fields of ``Simulated``, for every simulated run.
"""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from testbed.runfolder.jsonlines import Row, damaged
from testbed.runfolder.paths import RunFolder
from testbed.runfolder.summary import JobFigures, Simulated
from venn.wire.errors import UsageError
from venn.wire.jsontext import made, parse_json, read_as

T = TypeVar("T")

RESTORE = "restore the file, or run again"
HEADER = ("job", "round", "attempt", "opened_s", "filled_s", "ended_s", "closed", "responses")


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is known of a job beside its attempts."""

    name: str
    requirement: str  # its name, else its text
    arrived_s: float
    ended_s: float | None  # None: unfinished
    wasted_device_s: float
    repeats: bool = False  # a device may count several times in a round


@dataclass(frozen=True, slots=True, eq=False)
class Attempts:
    """Every attempt that ended, in order of its end; every column has a value per attempt."""

    job: NDArray[np.int32]  # its place among the jobs
    round: NDArray[np.int32]
    attempt: NDArray[np.int32]
    opened_s: NDArray[np.float64]
    filled_s: NDArray[np.float64]  # when live leases + counted first reached C; at the latest the end
    ended_s: NDArray[np.float64]
    closed: NDArray[np.bool_]  # else aborted
    counted: NDArray[np.int32]  # responses

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[float]]) -> "Attempts":
        """Makes columns of rows, each with the values of one attempt in the order of the fields."""
        types = (np.int32, np.int32, np.int32, np.float64, np.float64, np.float64, np.bool_, np.int32)
        columns = np.array(rows, np.float64).reshape(-1, len(types)).T
        return cls(*(column.astype(kind) for column, kind in zip(columns, types, strict=True)))


@dataclass(frozen=True, slots=True)
class SimulatedRecord:
    """A simulated run without a journal."""

    folder: Path
    about: Row  # run.json
    scenario: str  # its text
    simulated: Simulated
    digest: str
    leases: dict[str, int]  # ended, by reason
    live: int
    unheard: int  # responses that count for their driver, and that no coordinator has heard of
    injected: dict[str, int]  # actions of the timeline, by verb
    jobs: tuple[JobFacts, ...]  # by arrival
    attempts: Attempts


def simulated_of(about: Row, where: Path) -> Simulated | None:
    """What a run.json says of its simulation; None: it was none. Raises UsageError."""
    said = about.get("simulated")
    return None if said is None else _made(Simulated, said, where)


def load_simulated(folder: Path) -> SimulatedRecord:
    """Read the folder of such a run. Raises UsageError if a file in it is missing or damaged."""
    place = RunFolder(folder)
    about, outcome = _object(place.manifest), _object(place.outcome)
    simulated = simulated_of(about, place.manifest)
    leases, injected, jobs = (outcome.get(key) for key in ("leases", "injected", "jobs"))
    if simulated is None or not (isinstance(leases, dict) and isinstance(injected, dict) and isinstance(jobs, list)):
        raise damaged(place.outcome, 1)
    found = tuple(_made(JobFacts, job, place.outcome) for job in jobs)
    return SimulatedRecord(
        folder=folder,
        about=about,
        scenario=place.scenario.read_text(errors="replace") if place.scenario.is_file() else "",
        simulated=simulated,
        digest=str(outcome.get("digest", "")),
        leases=_counts(leases, place.outcome),
        injected=_counts(injected, place.outcome),
        live=_whole(outcome, "live", place.outcome),
        unheard=_whole(outcome, "unheard", place.outcome),
        jobs=found,
        attempts=_attempts(place.attempts, found),
    )


def _attempts(path: Path, jobs: Sequence[JobFacts]) -> Attempts:
    places = {job.name: place for place, job in enumerate(jobs)}
    rows = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for line, row in enumerate(csv.DictReader(file), start=2):
                try:
                    rows.append((places[row["job"]], *(_number(row[name]) for name in HEADER[1:])))
                except (KeyError, TypeError, ValueError):
                    raise damaged(path, line) from None
    except OSError as error:
        raise UsageError("RUN_DAMAGED", f"cannot be read: {error.strerror}", where=str(path)) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError("RUN_DAMAGED", f"is not a CSV file: {error}", where=str(path), fix=RESTORE) from None
    return Attempts.of_rows(rows)


def _number(text: str) -> float:
    """A number of an attempt. Raises ValueError, TypeError."""
    value = float(text)
    if not 0 <= value < 2**31:
        raise ValueError(f"{value} is no number of an attempt")
    return value


def job_figures(jobs: Sequence[JobFacts], attempts: Attempts) -> list[JobFigures]:
    """The figures that follow from jobs and their attempts; an attempt that did not close is an abort."""
    spent = (attempts.filled_s - attempts.opened_s, attempts.ended_s - attempts.filled_s)
    counts = (np.bincount(attempts.job[which], minlength=len(jobs)) for which in (attempts.closed, ~attempts.closed))
    times = (np.bincount(attempts.job, weights=each, minlength=len(jobs)) for each in spent)
    columns = (column.tolist() for column in (*counts, *times))
    found = []
    for job, rounds, aborts, delay_s, collect_s in zip(jobs, *columns, strict=True):
        jct = None if job.ended_s is None else job.ended_s - job.arrived_s
        figures = JobFigures(
            name=job.name,
            requirement=job.requirement,
            finished=jct is not None,
            rounds=rounds,
            aborts=aborts,
            arrived_s=job.arrived_s,
            jct_s=jct,
            delay_s=delay_s,
            collect_s=collect_s,
            gaps_s=None if jct is None else jct - delay_s - collect_s,
            wasted_device_s=job.wasted_device_s,
        )
        found.append(figures)
    return found


def mean_jct(jobs: Iterable[JobFigures]) -> float | None:
    """The mean JCT of those that finished, seconds; None if there is none."""
    jcts = [job.jct_s for job in jobs if job.jct_s is not None]
    return math.fsum(jcts) / len(jcts) if jcts else None


def _object(path: Path) -> Row:
    try:
        value = parse_json(path.read_bytes())
    except (OSError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise UsageError("RUN_DAMAGED", "is not JSON", where=str(path), fix=RESTORE)
    return value


def _made(kind: type[T], said: object, where: Path) -> T:
    try:
        return made(kind, said)
    except ValueError:
        raise damaged(where, 1) from None


def _counts(said: object, where: Path) -> dict[str, int]:
    try:
        return dict(read_as(Mapping[str, int], said))
    except ValueError:
        raise damaged(where, 1) from None


def _whole(row: Row, key: str, where: Path) -> int:
    try:
        return int(read_as(int, row.get(key)))
    except ValueError:
        raise damaged(where, 1) from None
