"""events.jsonl: every event with its effects, and every fact, written before anything of its turn leaves.

First line ``{"kind":"start",...}``, then ``{"n":1,"t":0.0123,"event":[...],"effects":[...]}`` per event (t in engine
seconds; the wall clock then was ``wall_ms / 1000 + t``), ``{"t":0.0123,"fact":[...]}`` per fact, and on a clean stop
``{"kind":"end","digest":...}``. Each line ends with a checksum (``coordinator.service.sealed``).

A coordinator that was killed or stopped goes on with the journal that it had (``coordinator.service.restore``).
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.engine.effects import Effect
from coordinator.engine.events import Event
from coordinator.engine.model import EngineSettings
from coordinator.engine.record import Digest, settings_to_json, text_of, texts_of
from coordinator.service.facts import Fact
from coordinator.service.sealed import seal
from venn.wire.files import file_error, write_all

FORMAT = 3
EVENTS = "events.jsonl"

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


@dataclass(frozen=True, slots=True)
class Start:
    """The first line of a journal: whose it is."""

    settings: EngineSettings
    incarnation: int
    wall_ms: int  # Unix milliseconds at engine time 0
    name: str  # of the run, for people
    software: str  # version that began it
    started_s: float = 0.0  # engine time of its beginning

    def line(self) -> str:
        about = {"kind": "start", "format": FORMAT, "incarnation": self.incarnation, "wall_ms": self.wall_ms}
        about |= {"started_s": self.started_s, "settings": settings_to_json(self.settings)}
        return _encode(about | {"name": self.name, "software": self.software})


@dataclass(slots=True)
class Written:
    """How far a journal's file is written."""

    size: int = 0  # bytes
    crc: int = 0  # of the last line
    number: int = 0  # of the last event
    digest: Digest = field(default_factory=Digest)


class Journal:
    """The journal's file. Lines gather in memory and are handed to the system once per turn of the event loop.

    Raises PeerError OUT_OF_SPACE when they cannot be; then the file ends with the last whole turn, and the lines wait
    for another try.
    """

    def __init__(self, path: Path, start: Start | None = None, *, written: Written | None = None) -> None:
        """Begin a journal with ``start``; or go on with one of which ``written`` is whole: what is after it is cut."""
        self.path = path
        self._lines: list[str] = []
        self._written = written or Written()
        try:
            self._file = open(path, "xb" if written is None else "r+b", buffering=0)  # noqa: SIM115 - closed by close()
            self._file.truncate(self._written.size)
            self._file.seek(self._written.size)
        except OSError as error:
            raise file_error(error, path) from error
        if start is not None:
            self._lines.append(start.line())
            self.flush()

    def append(self, now: float, event: Event, effects: list[Effect]) -> None:
        """Record one handled event; it is on disk after the next ``flush``."""
        self._written.number += 1
        self._written.digest.update(now, effects)
        done = f'"event":{text_of(event)},"effects":{texts_of(effects)}'
        self._lines.append(f'{{"n":{self._written.number},"t":{now!r},{done}}}')

    def note(self, now: float, fact: Fact) -> None:
        """Record one fact; it is on disk after the next ``flush``."""
        self._lines.append(f'{{"t":{now!r},"fact":{text_of(fact)}}}')

    def flush(self) -> None:
        """Hand the lines to the system."""
        if not self._lines:
            return
        data, crc = seal(self._lines, self._written.crc)
        try:
            write_all(self._file.write, data)
        except OSError as error:
            self._file.truncate(self._written.size)
            self._file.seek(self._written.size)
            raise file_error(error, self.path) from error
        self._lines.clear()
        self._written.size += len(data)
        self._written.crc = crc

    def sync(self) -> None:
        """Make what was flushed survive a loss of power."""
        os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """End the journal cleanly, with the digest of all that was recorded."""
        self._lines.append(_encode({"kind": "end", "digest": self._written.digest.hex()}))
        self.break_off()

    def break_off(self) -> None:
        """Close the file as a coordinator that was killed leaves it."""
        try:
            self.flush()
        finally:
            self._file.close()
