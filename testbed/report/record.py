"""A run as its folder tells it, and the logs of its devices and drivers as the auditor reads them.

Each log was written by another process; none is required but the journal. ``run.json`` is by ``venn run``: ``name``,
``policy``, ``seed``, ``backend``, ``jobs`` (names of all that were asked for), ``expect`` and ``too_small`` (texts),
``interrupted``, ``insecure``, ``command`` (words), ``versions`` and ``machine`` (name -> value), ``commit``. What is
absent is taken from the journal, or left out.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, assert_never

from coordinator.engine import effects as done
from coordinator.engine import events as past
from coordinator.engine.ids import JobId, LeaseSeq, job_name
from coordinator.engine.model import AttemptStatus, Outcome
from testbed.runfolder.journal import Journal, read_lives
from testbed.runfolder.jsonlines import Row, integer, read_rows, text
from testbed.runfolder.paths import RunFolder
from venn.wire.errors import UsageError
from venn.wire.jsontext import parse_json


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
    """All logs of a run."""

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
        value = parse_json(path.read_bytes())
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


class AttemptKey(NamedTuple):
    """The name of an attempt."""

    job: str  # its name
    round: int
    attempt: int

    @classmethod
    def named(cls, effect: done.OfferLease | done.AcceptAttempt | done.EndAttempt) -> "AttemptKey":
        """The attempt that an effect names."""
        return cls(job_name(effect.job), effect.round, effect.attempt)

    def __str__(self) -> str:
        return f"{self.job} round {self.round}, attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The first answer that a device got to its response."""

    device: str
    attempt: AttemptKey
    outcome: Outcome
    digest: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a driver about a response."""

    lease: LeaseSeq
    device: str
    attempt: AttemptKey  # in which it was decided
    leased_for: AttemptKey  # of the lease; asynchronously perhaps an earlier one
    outcome: Outcome
    digest: str


@dataclass(frozen=True, slots=True)
class Sum:
    """The end of an attempt for its driver, and the leases whose responses were summed."""

    status: AttemptStatus
    leases: tuple[LeaseSeq, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifests of all drivers as one."""

    decisions: tuple[Decision, ...]
    counted: frozenset[LeaseSeq]  # decided COUNTED
    sums: Mapping[AttemptKey, Sum]
    last: Mapping[str, tuple[int, int]]  # job -> the last (round, attempt) that its manifest names

    def is_last(self, key: AttemptKey) -> bool:
        """Whether its driver wrote of no later attempt."""
        return (key.round, key.attempt) >= self.last.get(key.job, (0, 0))


def read_manifests(drivers: Mapping[str, DriverLog], journal: Journal) -> Manifest:
    """Reads the decisions on leases of this coordinator, and all sums."""
    decisions: list[Decision] = []
    sums: dict[AttemptKey, Sum] = {}
    last: dict[str, tuple[int, int]] = {}
    for job, log in drivers.items():
        for row in log.manifest:
            key = AttemptKey(job, integer(row, "round"), integer(row, "attempt"))
            last[job] = max(last.get(job, (0, 0)), (key.round, key.attempt))
            lease = journal.lease(integer(row, "incarnation"), integer(row, "lease"))
            if row.get("kind") == "response" and lease is not None:
                leased_for = (
                    AttemptKey(job, integer(row, "of_round"), integer(row, "of_attempt")) if "of_round" in row else key
                )
                outcome = _outcome(row, "outcome")
                decisions.append(Decision(lease, text(row, "device"), key, leased_for, outcome, text(row, "digest")))
            elif row.get("kind") == "attempt":
                closed = text(row, "status") == AttemptStatus.CLOSED
                sums[key] = Sum(AttemptStatus.CLOSED if closed else AttemptStatus.ABORTED, _leases(row, journal))
    counted = frozenset(one.lease for one in decisions if one.outcome is Outcome.COUNTED)
    return Manifest(tuple(decisions), counted, sums, last)


def read_receipts(hosts: Mapping[str, HostLog], journal: Journal) -> dict[LeaseSeq, Receipt]:
    """Reads the first receipt of each lease of this coordinator's incarnations."""
    found: dict[LeaseSeq, Receipt] = {}
    for log in hosts.values():
        for row in log.receipts:
            lease = journal.lease(integer(row, "incarnation"), integer(row, "lease"))
            if lease is None:
                continue
            said = _outcome(row, "first_outcome" if text(row, "outcome") == "duplicate" else "outcome")
            key = AttemptKey(job_name(JobId(text(row, "job"))), integer(row, "round"), integer(row, "attempt"))
            found.setdefault(lease, Receipt(text(row, "device"), key, said, text(row, "digest")))
    return found


def _outcome(row: Row, key: str) -> Outcome:
    try:
        return Outcome(text(row, key))
    except ValueError:
        message = f"{text(row, key)!r} is not an outcome of a response (lease {integer(row, 'lease')})"
        raise UsageError("RUN_DAMAGED", message, fix="restore the log, or run again") from None


def _leases(row: Row, journal: Journal) -> tuple[LeaseSeq, ...]:
    value, incarnation = row.get("leases"), integer(row, "incarnation")
    leases = (journal.lease(incarnation, int(lease)) for lease in (value if isinstance(value, list) else ()))
    return tuple(lease for lease in leases if lease is not None)


def simulated_logs(journal: Journal, unheard: Sequence[Row]) -> tuple[Manifest, dict[LeaseSeq, Receipt]]:
    """Makes the logs of a simulation from its journal, as its drivers and devices would have written them.

    ``unheard``: the rows of unheard.jsonl, what drivers decided and no coordinator heard of.
    """
    granted: dict[LeaseSeq, tuple[str, AttemptKey]] = {}
    decisions: list[Decision] = []
    receipts: dict[LeaseSeq, Receipt] = {}
    counted: defaultdict[AttemptKey, list[LeaseSeq]] = defaultdict(list)
    sums: dict[AttemptKey, Sum] = {}
    last: dict[str, tuple[int, int]] = {}
    for entry in journal.entries:
        match entry.event:
            case past.ResponsesRecorded(job=job, round=round_, attempt=attempt, responses=responses):
                key = AttemptKey(job_name(job), round_, attempt)
                for lease, outcome in responses:
                    device, leased_for = granted[lease]
                    decisions.append(Decision(lease, device, key, leased_for, outcome, ""))
                    if outcome is Outcome.COUNTED:
                        counted[key].append(lease)
            case past.TaskFinished(lease=lease, outcome=outcome):
                device, key = granted[lease]
                receipts[lease] = Receipt(device, key, outcome, "")
            case (
                past.DeviceCheckedIn()
                | past.DeviceHeard()
                | past.LeaseAccepted()
                | past.LeaseDeclined()
                | past.TaskProgressed()
                | past.TaskFailed()
                | past.LeaseReleased()
                | past.SessionEnded()
                | past.JobSubmitted()
                | past.DriverFollowed()
                | past.DriverLost()
                | past.AttemptOpened()
                | past.JobEnded()
                | past.PolicyChanged()
                | past.CoordinatorRestarted()
                | past.JournalRotated()
                | past.DevicesDrained()
                | past.TimePassed()
                | past.TurnEnded()
            ):
                pass  # neither a decision nor a receipt
            case _:
                assert_never(entry.event)
        for effect in entry.effects:
            match effect:
                case done.OfferLease():
                    key = AttemptKey.named(effect)
                    granted[effect.lease] = (effect.device, key)
                case done.AcceptAttempt():
                    last[job_name(effect.job)] = (effect.round, effect.attempt)
                case done.EndAttempt():
                    key = AttemptKey.named(effect)
                    closed = effect.status is AttemptStatus.CLOSED
                    sums[key] = Sum(effect.status, tuple(counted[key]) if closed else ())
                case (
                    done.OpenSession()
                    | done.CloseSession()
                    | done.RevokeLease()
                    | done.SendAway()
                    | done.AcceptJob()
                    | done.RefuseJob()
                    | done.FillAttempt()
                    | done.AnswerResponses()
                    | done.RunLease()
                    | done.MissLease()
                    | done.ResumeLease()
                    | done.EndLease()
                    | done.EndSession()
                    | done.PauseJob()
                    | done.ResumeJob()
                    | done.EndJob()
                    | done.AdoptPlan()
                ):
                    pass  # neither a lease nor an attempt
                case _:
                    assert_never(effect)
    for row in unheard:
        number = journal.lease(integer(row, "life") or journal.incarnation, integer(row, "lease"))
        if number is not None:
            key = AttemptKey(job_name(JobId(text(row, "job"))), integer(row, "round"), integer(row, "attempt"))
            device, leased_for = granted[number]
            outcome = Outcome(text(row, "outcome"))
            decisions.append(Decision(number, device, key, leased_for, outcome, ""))
            receipts[number] = Receipt(device, leased_for, outcome, "")
    leases = frozenset(one.lease for one in decisions if one.outcome is Outcome.COUNTED)
    return Manifest(tuple(decisions), leases, sums, last), receipts
