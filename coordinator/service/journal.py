"""events.jsonl: every event with its effects, and every fact, written before anything of its turn leaves.

First line ``{"kind":"start",...}``, then ``{"n":1,"t":0.0123,"event":[...],"effects":[...]}`` per event (t in engine
seconds; the wall clock then was ``wall_ms / 1000 + t``), ``{"t":0.0123,"fact":[...]}`` per fact, and on a clean stop
``{"kind":"end","digest":...}``. Each line ends with a checksum (``coordinator.service.sealed``).
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
from coordinator.service.facts import Fact, Facts, fact_from_json
from coordinator.service.sealed import seal, unseal
from venn.wire.files import file_error, write_all

FORMAT = 3
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
        facts: Facts | None = None,
    ) -> None:
        """``started_s``: engine time at which this incarnation began; all of one folder share a clock. ``facts``: those
        that stand then.
        """
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
        self._size = self._crc = 0  # of what is in the file
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
        for fact in facts or ():
            self.note(started_s, fact)
        self.flush()

    def append(self, now: float, event: Event, effects: list[Effect]) -> None:
        """Record one handled event; it is on disk after the next ``flush``."""
        self._number += 1
        self._digest.update(now, effects)
        done = f'"event":{text_of(event)},"effects":{texts_of(effects)}'
        self._lines.append(f'{{"n":{self._number},"t":{now!r},{done}}}')

    def note(self, now: float, fact: Fact) -> None:
        """Record one fact; it is on disk after the next ``flush``."""
        self._lines.append(f'{{"t":{now!r},"fact":{text_of(fact)}}}')

    def flush(self) -> None:
        if not self._lines:
            return
        data, crc = seal(self._lines, self._crc)
        self._lines.clear()
        try:
            write_all(self._file.write, data)
        except OSError as error:
            os.ftruncate(self._file.fileno(), self._size)
            raise file_error(error, self.path) from error
        self._size += len(data)
        self._crc = crc

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


def standing_facts(path: Path) -> Facts:
    """The facts that stand at the end of a journal; none where there is no journal."""
    facts = Facts()
    with suppress(FileNotFoundError):
        for body in unseal(path.read_bytes()).bodies:
            row = json.loads(body)
            if "fact" in row:
                facts.note(fact_from_json(row["fact"]))
    return facts


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
