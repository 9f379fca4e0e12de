"""A simulated run that kept no journal, as its folder tells it: rounds.csv, and what outcome.json and run.json say.

``outcome.json`` holds ``digest``, ``leases`` (ended, by reason), ``live``, ``unheard``, ``injected`` (actions of the
timeline, by verb) and ``jobs``: by arrival, the fields of ``SimulatedJobFacts``. ``run.json`` holds ``simulated``, the
fields of ``Simulated``, for every simulated run.
"""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from testbed.runfolder.jsonlines import Row, damaged
from testbed.runfolder.paths import RunFolder
from testbed.runfolder.summary import Simulated
from venn.wire.errors import UsageError

T = TypeVar("T")

HEADER = ("job", "round", "attempt", "opened_s", "filled_s", "ended_s", "closed", "responses")


@dataclass(frozen=True, slots=True)
class SimulatedJobFacts:
    name: str
    requirement: str  # its name
    arrived_s: float
    ended_s: float | None  # None: unfinished
    wasted_device_s: float
    repeats: bool  # a device may count several times in a round


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """A row of rounds.csv."""

    job: str
    round: int
    attempt: int
    opened_s: float
    filled_s: float
    ended_s: float
    closed: bool  # else aborted
    responses: int


@dataclass(frozen=True, slots=True)
class SimulatedRecord:
    folder: Path
    about: Row  # run.json
    scenario: str  # its text
    simulated: Simulated
    digest: str
    leases: dict[str, int]  # ended, by reason
    live: int
    unheard: int  # responses that count for their driver, and that no coordinator has heard of
    injected: dict[str, int]  # actions of the timeline, by verb
    jobs: tuple[SimulatedJobFacts, ...]  # by arrival
    attempts: tuple[EndedAttempt, ...]  # by their end


def simulated_of(about: Row, where: Path) -> Simulated | None:
    """What a run.json says of its simulation; None: it was none. Raises UsageError."""
    said = about.get("simulated")
    return None if said is None else _made(Simulated, said, where)


def load_simulated(folder: Path) -> SimulatedRecord:
    """Read such a folder. Raises UsageError if a file in it is missing or damaged."""
    place = RunFolder(folder)
    about, outcome = _object(place.manifest), _object(place.outcome)
    simulated = simulated_of(about, place.manifest)
    leases, injected, jobs = (outcome.get(key) for key in ("leases", "injected", "jobs"))
    if simulated is None or not (isinstance(leases, dict) and isinstance(injected, dict) and isinstance(jobs, list)):
        raise damaged(place.outcome, 1)
    return SimulatedRecord(
        folder=folder,
        about=about,
        scenario=place.scenario.read_text(errors="replace") if place.scenario.is_file() else "",
        simulated=simulated,
        digest=str(outcome.get("digest", "")),
        leases={str(reason): int(count) for reason, count in leases.items()},
        injected={str(verb): int(count) for verb, count in injected.items()},
        live=_whole(outcome, "live", place.outcome),
        unheard=_whole(outcome, "unheard", place.outcome),
        jobs=tuple(_made(SimulatedJobFacts, job, place.outcome) for job in jobs),
        attempts=tuple(_attempts(place.attempts)),
    )


def _attempts(path: Path) -> list[EndedAttempt]:
    found = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for line, row in enumerate(csv.DictReader(file), start=2):
                try:
                    found.append(_attempt(row))
                except (KeyError, TypeError, ValueError):
                    raise damaged(path, line) from None
    except OSError as error:
        raise UsageError("RUN_DAMAGED", f"cannot be read: {error.strerror}", where=str(path)) from None
    return found


def _attempt(row: dict[str, str]) -> EndedAttempt:
    return EndedAttempt(
        job=row["job"],
        round=int(row["round"]),
        attempt=int(row["attempt"]),
        opened_s=float(row["opened_s"]),
        filled_s=float(row["filled_s"]),
        ended_s=float(row["ended_s"]),
        closed=row["closed"] == "1",
        responses=int(row["responses"]),
    )


def _object(path: Path) -> Row:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise UsageError("RUN_DAMAGED", "is not JSON", where=str(path), fix="restore the file, or run again")
    return value


def _made(kind: Callable[..., T], said: object, where: Path) -> T:
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # only dataclasses come here
    if not isinstance(said, dict) or names - said.keys():
        raise damaged(where, 1)
    return kind(**{name: said[name] for name in names})


def _whole(row: Row, key: str, where: Path) -> int:
    value = row.get(key)
    if not isinstance(value, int):
        raise damaged(where, 1)
    return value
