"""events.jsonl: every event with its effects, and every fact, written before anything of its turn leaves.

First line ``{"kind":"start",...}``, then ``{"n":1,"t":0.0123,"event":[...],"effects":[...]}`` per event (t in engine
seconds; the wall clock then was ``wall_ms / 1000 + t``), ``{"t":0.0123,"fact":[...]}`` per fact, and on a clean stop
``{"kind":"end","digest":...}``. Each line ends with a checksum (``coordinator.service.sealed``).

A coordinator that was killed or stopped goes on with the journal that it had (``coordinator.service.restore``). A
journal that has grown long goes on in another segment, which begins with a snapshot (``coordinator.service.segments``).
"""

import json
import logging
import os
from dataclasses import dataclass, field, replace
from io import FileIO
from pathlib import Path

from coordinator.engine.effects import Effect
from coordinator.engine.events import Event
from coordinator.engine.model import EngineSettings
from coordinator.engine.record import Digest, settings_to_json, text_of, texts_of
from coordinator.service.facts import Fact, Facts
from coordinator.service.sealed import seal
from coordinator.service.segments import Snapshot, close_segment, drop_old
from venn.wire.errors import PeerError
from venn.wire.files import file_error, write_all
from venn.wire.logs import log

FORMAT = 3
SEGMENT_BYTES = 16 * 2**20  # takes some seconds to go through again
RESERVE_BYTES = 2**20  # of the disk, ahead of what is written: a sync of a file that grows takes several times as long
TRIES = 16  # to begin another segment, while one grows by its length
FOLLOWING = ".events.next.jsonl"  # a segment that is being begun
logger = logging.getLogger(__name__)

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
    segment: int = 1  # number of this one
    after: int = 0  # events in those before it

    def line(self) -> str:
        about = {"kind": "start", "format": FORMAT, "incarnation": self.incarnation, "wall_ms": self.wall_ms}
        about |= {"started_s": self.started_s, "segment": self.segment, "after": self.after}
        about["settings"] = settings_to_json(self.settings)
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

    def __init__(
        self,
        path: Path,
        start: Start,
        *,
        written: Written | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        keep_bytes: int | None = None,
        reserves: bool = False,
    ) -> None:
        """Begin a journal; or go on with the one that began with ``start`` and of which ``written`` is whole: what is
        after it is cut. ``keep_bytes``: of all segments; None: they are kept. ``reserves``: the file ends with zeros
        until it is closed, so that its syncs are fast.
        """
        self.path, self._start = path, start
        self._segment_bytes = self._long_at = segment_bytes
        self._keep_bytes = keep_bytes
        self._lines: list[str] = []
        self._written = written or Written()
        self._snapshot: Snapshot | None = None  # another segment begins with it once all before it is written
        self._closed: list[FileIO] = []  # former segments, which are to be synced
        self._reserves, self._reserved = reserves, self._written.size  # bytes that the file has
        new = not self._written.size
        try:
            self._file = open(path, "wb" if new else "r+b", buffering=0)  # noqa: SIM115 - closed by close()
            self._file.truncate(self._written.size)
            self._file.seek(self._written.size)
        except OSError as error:
            raise file_error(error, path) from error
        if new:
            self._lines.append(start.line())
            self.flush()

    @property
    def is_long(self) -> bool:
        """Whether it is time for another segment."""
        return self._written.size >= self._long_at and self._snapshot is None

    def rotate(self, now: float, policy: str, facts: Facts, image: dict[str, object]) -> None:
        """Begin another segment with this state, after what was appended so far is written."""
        digest = Digest(*self._written.digest.state)
        about = (self._start.segment, self._written.number, now, policy, digest)
        self._snapshot = Snapshot(*about, tuple(facts), image)

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
            self._reserve(len(data))
            write_all(self._file.write, data)
        except OSError as error:
            self._give_back()
            self._file.seek(self._written.size)
            raise file_error(error, self.path) from error
        self._lines.clear()
        self._written.size += len(data)
        self._written.crc = crc
        if self._snapshot is not None:
            snapshot, self._snapshot = self._snapshot, None
            self._begin_segment(snapshot)

    def _reserve(self, more: int) -> None:
        """Let the file have room for so many bytes more."""
        if self._reserves and self._written.size + more > self._reserved:
            self._reserved = self._written.size + max(more, RESERVE_BYTES)
            os.posix_fallocate(self._file.fileno(), self._written.size, self._reserved - self._written.size)

    def _give_back(self) -> None:
        """Cut the file to what is written."""
        self._file.truncate(self._written.size)
        self._reserved = self._written.size

    def _begin_segment(self, snapshot: Snapshot) -> None:
        """Go on in another segment. Without space for it this one goes on, and another try comes later."""
        start = replace(self._start, segment=snapshot.segment + 1, after=snapshot.number, started_s=snapshot.at)
        data, crc = seal((start.line(),), 0)
        folder, following = self.path.parent, self.path.with_name(FOLLOWING)
        try:
            snapshot.write(folder, fsync=True)
            following.write_bytes(data)
            file = open(following, "r+b", buffering=0)  # noqa: SIM115 - closed by close()
        except (PeerError, OSError) as error:
            log(logger, logging.WARNING, "the journal cannot go on in another segment yet", why=error)
            self._long_at = self._written.size + self._segment_bytes // TRIES
            return
        file.seek(len(data))
        self._give_back()
        close_segment(folder, snapshot.segment, following)
        self._closed.append(self._file)
        self._start, self._file = start, file
        self._written.size, self._written.crc, self._long_at = len(data), crc, self._segment_bytes
        self._reserved = len(data)
        removed = drop_old(folder, self._keep_bytes)
        log(logger, logging.INFO, "the journal goes on in another segment", segment=start.segment, removed=removed)

    def sync(self) -> None:
        """Make what was flushed survive a loss of power. In one thread at a time."""
        os.fdatasync(self._file.fileno())
        while self._closed:
            with self._closed.pop() as former:
                os.fdatasync(former.fileno())

    def close(self) -> None:
        """End the journal cleanly, with the digest of all that was recorded."""
        self._lines.append(_encode({"kind": "end", "digest": self._written.digest.hex()}))
        self.break_off()

    def break_off(self) -> None:
        """Close the file as a coordinator that was killed leaves it."""
        try:
            self.flush()
            if self._reserves:
                self._give_back()
        finally:
            for file in (self._file, *self._closed):
                file.close()
