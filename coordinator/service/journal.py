"""events.jsonl: every event with its effects, written before the effects leave.

First line ``{"kind":"start",...}``, then ``{"n":1,"t":0.0123,"event":[...],"effects":[...]}`` per event (t in engine
seconds; the wall clock then was ``wall_ms / 1000 + t``), and on a clean stop ``{"kind":"end","digest":...}``.
"""

import json
import os
from contextlib import suppress
from itertools import count
from pathlib import Path

from coordinator.engine.effects import Effect
from coordinator.engine.events import Event
from coordinator.engine.model import EngineSettings
from coordinator.engine.record import Digest, settings_to_json, text_of, texts_of
from venn.wire.files import file_error, write_all

FORMAT = 2
EVENTS = "events.jsonl"


class Journal:
    """The journal's file. Lines gather in memory and are handed to the system once per turn of the event loop.

    Raises PeerError OUT_OF_SPACE when they cannot be; then the file ends with the last whole turn.
    """

    def __init__(
        self,
        path: Path,
        *,
        settings: EngineSettings,
        incarnation: int,
        wall_ms: int,
        name: str,
        software: str,
        started_s: float = 0.0,
    ) -> None:
        """``started_s``: engine time at which this incarnation began; all of one folder share a clock."""
        self.path = path
        self._encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
        self._lines: list[str] = []
        self._number = 0
        self._digest = Digest()
        try:
            keep_previous(path)
            self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise file_error(error, path) from error
        self._size = 0
        start = {
            "kind": "start",
            "format": FORMAT,
            "incarnation": incarnation,
            "wall_ms": wall_ms,
            "started_s": started_s,
            "settings": settings_to_json(settings),
            "name": name,
            "software": software,
        }
        self._lines.append(self._encode(start))
        self.flush()

    def append(self, now: float, event: Event, effects: list[Effect]) -> None:
        """Record one handled event; it is on disk after the next ``flush``."""
        self._number += 1
        self._digest.update(now, effects)
        done = f'"event":{text_of(event)},"effects":{texts_of(effects)}'
        self._lines.append(f'{{"n":{self._number},"t":{now!r},{done}}}')

    def flush(self) -> None:
        if not self._lines:
            return
        data = ("\n".join(self._lines) + "\n").encode()
        self._lines.clear()
        try:
            write_all(self._file.write, data)
        except OSError as error:
            os.ftruncate(self._file.fileno(), self._size)
            raise file_error(error, self.path) from error
        self._size += len(data)

    def close(self) -> None:
        """End the journal cleanly, with the digest of all that was recorded."""
        self._lines.append(self._encode({"kind": "end", "digest": self._digest.hex()}))
        self.break_off()

    def break_off(self) -> None:
        """Close the file as a coordinator that was killed leaves it."""
        try:
            self.flush()
        finally:
            self._file.close()


def first_start_ms(path: Path) -> int | None:
    """Unix milliseconds at engine time 0 of the first coordinator that recorded here; None: nobody did, legibly."""
    for each in (path.with_name(f"{path.stem}-1{path.suffix}"), path):
        with suppress(OSError, ValueError, KeyError, TypeError), each.open("rb") as file:
            return int(json.loads(file.readline())["wall_ms"])
    return None


def keep_previous(path: Path) -> None:
    """Keep what a coordinator recorded here before, as ``events-1.jsonl`` and so on."""
    if path.exists():
        names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(1))
        path.rename(next(name for name in names if not name.exists()))
