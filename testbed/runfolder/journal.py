"""The coordinator's journal: its segments, each with a start line and a line per handled event.

A coordinator of format 2 that was started again left one journal for each of its lives; ``joined`` makes them one. Each
life counts its sessions, requests and leases from 1 and its time from 0: those of later lives are moved on behind the
ones before. What a life that was killed could not write down is added where it breaks off: what was open is over.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Union, assert_never, get_args, get_origin, get_type_hints

from coordinator.engine import effects as done
from coordinator.engine.effects import Effect
from coordinator.engine.events import AttemptOpened, CoordinatorRestarted, DeviceCheckedIn, Event, TimePassed
from coordinator.engine.ids import JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.model import AttemptEndReason, AttemptStatus, EngineSettings, HeldLease, LeaseEnd, SessionEnd
from coordinator.engine.record import Digest, RecordError, effect_from_json, event_from_json, settings_from_json
from coordinator.service.sealed import unseal
from testbed.runfolder.jsonlines import Row, damaged, integer, number, read_object_line, read_rows, text
from testbed.runfolder.paths import RunFolder
from venn.wire.errors import UsageError

FORMATS = (2, 3)  # that are read


@dataclass(frozen=True, slots=True)
class Entry:
    """One handled event and what came of it."""

    n: int  # from 1
    t: float  # engine seconds
    event: Event
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Life:
    """One incarnation of the coordinator."""

    incarnation: int
    started_s: float  # engine time
    leases: int  # that were granted before: its first is the one after


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one coordinator, or of all its lives (see ``joined``)."""

    name: str
    incarnation: int  # of the first life
    wall_ms: int  # Unix milliseconds at engine time 0
    settings: EngineSettings
    software: str
    entries: tuple[Entry, ...]
    digest: str  # as the coordinator wrote it; empty: it did not stop cleanly
    lives: tuple[Life, ...] = ()  # empty: one
    parts: tuple["Journal", ...] = ()  # of each life, as it was recorded; empty: one
    started_s: float = 0.0  # engine time; of a simulated coordinator that came after another: not 0

    @property
    def last_s(self) -> float:
        """The engine time of the last entry."""
        return self.entries[-1].t if self.entries else 0.0

    @property
    def restarts(self) -> tuple[float, ...]:
        """The engine times at which a coordinator was started again."""
        again = [entry.t for entry in self.entries if isinstance(entry.event, CoordinatorRestarted)]
        return tuple(sorted([*(life.started_s for life in self.lives[1:]), *again]))

    def lease(self, incarnation: int, number: int) -> LeaseSeq | None:
        """A lease as it is numbered here; None: it is of a coordinator before all of this."""
        lives = self.lives or (Life(self.incarnation, 0.0, 0),)
        granted = [life for life in lives if life.incarnation <= incarnation]  # a life only ever raises its own
        return LeaseSeq(granted[-1].leases + number) if granted else None

    def engine_time(self, unix_s: float) -> float:
        """The engine time of a wall time, seconds."""
        return unix_s - self.wall_ms / 1000


def read_journal(path: Path) -> Journal:
    """Read one journal. Raises UsageError if there is none, or if it is not one that this version reads."""
    rows = journal_rows(path)
    start = rows[0]
    entries = [_entry(row, path, line) for line, row in event_rows(rows, path)]
    return Journal(
        name=text(start, "name"),
        incarnation=integer(start, "incarnation"),
        wall_ms=integer(start, "wall_ms"),
        settings=settings_of(start, path),
        software=text(start, "software"),
        entries=tuple(entries),
        digest=end_digest(rows),
        started_s=number(start, "started_s"),
    )


def journal_rows(path: Path) -> tuple[Row, ...]:
    """The whole lines of a journal, the start line first. Raises UsageError if there is none, if it is of another
    format, or if a line is damaged; a last one that was cut short is left out."""
    lines = path.read_bytes() if path.is_file() else b""
    first = read_object_line(lines.partition(b"\n")[0])
    if first is None:
        raise UsageError("NO_JOURNAL", "no events are recorded there", where=str(path), fix=why_not(path))
    if check_start(first, path).get("format") == 2:  # had no checksums
        return read_rows(path)
    sealed = unseal(lines)
    if sealed.damaged is not None or not sealed.bodies:
        raise damaged(path, sealed.damaged or 1)
    rows = [read_object_line(body) for body in sealed.bodies]
    return tuple(row for row in rows if row is not None)


def event_rows(rows: Sequence[Row], path: Path) -> Iterator[tuple[int, Row]]:
    """The events of a journal with the numbers of their lines. Raises UsageError where one is missing or damaged:
    events are numbered from 1, and between them are facts, and the ends of a coordinator that was started again."""
    n = integer(rows[0], "after")
    for line, row in enumerate(rows[1:], start=2):
        if "fact" in row or row.get("kind") == "end":
            continue
        n += 1
        if "event" not in row or row.get("n") != n:
            raise damaged(path, line)
        yield line, row


def end_digest(rows: Sequence[Row]) -> str:
    """The digest of the end line; empty where it did not end cleanly."""
    return text(rows[-1], "digest") if rows[-1].get("kind") == "end" else ""


def why_not(path: Path) -> str:
    """The advice where there is no journal."""
    if path.with_name("outcome.json").is_file():
        return "so large a simulation keeps none: run it with a smaller --scale"
    return "name the folder of a run"


def check_start(row: Row, path: Path) -> Row:
    """The start line. Raises UsageError if it is none, or of another format."""
    if row.get("kind") != "start":
        raise damaged(path, 1)
    if row.get("format") not in FORMATS:
        message = f"is a journal of format {row.get('format')}, this version reads {' and '.join(map(str, FORMATS))}"
        raise UsageError("JOURNAL_FORMAT", message, where=str(path), fix="use the version of venn that wrote it")
    return row


def settings_of(start: Row, path: Path) -> EngineSettings:
    """The engine's settings from a start line. Raises UsageError if they are not those of this version."""
    given = start.get("settings")
    try:
        return settings_from_json(given if isinstance(given, dict) else {})
    except RecordError:
        raise damaged(path, 1) from None


def _entry(row: Row, path: Path, line: int) -> Entry:
    effects = row.get("effects")
    if not isinstance(effects, list):
        raise damaged(path, line)
    try:
        event = event_from_json(row["event"])
        told = tuple(effect_from_json(effect) for effect in effects)
    except RecordError:
        raise damaged(path, line) from None
    return Entry(integer(row, "n"), number(row, "t"), event, told)


AttemptNo = tuple[JobId, int, int]  # job, round, attempt


def journal_files(folder: Path) -> list[Path]:
    """The files of the journals of all lives, the first one first; the last one may not be there."""
    newest = RunFolder(folder).events
    former = newest.parent.glob(f"{newest.stem}-*{newest.suffix}")
    return [*sorted(former, key=lambda path: int(path.stem.rpartition("-")[2])), newest]


def lives(folder: Path) -> list[list[Path]]:
    """The segments of the journal of each life. Raises UsageError, also where the first segments were dropped."""
    found: list[list[Path]] = []
    for path in journal_files(folder):
        if found and not path.is_file():  # it was killed as it began another segment
            continue
        segment = integer(journal_rows(path)[0], "segment") or 1  # format 2 had none
        if segment == 1:
            found.append([path])
        elif found and len(found[-1]) == segment - 1:
            found[-1].append(path)
        else:
            message = f"is segment {segment} of its journal, and some before it were dropped"
            fix = "keep all of it: venn coordinator --keep-journal all"
            raise UsageError("JOURNAL_DROPPED", message, where=str(path), fix=fix)
    return found


def read_lives(folder: Path) -> Journal:
    """Read all journals of a run folder as one. Raises UsageError."""
    return joined([_read_segments(paths) for paths in lives(folder)])


def _read_segments(paths: Sequence[Path]) -> Journal:
    parts = [read_journal(path) for path in paths]
    return replace(parts[0], entries=sum((part.entries for part in parts), ()), digest=parts[-1].digest)


def joined(journals: Sequence[Journal]) -> Journal:
    """Joins journals on the clock of the first; the digest has a part for each life, if the last one ended cleanly."""
    if len(journals) == 1:
        return journals[0]
    entries: list[Entry] = []
    lives: list[Life] = []
    for place, journal in enumerate(journals, start=1):
        shift = _shift(entries, (journal.wall_ms - journals[0].wall_ms) / 1000)
        lives.append(Life(journal.incarnation, shift[float] + journal.started_s, shift[LeaseSeq]))
        moved = [_moved_entry(entry, shift, len(entries)) for entry in journal.entries]
        if place < len(journals):
            again = {key for later in journals[place:] for key in _opened(later)}
            rounds = {(job, round_) for job, round_, _ in again}
            moved = [_not_told(entry, again, rounds) for entry in moved]
            moved.append(_break(moved, at=max([shift[float], *(entry.t for entry in moved)])))
        entries += moved
    digest = "-".join(journal.digest or digest_of(journal) for journal in journals) if journals[-1].digest else ""
    return replace(journals[0], entries=tuple(entries), digest=digest, lives=tuple(lives), parts=tuple(journals))


def digest_of(journal: Journal) -> str:
    """The digest of the decisions in a journal, computed again."""
    digest = Digest()
    for entry in journal.entries:
        digest.update(entry.t, entry.effects)
    return digest.hex()


def _opened(journal: Journal) -> Iterator[AttemptNo]:
    """The attempts that were asked for."""
    for entry in journal.entries:
        if isinstance(entry.event, AttemptOpened):
            yield entry.event.job, entry.event.round, entry.event.attempt


def _not_told(entry: Entry, again: set[AttemptNo], rounds: set[tuple[JobId, int]]) -> Entry:
    """The entry with an attempt that ended and is opened in a later life as aborted: no driver heard of its end."""

    def corrected(effect: done.Effect) -> done.Effect:
        if not isinstance(effect, done.EndAttempt):
            return effect
        closed = effect.status is AttemptStatus.CLOSED and (effect.job, effect.round) in rounds
        if closed or (effect.job, effect.round, effect.attempt) in again:
            return replace(effect, status=AttemptStatus.ABORTED, reason=AttemptEndReason.UNKNOWN)
        return effect

    return replace(entry, effects=tuple(corrected(effect) for effect in entry.effects))


# -- where a life breaks off


def _break(entries: Sequence[Entry], at: float) -> Entry:
    """The entry that ends what was open when a life broke off."""
    open_ = _Open()
    for entry in entries:
        for effect in entry.effects:
            open_.apply(effect)
    number = entries[-1].n + 1 if entries else 1
    return Entry(number, at, TimePassed(), tuple(open_.ends()))


class _Open:
    """What is open in a coordinator, told by its effects."""

    def __init__(self) -> None:
        self._sessions: dict[SessionSeq, done.OpenSession] = {}
        self._leases: dict[LeaseSeq, done.OfferLease] = {}
        self._running: dict[LeaseSeq, SessionSeq] = {}
        self._attempts: dict[AttemptNo, done.AcceptAttempt] = {}
        self._responses: dict[AttemptNo, int] = {}
        self._paused: set[JobId] = set()

    def apply(self, effect: done.Effect) -> None:
        match effect:
            case done.OpenSession(session=session):
                self._sessions[session] = effect
            case done.EndSession(session=session):
                self._sessions.pop(session, None)
            case done.OfferLease(lease=lease):
                self._leases[lease] = effect
            case done.RunLease(lease=lease) if lease in self._leases:
                self._running[lease] = self._leases[lease].session
            case done.ResumeLease(lease=lease, session=session):
                self._running[lease] = session
            case done.MissLease(lease=lease):
                self._running.pop(lease, None)
            case done.EndLease(lease=lease):
                self._leases.pop(lease, None)
                self._running.pop(lease, None)
            case done.AcceptAttempt(status=AttemptStatus.OPEN):
                self._attempts[effect.job, effect.round, effect.attempt] = effect
            case done.AnswerResponses():
                self._responses[effect.job, effect.round, effect.attempt] = effect.responses
            case done.EndAttempt():
                self._attempts.pop((effect.job, effect.round, effect.attempt), None)
            case done.PauseJob(job=job):
                self._paused.add(job)
            case done.ResumeJob(job=job) | done.EndJob(job=job):
                self._paused.discard(job)
            case (
                done.RunLease()  # of a lease that is over
                | done.AcceptAttempt()  # of one that is
                | done.CloseSession()
                | done.RevokeLease()
                | done.SendAway()
                | done.AcceptJob()
                | done.RefuseJob()
                | done.FillAttempt()
                | done.AdoptPlan()
            ):
                pass  # opens and ends nothing
            case _:
                assert_never(effect)

    def ends(self) -> Iterator[done.Effect]:
        working = set(self._running.values())
        for session, opened in self._sessions.items():
            reason = SessionEnd.COORDINATOR_RESTARTED
            yield done.EndSession(session, opened.device, reason, in_task=session in working)
        for lease in self._leases.values():
            yield done.EndLease(
                lease.lease, lease.device, lease.request, lease.job, lease.round, lease.attempt, LeaseEnd.UNKNOWN
            )
        for key, attempt in self._attempts.items():
            counted = self._responses.get(key, 0)
            ended = (AttemptStatus.ABORTED, AttemptEndReason.UNKNOWN, counted)
            yield done.EndAttempt(attempt.request, attempt.job, attempt.round, attempt.attempt, *ended)
        for job in sorted(self._paused):
            yield done.ResumeJob(job)


# -- numbers and times of a later life

Shift = Mapping[object, Any]  # by the type of a number, ``float`` for engine times: what is added to it
Move = Callable[[Any, Shift], Any]


def _shift(before: Sequence[Entry], seconds: float) -> Shift:
    """The shift that puts a life behind all that was before."""
    told = [effect for entry in before for effect in entry.effects]
    check_ins = [entry.event.session for entry in before if isinstance(entry.event, DeviceCheckedIn)]
    return {
        SessionSeq: max(check_ins, default=0),
        RequestId: max((one.request for one in told if isinstance(one, done.AcceptAttempt)), default=0),
        LeaseSeq: max((one.lease for one in told if isinstance(one, done.OfferLease)), default=0),
        float: seconds,
    }


def _moved_entry(entry: Entry, shift: Shift, numbers: int) -> Entry:
    effects = tuple(_moved(effect, shift) for effect in entry.effects)
    return Entry(entry.n + numbers, entry.t + shift[float], _moved(entry.event, shift), effects)


def _moved(value: Any, shift: Shift) -> Any:
    """An event or an effect, or a value in one, with its numbers and times moved."""
    changed = {name: move(getattr(value, name), shift) for name, move in _moves(value.__class__).items()}
    return replace(value, **changed) if changed else value


@cache
def _moves(kind: Hashable) -> Mapping[str, Move]:
    """The fields of a class that hold numbers or times, with how to move each."""
    found = {name: _move_of(hint, name) for name, hint in get_type_hints(kind).items()}
    return {name: move for name, move in found.items() if move is not None}


def _move_of(hint: object, name: str) -> Move | None:
    """How to move a value of this type; None: it stays as it is."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in (SessionSeq, RequestId, LeaseSeq) or (hint is float and name.endswith("_at")):
        return lambda value, shift: value + shift[hint]
    if hint is HeldLease:
        return _moved
    if origin in (Union, UnionType):
        move = next(filter(None, (_move_of(arg, name) for arg in args)), None)
        return None if move is None else lambda value, shift: None if value is None else move(value, shift)
    if origin is tuple and args[-1] is Ellipsis:
        each = _move_of(args[0], name)
        return None if each is None else lambda value, shift: tuple(each(one, shift) for one in value)
    if origin is tuple:
        parts = [_move_of(arg, name) for arg in args]
        if not any(parts):
            return None
        return lambda value, shift: tuple(
            part(one, shift) if part else one for part, one in zip(parts, value, strict=True)
        )
    return None
