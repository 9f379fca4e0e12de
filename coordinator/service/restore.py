"""A coordinator that comes back: its engine, its facts and its journal, from what it has recorded.

The recorded events go through a fresh engine, which makes the state that the coordinator had. Its effects are held
against the recorded ones: a coordinator never goes on from a state other than the one that it told others of.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from coordinator.engine.engine import Engine
from coordinator.engine.events import PolicyChanged
from coordinator.engine.model import EngineSettings
from coordinator.engine.plan import Policy
from coordinator.engine.record import RecordError, event_from_json, settings_from_json, texts_of
from coordinator.service.facts import Facts, fact_from_json
from coordinator.service.journal import FORMAT, Start, Written
from coordinator.service.sealed import Unsealed, unseal
from venn.wire.errors import UsageError
from venn.wire.files import file_error
from venn.wire.logs import log

ANOTHER = "or choose another folder: --dir"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    """The state of a coordinator at the end of its journal."""

    start: Start
    engine: Engine
    facts: Facts
    written: Written
    last_s: float  # engine time of the last record
    stopped: bool  # cleanly


def restore(path: Path, load: Callable[[str], Policy]) -> Restored | None:
    """Read a coordinator's journal, and make its state again. None: there is no journal, or nothing whole in it.

    ``load`` makes a policy by its name. Raises UsageError JOURNAL_FORMAT, JOURNAL_DAMAGED, JOURNAL_DIFFERS, FILE.
    """
    if not path.exists():
        return None
    try:
        data = path.read_bytes()
    except OSError as error:
        raise file_error(error, path) from error
    check_format(data, path)
    whole = unseal(data)
    if whole.damaged is not None:
        raise damaged(path, whole.damaged)
    if whole.torn:
        log(logger, logging.WARNING, "the journal's last record was cut short: it is left out", bytes=whole.torn)
    return _Replay(path, whole, load).restored() if whole.bodies else None


def check_format(data: bytes, path: Path) -> None:
    """Check that a journal is of this format, if its first line is legible. Raises UsageError JOURNAL_FORMAT."""
    try:
        format_ = json.loads(data.partition(b"\n")[0]).get("format")
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

    def __init__(self, path: Path, whole: Unsealed, load: Callable[[str], Policy]) -> None:
        self._path, self._whole, self._load = path, whole, load
        self._facts = Facts()
        self._written = Written(whole.size, whole.crc)
        self._last_s = 0.0
        self._stopped = False

    def restored(self) -> Restored:
        start = self._start(json.loads(self._whole.bodies[0]))
        engine = Engine(start.settings, self._load(start.settings.policy))
        self._last_s = start.started_s
        for line, body in enumerate(self._whole.bodies[1:], start=2):
            row = json.loads(body)
            self._stopped = row.get("kind") == "end"
            try:
                if "event" in row:
                    self._again(engine, row, body, line)
                elif "fact" in row:
                    self._facts.note(fact_from_json(row["fact"]))
            except (RecordError, KeyError) as error:
                raise UsageError(
                    "JOURNAL_DAMAGED", f"cannot be read: {error}", where=f"{self._path}:{line}", fix=_OTHER_VERSION
                ) from error
            self._last_s = row.get("t", self._last_s)
        return Restored(start, engine, self._facts, self._written, self._last_s, self._stopped)

    def _start(self, row: dict[str, Any]) -> Start:
        try:
            settings = settings_from_json(row["settings"])
            rest = {one.name: row[one.name] for one in fields(Start) if one.name != "settings"}
        except (RecordError, KeyError) as error:
            message = f"cannot be read: {error}"
            raise UsageError("JOURNAL_DAMAGED", message, where=f"{self._path}:1", fix=_OTHER_VERSION) from error
        return Start(settings, **rest)

    def _again(self, engine: Engine, row: dict[str, Any], body: bytes, line: int) -> None:
        event, now = event_from_json(row["event"]), row["t"]
        if isinstance(event, PolicyChanged):
            engine.set_policy(self._load(event.policy))
        effects = engine.handle(event, now)
        if not body.endswith(f',"effects":{texts_of(effects)}}}'.encode()):
            message = "the engine of this version decides otherwise than it is recorded"
            raise UsageError("JOURNAL_DIFFERS", message, where=f"{self._path}:{line}", fix=_OTHER_VERSION)
        self._written.number = row["n"]
        self._written.digest.update(now, effects)


_OTHER_VERSION = f"start the version of venn that wrote it, {ANOTHER}"


def different(recorded: EngineSettings, asked: EngineSettings) -> list[str]:
    """The settings that a coordinator was started with and that differ from those it has had from its beginning."""
    return [
        f"{one.name}={getattr(recorded, one.name)}"
        for one in fields(EngineSettings)
        if one.name != "seed" and getattr(recorded, one.name) != getattr(asked, one.name)
    ]
