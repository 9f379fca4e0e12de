"""The files of a journal: segments, and the snapshots that they begin with.

``events.jsonl`` is the newest segment; those before it are ``events-1.jsonl``, ``events-2.jsonl`` and so on.
``snapshot-N.json`` is the state at the end of segment N: the facts that stand, and the image of the engine.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.engine.record import Digest, RecordError
from coordinator.service.facts import Fact, Facts, fact_from_json, facts_text
from coordinator.service.sealed import seal, unseal
from venn.wire.files import sync, write_atomic
from venn.wire.jsontext import parse_json, read_as

EVENTS = "events.jsonl"
LOCK = "coordinator.lock"  # of the folder
SNAPSHOTS_KEPT = 2  # the newest may be damaged


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at the end of a segment."""

    segment: int
    number: int  # of the last event before it
    at: float  # engine time of that
    policy: str  # in force
    digest: Digest  # of all that was decided
    facts: tuple[Fact, ...]
    image: dict[str, object]  # of the engine

    def write(self, folder: Path, *, fsync: bool) -> None:
        """Write it beside its segment. Raises PeerError OUT_OF_SPACE."""
        head = {"kind": "snapshot", "segment": self.segment, "n": self.number, "t": self.at, "policy": self.policy}
        head["digest"] = list(self.digest.state)
        lines = (json.dumps(head), f'{{"facts":{facts_text(self.facts)}}}', json.dumps({"image": self.image}))
        write_atomic(snapshot_path(folder, self.segment), seal(lines, 0)[0], fsync=fsync)


def read_snapshot(path: Path) -> Snapshot:
    """Read a snapshot. Raises RecordError if it is damaged, and OSError."""
    whole = unseal(path.read_bytes())
    if len(whole.bodies) != 3 or whole.torn:
        raise RecordError("it is damaged")
    try:
        head, facts, image = (read_as(Mapping[str, Any], parse_json(body)) for body in whole.bodies)
        return Snapshot(
            segment=read_as(int, head["segment"]),
            number=read_as(int, head["n"]),
            at=read_as(float, head["t"]),
            policy=read_as(str, head["policy"]),
            digest=Digest(*head["digest"]),
            facts=tuple(Facts(map(fact_from_json, read_as(Sequence[Any], facts["facts"])))),
            image=read_as(Mapping[str, Any], image["image"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"it cannot be read: {error!s:.80}") from None


def snapshot_path(folder: Path, segment: int) -> Path:
    return folder / f"snapshot-{segment}.json"


def segment_path(folder: Path, segment: int) -> Path:
    """The path of a segment that is not the newest any more."""
    return folder / f"events-{segment}.jsonl"


def closed_segments(folder: Path) -> list[int]:
    """The numbers of the segments before the newest, ascending."""
    return _numbers(folder, "events-", ".jsonl")


def snapshots(folder: Path) -> list[int]:
    """The segments of which there is a snapshot, the newest first."""
    return _numbers(folder, "snapshot-", ".json")[::-1]


def drop_old(folder: Path, keep_bytes: int | None) -> int:
    """Remove old snapshots, and the oldest segments while all together are larger; None: no segment is removed. Only
    what the oldest snapshot that is kept has in it goes. Returns how many segments were removed.
    """
    known = snapshots(folder)
    for segment in known[SNAPSHOTS_KEPT:]:
        snapshot_path(folder, segment).unlink(missing_ok=True)
    if keep_bytes is None or not known:
        return 0
    covered = min(known[:SNAPSHOTS_KEPT])
    paths = [segment_path(folder, segment) for segment in closed_segments(folder)]
    total = sum(path.stat().st_size for path in (*paths, folder / EVENTS) if path.exists())
    removed = 0
    for segment, path in zip(closed_segments(folder), paths, strict=True):
        if total <= keep_bytes or segment > covered:
            break
        total -= path.stat().st_size
        path.unlink()
        removed += 1
    return removed


def close_segment(folder: Path, segment: int, following: Path) -> None:
    """Give the newest segment its number, and let the file that follows it be the newest."""
    os.replace(folder / EVENTS, segment_path(folder, segment))
    os.replace(following, folder / EVENTS)
    with suppress(OSError):
        sync(folder)


def _numbers(folder: Path, before: str, after: str) -> list[int]:
    names = (path.name.removeprefix(before).removesuffix(after) for path in folder.glob(f"{before}*{after}"))
    return sorted(int(name) for name in names if name.isdecimal())
