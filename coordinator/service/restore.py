"""A coordinator that comes back: its engine, its facts and its journal, from what it has recorded.

The recorded events go through a fresh engine, which makes the state that the coordinator had. Its effects are held
against the recorded ones: a coordinator never goes on from a state other than the one that it told others of.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from coordinator.engine.engine import Engine
from coordinator.engine.events import PolicyChanged
from coordinator.engine.image import engine_of
from coordinator.engine.model import EngineSettings
from coordinator.engine.plan import Policy
from coordinator.engine.record import RecordError, event_from_json, settings_from_json, texts_of
from coordinator.service.facts import Facts, fact_from_json
from coordinator.service.journal import FORMAT, Start, Written
from coordinator.service.sealed import Unsealed, unseal
from coordinator.service.segments import (
    EVENTS,
    Snapshot,
    closed_segments,
    read_snapshot,
    segment_path,
    snapshot_path,
    snapshots,
)
from venn.wire.errors import UsageError
from venn.wire.files import file_error
from venn.wire.jsontext import parse_json, read_as
from venn.wire.logs import log
from venn.wire.text import printable

ANOTHER = "or choose another folder: --dir"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    """The state of a coordinator at the end of its journal."""

    start: Start  # of its newest segment
    engine: Engine
    facts: Facts
    written: Written  # of that segment; nothing: it is to be begun
    last_s: float  # engine time of the last record
    stopped: bool  # cleanly


def restore(folder: Path, load: Callable[[str], Policy]) -> Restored | None:
    """Read a coordinator's journal, and make its state again: that of the newest whole snapshot, and what came after.
    None: there is no journal, or nothing whole in it.

    ``load`` makes a policy by its name. Raises UsageError JOURNAL_FORMAT, JOURNAL_DAMAGED, JOURNAL_DIFFERS, FILE.
    """
    replay = _Replay(load)
    try:
        for snapshot in snapshots(folder):
            if replay.begin(snapshot_path(folder, snapshot)):
                break
        for segment in closed_segments(folder):
            replay.take(segment_path(folder, segment), newest=False)
        replay.take(folder / EVENTS, newest=True)
    except OSError as error:
        raise file_error(error, folder) from error
    return replay.restored()


def check_format(data: bytes, path: Path) -> None:
    """Check that a journal is of this format, if its first line is legible. Raises UsageError JOURNAL_FORMAT."""
    try:
        format_ = parse_json(data.partition(b"\n")[0]).get("format")
    except (ValueError, AttributeError):
        return
    if format_ != FORMAT:
        message = f"is a journal of format {format_}, and a coordinator goes on with one of format {FORMAT} only"
        raise UsageError("JOURNAL_FORMAT", message, where=str(path), fix="choose another folder: --dir")


def damaged(path: Path, line: int) -> UsageError:
    """The error for a line that was changed after it was written."""
    return UsageError(
        "JOURNAL_DAMAGED",
        "is damaged, or a line before it is missing, and lines after it are whole",
        where=f"{path}:{line}",
        fix=f"restore the file from a backup, {ANOTHER}",
    )


class _Replay:
    """One pass over the whole lines of a journal."""

    def __init__(self, load: Callable[[str], Policy]) -> None:
        self._load = load
        self._path = Path()  # of the segment in hand
        self._snapshot: Snapshot | None = None
        self._began: Start | None = None  # the last segment
        self._engine: Engine | None = None
        self._facts = Facts()
        self._written = Written()
        self._last_s = 0.0
        self._stopped = False
        self._goes_on = False  # the newest segment is whole in its first line

    def begin(self, path: Path) -> bool:
        """Begin with a snapshot; False: it is damaged."""
        try:
            self._snapshot = read_snapshot(path)
        except (RecordError, OSError) as error:
            log(logger, logging.WARNING, "a snapshot is left out, which takes longer", where=path, why=error)
            return False
        self._facts, self._last_s = Facts(self._snapshot.facts), self._snapshot.at
        self._written.number, self._written.digest = self._snapshot.number, self._snapshot.digest
        return True

    def take(self, path: Path, *, newest: bool) -> None:
        """Go through a segment, unless the snapshot has it in it."""
        if not path.exists():
            return  # the newest, as it was being begun
        self._path = path
        data = path.read_bytes()
        check_format(data, path)
        whole = unseal(data)
        if whole.damaged is not None or (whole.torn and not newest):
            raise damaged(path, whole.damaged or len(whole.bodies) + 1)
        if whole.torn:
            log(logger, logging.WARNING, "the journal's last record was cut short: it is left out", bytes=whole.torn)
        self._written.size, self._written.crc = whole.size, whole.crc
        self._goes_on = newest and bool(whole.bodies)
        if whole.bodies and self._follows(start := self._start(whole.bodies[0])):
            self._go_through(start, whole)

    def restored(self) -> Restored | None:
        """The state that was reached."""
        start = self._began
        if start is None:
            return None
        engine = self._engine or self._first(start)
        if not self._goes_on:  # it was killed as it began another segment
            start = replace(start, segment=start.segment + 1, after=self._written.number, started_s=self._last_s)
            self._written.size = self._written.crc = 0
        return Restored(start, engine, self._facts, self._written, self._last_s, self._stopped)

    def _follows(self, start: Start) -> bool:
        """Whether a segment is to be gone through. Raises UsageError where those before it are missing."""
        if self._snapshot is not None and start.segment <= self._snapshot.segment:
            self._began = start
            return False
        before = self._began.segment if self._began is not None else self._snapshot.segment if self._snapshot else 0
        if start.segment != before + 1 or start.after != self._written.number:
            message = f"is segment {start.segment}, and segment {before + 1} is missing"
            fix = f"restore the files from a backup, {ANOTHER}"
            raise UsageError("JOURNAL_DAMAGED", message, where=str(self._path), fix=fix)
        return True

    def _go_through(self, start: Start, whole: Unsealed) -> None:
        self._began = start
        if self._engine is None:
            self._engine = self._first(start)
            self._last_s = max(self._last_s, start.started_s)
        for line, body in enumerate(whole.bodies[1:], start=2):
            try:
                row = read_as(Mapping[str, Any], parse_json(body))
                self._stopped = row.get("kind") == "end"
                if "event" in row:
                    self._again(self._engine, row, body, line)
                elif "fact" in row:
                    self._facts.note(fact_from_json(row["fact"]))
                self._last_s = read_as(float, row.get("t", self._last_s))
            except (ValueError, KeyError) as error:  # a RecordError is a ValueError
                raise self._unreadable(error, line) from error

    def _first(self, start: Start) -> Engine:
        """The engine as the snapshot has it, or a fresh one."""
        if self._snapshot is None:
            return Engine(start.settings, self._load(start.settings.policy))
        return engine_of(self._snapshot.image, start.settings, self._load(self._snapshot.policy))

    def _start(self, body: bytes) -> Start:
        try:
            row = read_as(Mapping[str, Any], parse_json(body))
            settings = settings_from_json(read_as(Mapping[str, Any], row["settings"]))
            hints = get_type_hints(Start)
            rest = {one.name: read_as(hints[one.name], row[one.name]) for one in fields(Start)[1:]}
        except (ValueError, KeyError) as error:
            raise self._unreadable(error, 1) from error
        return Start(settings, **rest)

    def _unreadable(self, error: Exception, line: int) -> UsageError:
        message = f"cannot be read: {printable(str(error), 80)}"
        return UsageError("JOURNAL_DAMAGED", message, where=f"{self._path}:{line}", fix=_OTHER_VERSION)

    def _again(self, engine: Engine, row: Mapping[str, Any], body: bytes, line: int) -> None:
        event, now = event_from_json(row["event"]), read_as(float, row["t"])
        if isinstance(event, PolicyChanged):
            engine.set_policy(self._load(event.policy))
        effects = engine.handle(event, now)
        if not body.endswith(f',"effects":{texts_of(effects)}}}'.encode()):
            message = "the engine of this version decides otherwise than it is recorded"
            raise UsageError("JOURNAL_DIFFERS", message, where=f"{self._path}:{line}", fix=_OTHER_VERSION)
        self._written.number = read_as(int, row["n"])
        self._written.digest.update(now, effects)


_OTHER_VERSION = f"start the version of venn that wrote it, {ANOTHER}"


def different(recorded: EngineSettings, asked: EngineSettings) -> list[str]:
    """The settings that a coordinator was started with and that differ from those it has had from its beginning."""
    return [
        f"{one.name}={getattr(recorded, one.name)}"
        for one in fields(EngineSettings)
        if one.name != "seed" and getattr(recorded, one.name) != getattr(asked, one.name)
    ]
