"""A run, as its folder tells it. Each log was written by another process; none is required but the journal.

``run.json`` is by ``venn run``: ``name``, ``policy``, ``seed``, ``backend``, ``jobs`` (names of all that were asked
for), ``expect`` and ``too_small`` (texts), ``interrupted``, ``insecure``, ``command`` (words), ``versions`` and
``machine`` (name -> value), ``commit``. What is absent is taken from the journal, or left out.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from testbed.runfolder.journal import Journal
from testbed.runfolder.jsonlines import Row, read_rows
from testbed.runfolder.lives import read_lives
from testbed.runfolder.paths import RunFolder
from venn.wire.errors import UsageError


@dataclass(frozen=True, slots=True)
class DriverLog:
    """The logs of one job's driver."""

    rounds: tuple[Row, ...]  # a row per ended attempt
    manifest: tuple[Row, ...]  # a row per decision and per ended attempt, in its order


@dataclass(frozen=True, slots=True)
class HostLog:
    """The logs of one process that hosts devices."""

    receipts: tuple[Row, ...]
    sessions: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class RunRecord:
    folder: Path
    about: Row  # run.json
    scenario: str  # its text; empty: none
    journal: Journal
    drivers: dict[str, DriverLog]  # by job name
    hosts: dict[str, HostLog]  # by the name of a process that hosts devices
    population: tuple[Row, ...]
    host_samples: tuple[Row, ...]
    churn: tuple[Row, ...]  # what the timeline did
    unheard: tuple[Row, ...]  # what simulated drivers decided while there was no coordinator
    loads: dict[str, tuple[Row, ...]]  # by process: its event loop

    def alone(self) -> frozenset[str]:
        """Devices that have a process to themselves: a crash of theirs is a SIGKILL."""
        return frozenset(str(row["device"]) for row in self.population if row.get("device") == row.get("process"))


def load_run(folder: Path) -> RunRecord:
    """Read a run folder. Raises UsageError if it is none, or if a log in it was damaged."""
    if not folder.is_dir():
        raise UsageError(
            "NO_RUN", "there is no such folder", where=str(folder), fix="name the folder that `venn run` printed"
        )
    place = RunFolder(folder)
    jobs = sorted(path for path in (folder / "jobs").glob("*") if path.is_dir())
    hosts = sorted(path for path in (folder / "devices").glob("*") if path.is_dir())
    return RunRecord(
        folder=folder,
        about=_about(place.manifest),
        scenario=place.scenario.read_text(errors="replace") if place.scenario.is_file() else "",
        journal=read_lives(folder),
        drivers={path.name: _driver(path) for path in jobs},
        hosts={path.name: _host(path) for path in hosts},
        population=read_rows(place.population),
        host_samples=read_rows(place.host),
        churn=read_rows(place.churn),
        unheard=read_rows(place.unheard),
        loads=_loads(folder, jobs, hosts),
    )


def _about(path: Path) -> Row:
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise UsageError("RUN_DAMAGED", "is not JSON", where=str(path), fix="restore the file, or run again") from None
    return value if isinstance(value, dict) else {}


def _driver(path: Path) -> DriverLog:
    return DriverLog(read_rows(path / "rounds.jsonl"), read_rows(path / "manifest.jsonl"))


def _host(path: Path) -> HostLog:
    return HostLog(read_rows(path / "receipts.jsonl"), read_rows(path / "sessions.jsonl"))


def _loads(folder: Path, jobs: list[Path], hosts: list[Path]) -> dict[str, tuple[Row, ...]]:
    places = {"coordinator": folder}
    places |= {f"job {path.name}": path for path in jobs}
    places |= {f"devices {path.name}": path for path in hosts}
    places["relay"] = RunFolder(folder).relay_load.parent
    found = {name: read_rows(path / "load.jsonl") for name, path in places.items()}
    return {name: rows for name, rows in found.items() if rows}
