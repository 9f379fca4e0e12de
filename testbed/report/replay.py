"""Replay: the recorded events go through a fresh engine, and must give the recorded effects, line by line.

It starts from the events alone, in a fresh process whose hashes are seeded differently. ``python -m
testbed.report.replay FILE ...`` is that process; it prints one JSON object.
"""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from coordinator.engine.effects import Effect
from coordinator.engine.engine import Engine
from coordinator.engine.events import PolicyChanged
from coordinator.engine.plan import Policy
from coordinator.engine.record import Digest, RecordError, event_from_json, texts_of
from coordinator.policies.registry import PolicyError, load_policy
from testbed.runfolder.journal import end_digest, event_rows, journal_rows, settings_of
from testbed.runfolder.journal import lives as segments_of_lives
from testbed.runfolder.jsonlines import Row, damaged, integer, number
from venn.wire.errors import UsageError, VennError
from venn.wire.exits import write_line


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event whose effects were not the same again."""

    file: str  # of the journal
    line: int
    n: int  # of the event
    t: float  # engine seconds
    event: str
    recorded: list[str]  # effects, as the live coordinator wrote them
    again: list[str]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of a replay."""

    events: int
    effects: int
    digest: str  # of the decisions made again
    recorded_digest: str  # empty: the coordinator did not stop cleanly
    hash_seed: str
    difference: Difference | None

    @property
    def same(self) -> bool:
        """Whether the decisions were the same."""
        return self.difference is None and self.recorded_digest in ("", self.digest)


def replay(folder: Path) -> Replayed:
    """Replay a run folder, each life of its coordinator in a fresh process; the digest has a part for each.

    Raises UsageError if it holds no journal that can be replayed.
    """
    lives = [_replayed(paths) for paths in (segments_of_lives(folder) if folder.is_dir() else [[folder]])]
    recorded = [life.recorded_digest for life in lives]
    return Replayed(
        events=sum(life.events for life in lives),
        effects=sum(life.effects for life in lives),
        digest="-".join(life.digest for life in lives),
        recorded_digest="-".join(life.recorded_digest or life.digest for life in lives) if any(recorded) else "",
        hash_seed=lives[-1].hash_seed,
        difference=next((life.difference for life in lives if life.difference), None),
    )


def _replayed(paths: Sequence[Path]) -> Replayed:
    """Replays the segments of one journal, in a fresh process."""
    seed = str(1 + secrets.randbelow(2**32 - 1))
    command = [sys.executable, "-m", "testbed.report.replay", *map(str, paths)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True, check=False
    )
    try:
        said = json.loads(done.stdout)
    except ValueError:
        message = f"the replaying process ended with exit code {done.returncode}"
        raise VennError("REPLAY_DIED", message, where=str(paths[-1])) from None
    if "error" in said:
        raise UsageError(**said["error"])
    difference = said.pop("difference")
    return Replayed(**said, difference=None if difference is None else Difference(**difference))


def replay_here(*paths: Path) -> Replayed:
    """Replay the segments of one journal in this process. Raises UsageError."""
    digest = Digest()
    events = effects = 0
    engine: Engine | None = None
    for path in paths:
        rows = journal_rows(path)
        if engine is None:
            settings = settings_of(rows[0], path)
            engine = Engine(settings, _policy(settings.policy, path))
        for line, row in event_rows(rows, path):
            made = _again(engine, row, path, line)
            events, effects = events + 1, effects + len(made)
            digest.update(number(row, "t"), made)
            recorded, again = _lines(row.get("effects")), _lines(json.loads(texts_of(made)))
            if recorded != again:
                event = json.dumps(row["event"])
                place = path.name, line, integer(row, "n"), number(row, "t")
                difference = Difference(*place, event, recorded, again)
                return Replayed(events, effects, digest.hex(), end_digest(rows), _hash_seed(), difference)
    return Replayed(events, effects, digest.hex(), end_digest(rows), _hash_seed(), None)


def describe(difference: Difference) -> Iterator[str]:
    """Describes the difference for people: only the lines that are not the same."""
    place = f"{difference.file}:{difference.line}, {difference.t:.3f} s"
    yield f"first difference at event {difference.n} ({place}): {difference.event}"
    common = 0
    for one, other in zip(difference.recorded, difference.again, strict=False):
        if one != other:
            break
        common += 1
    for effect in difference.recorded[common:]:
        yield f"  recorded  {effect}"
    for effect in difference.again[common:]:
        yield f"  again     {effect}"


def _again(engine: Engine, row: Row, path: Path, line: int) -> list[Effect]:
    try:
        event = event_from_json(row["event"])
    except RecordError:
        raise damaged(path, line) from None
    if isinstance(event, PolicyChanged):
        engine.set_policy(_policy(event.policy, path))
    return engine.handle(event, number(row, "t"))


def _policy(name: str, path: Path) -> Policy:
    try:
        return load_policy(name)
    except PolicyError as error:
        raise UsageError("NO_POLICY", str(error), where=str(path), fix="install the policy that the run used") from None


def _lines(effects: object) -> list[str]:
    """One text per effect, the same for what was read and what was made."""
    return [json.dumps(effect, separators=(",", ":")) for effect in effects] if isinstance(effects, list) else []


def _hash_seed() -> str:
    return os.environ.get("PYTHONHASHSEED", "random")


def main(paths: Sequence[Path]) -> int:
    """Replay a journal and print one JSON object."""
    try:
        said: dict[str, object] = asdict(replay_here(*paths))
    except VennError as error:
        said = {"error": {key: getattr(error, key) for key in ("reason", "message", "where", "fix")}}
    write_line(sys.stdout, json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main([Path(path) for path in sys.argv[1:]]))
