"""The coordinator's journal: a start line, a line per handled event, and an end line if it stopped cleanly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.engine.effects import Effect
from coordinator.engine.events import Event
from coordinator.engine.ids import LeaseSeq
from coordinator.engine.model import EngineSettings
from coordinator.engine.record import RecordError, effect_from_json, event_from_json, settings_from_json
from testbed.runfolder.jsonlines import Row, damaged, integer, number, read_rows, text
from venn.wire.errors import UsageError

FORMAT = 2


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
    """The journal of one coordinator, or of all its lives (``testbed.runfolder.lives``)."""

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
        """Engine time of the last entry."""
        return self.entries[-1].t if self.entries else 0.0

    @property
    def restarts(self) -> tuple[float, ...]:
        """Engine times at which a coordinator was started again."""
        return tuple(life.started_s for life in self.lives[1:])

    def lease(self, incarnation: int, number: int) -> LeaseSeq | None:
        """A lease as it is numbered here; None: it is of a coordinator before all of this."""
        lives = self.lives or (Life(self.incarnation, 0.0, 0),)
        granted = [life for life in lives if life.incarnation <= incarnation]  # a life only ever raises its own
        return LeaseSeq(granted[-1].leases + number) if granted else None

    def engine_time(self, unix_s: float) -> float:
        """Engine seconds of a wall time."""
        return unix_s - self.wall_ms / 1000


def read_journal(path: Path) -> Journal:
    """Raises UsageError if there is none, or if it is not a journal that this version reads."""
    rows = read_rows(path)
    if not rows:
        raise UsageError("NO_JOURNAL", "no events are recorded there", where=str(path), fix=why_not(path))
    start = check_start(rows[0], path)
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


def event_rows(rows: Sequence[Row], path: Path) -> Iterator[tuple[int, Row]]:
    """The events of a journal with the numbers of their lines. Raises UsageError where one is missing or damaged:
    events are numbered from 1, and nothing but an end line stands after them."""
    for line, row in enumerate(rows[1:], start=2):
        if line == len(rows) and row.get("kind") == "end":
            return
        if "event" not in row or row.get("n") != line - 1:
            raise damaged(path, line)
        yield line, row


def end_digest(rows: Sequence[Row]) -> str:
    """The digest of a journal's end line; empty where it did not end cleanly."""
    return text(rows[-1], "digest") if rows[-1].get("kind") == "end" else ""


def why_not(path: Path) -> str:
    """What to do where there is no journal."""
    if path.with_name("outcome.json").is_file():
        return "so large a simulation keeps none: run it with a smaller --scale"
    return "name the folder of a run"


def check_start(row: Row, path: Path) -> Row:
    """The start line. Raises UsageError if it is none, or of another format."""
    if row.get("kind") != "start":
        raise damaged(path, 1)
    if row.get("format") != FORMAT:
        message = f"is a journal of format {row.get('format')}, this version reads {FORMAT}"
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
