"""A driver's folder, and the state of its job after a round: models, and what a driver that starts again must know.

Of the rounds that have closed each is a line of a file beside the state, so that a checkpoint costs the same after any
number of rounds. The line is written first; one whose round the state does not name yet is left out.
"""

import json
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from job_driver.artifacts import Artifact
from job_driver.job import Arrays, Round
from venn.wire import tensors
from venn.wire.chunks import Hasher, digest_of_file
from venn.wire.errors import UsageError
from venn.wire.files import JsonLines, read_json_lines, sync, write_atomic, writing
from venn.wire.jsontext import made, parse_json
from venn.wire.locks import locked_folder
from venn.wire.text import printable

FORMAT = 2
MODEL, NEXT_MODEL, STATE = "checkpoint.tensors", "checkpoint.next.tensors", "checkpoint.json"
HISTORY = "checkpoint.rounds.jsonl"
LOCK = "driver.lock"
SETTLE_S = 10.0  # after a model was replaced its last leases are known


@dataclass(frozen=True)
class Former:
    """The model that the devices of a former round of an asynchronous job were given."""

    round: int
    digest: str  # hex, of its file


@dataclass(frozen=True)
class Checkpoint:
    """The state after a round, written before its result is published; round 0 is the model before round 1."""

    job: str  # owner/name/run
    round: int  # that closed last
    model_digest: str  # hex, of the file beside it
    rounds: Sequence[Round] = field(default_factory=tuple)  # from the first to ``round``
    driver_incarnation: int = 0
    former: Sequence[Former] = field(default_factory=tuple)  # models that devices may still work with, oldest first
    format: int = FORMAT


class Checkpoints:
    """The newest checkpoint in a folder: whole, or the one before."""

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._fsync = folder, fsync

    @property
    def next_model(self) -> Path:
        """The path of the model that was written last, until it is committed."""
        return self._folder / NEXT_MODEL

    @property
    def model(self) -> Path:
        """The path of the model of the newest checkpoint."""
        return self._folder / MODEL

    def exists(self) -> bool:
        return (self._folder / STATE).exists()

    def write_model(self, model: Arrays) -> Artifact:
        """Write the next model beside the checkpoint; ``commit`` makes it the checkpoint's."""
        path = self.next_model
        with writing(path):
            path.unlink(missing_ok=True)  # the former one may still be open and served
            hasher = Hasher()
            with open(path, "wb") as file:
                for part in tensors.parts(model):
                    hasher.update(part)
                    file.write(part)
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
        return Artifact.of_file(path, hasher.digest())

    def commit(self, checkpoint: Checkpoint) -> None:
        """Make this the checkpoint, after whose round a restart goes on. The state names its model, so a crash
        in the middle is mended.
        """
        if checkpoint.rounds:
            with JsonLines(self._folder / HISTORY, fsync=self._fsync) as history:
                history.write(asdict(checkpoint.rounds[-1]))
        else:
            (self._folder / HISTORY).unlink(missing_ok=True)
        state = asdict(replace(checkpoint, rounds=()))
        del state["rounds"]
        text = json.dumps(state, indent=1)
        write_atomic(self._folder / STATE, text, fsync=self._fsync)
        self.next_model.rename(self.model)
        if self._fsync:
            sync(self._folder)

    def keep(self, round_: int) -> None:
        """Keep the model of the newest checkpoint, which was given to devices in this round, beyond the next commit."""
        self.former(round_).unlink(missing_ok=True)
        with writing(self.former(round_)):
            os.link(self.model, self.former(round_))

    def former(self, round_: int) -> Path:
        """The path of the model of a former round that was kept."""
        return self._folder / f"checkpoint.round-{round_}.tensors"

    def load_former(self, former: Former) -> Artifact | None:
        """Load a model that was kept; None if it is not there, or damaged."""
        return self._model(self.former(former.round).name, bytes.fromhex(former.digest))

    def load(self, job: str) -> tuple[Checkpoint, Artifact]:
        """Load the checkpoint. Raises UsageError where there is none, or not of this job, or its model is damaged."""
        path = self._folder / STATE
        try:
            state = parse_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(
                "NO_CHECKPOINT", "there is no checkpoint to resume from", where=str(path), fix="start without --resume"
            ) from error
        if not isinstance(state, dict) or state.get("format") != FORMAT:
            raise UsageError(
                "OTHER_FORMAT", "another version of venn-testbed wrote this checkpoint", where=str(path),
                fix="resume with that version, or start in another --dir",
            )  # fmt: skip
        try:
            checkpoint = made(Checkpoint, state)
            digest, *_ = map(bytes.fromhex, (checkpoint.model_digest, *(each.digest for each in checkpoint.former)))
        except ValueError as error:
            raise UsageError(
                "DAMAGED_CHECKPOINT", f"the checkpoint cannot be read: {printable(str(error), 80)}", where=str(path),
                fix="start again in another --dir",
            ) from error  # fmt: skip
        if checkpoint.job != job:
            told = f"this is a checkpoint of {printable(checkpoint.job, 80)}, not of {job}"
            raise UsageError(
                "OTHER_CHECKPOINT", told, where=str(path),
                fix="give the same --owner, --name and --run, or another --dir",
            )  # fmt: skip
        checkpoint = replace(checkpoint, rounds=self._rounds(checkpoint.round))
        for name in (MODEL, NEXT_MODEL):
            artifact = self._model(name, digest)
            if artifact is not None:
                (self._folder / name).replace(self.model)
                return checkpoint, artifact
        raise UsageError(
            "DAMAGED_CHECKPOINT", "the checkpoint's model is missing or damaged", where=str(self.model),
            fix="start again in another --dir",
        )  # fmt: skip

    def _rounds(self, last: int) -> tuple[Round, ...]:
        """Read the rounds up to ``last``, and cut off what a crash left behind them. Raises UsageError."""
        path = self._folder / HISTORY
        found: dict[int, Round] = {}
        if path.exists():
            with suppress(ValueError):  # a damaged line: those after it are of no use
                for line in read_json_lines(path):
                    closed = made(Round, line)
                    found[closed.number] = closed
        rounds = tuple(found[number] for number in range(1, min(last, len(found)) + 1) if number in found)
        if len(rounds) != last:
            raise UsageError(
                "DAMAGED_CHECKPOINT", f"of {last} rounds {len(rounds)} can be read", where=str(path),
                fix="start again in another --dir",
            )  # fmt: skip
        text = "".join(json.dumps(asdict(closed)) + "\n" for closed in rounds)
        write_atomic(path, text, fsync=self._fsync)
        return rounds

    def _model(self, name: str, digest: bytes) -> Artifact | None:
        path = self._folder / name
        if not path.exists() or digest_of_file(path) != digest:
            return None
        return Artifact.of_file(path, digest)


def run_in(folder: Path) -> str:
    """The run whose checkpoint is in a folder; "" if there is none."""
    try:
        return str(parse_json((folder / STATE).read_bytes())["job"]).rpartition("/")[2]
    except (OSError, ValueError, KeyError, TypeError):
        return ""


class Versions:
    """Models of former rounds of an asynchronous job, kept while a device may still work with them.

    A model goes when the next one has been out for a moment and every lease that was granted with it is over; without
    word of its leases, as after a restart, when none can be live any more. The oldest goes first, so there are never
    more than the rounds that have closed since the oldest live lease was granted.
    """

    def __init__(self, checkpoints: Checkpoints, keep_s: float = math.inf) -> None:
        """``keep_s``: after its replacement no lease of a model lasts longer."""
        self.models: dict[int, Arrays] = {}  # by the round in which they were given, oldest first
        self._checkpoints, self.keep_s = checkpoints, keep_s
        self._artifacts: dict[int, Artifact] = {}
        self._replaced_at: dict[int, float] = {}
        self._live: defaultdict[int, set[int]] = defaultdict(set)  # leases, as far as they were heard of
        self._unheard: set[int] = set()  # rounds of which some leases may not have been heard of

    def load(self, former: Former, now: float) -> None:
        """Load one that an earlier process kept; if it is not there, or damaged, it is left out."""
        artifact = self._checkpoints.load_former(former)
        if artifact is not None:
            self._add(former.round, artifact, tensors.open_file(self._checkpoints.former(former.round)), now)
            self._unheard.add(former.round)

    def keep(self, round_: int, artifact: Artifact, arrays: Arrays, now: float) -> None:
        """Keep this round's model, the newest checkpoint's, which is about to be replaced."""
        self._checkpoints.keep(round_)
        self._add(round_, artifact, arrays, now)

    def former(self) -> tuple[Former, ...]:
        """List them for the checkpoint."""
        return tuple(Former(round_, artifact.digest.hex()) for round_, artifact in self._artifacts.items())

    def digests(self) -> set[bytes]:
        return {artifact.digest for artifact in self._artifacts.values()}

    def artifacts(self) -> Mapping[int, Artifact]:
        return self._artifacts

    def lease_granted(self, round_: int, lease: int) -> None:
        self._live[round_].add(lease)

    def lease_over(self, round_: int, lease: int) -> None:
        self._live[round_].discard(lease)

    def miss(self, round_: int) -> None:
        """Note that some leases may have been granted in this round that were not heard of."""
        self._unheard |= {*self.models, round_}

    def forget_leases(self) -> None:
        """Forget the leases of a coordinator that is no more."""
        self._live.clear()

    def drop(self, now: float) -> None:
        """Drop the models that nobody needs any more."""
        while self.models:
            round_ = next(iter(self.models))
            since_s = now - self._replaced_at[round_]
            over = round_ not in self._unheard and not self._live[round_] and since_s >= SETTLE_S
            if not over and since_s < self.keep_s:
                return
            self._checkpoints.former(round_).unlink(missing_ok=True)
            del self.models[round_], self._artifacts[round_], self._replaced_at[round_]
            self._live.pop(round_, None)

    def _add(self, round_: int, artifact: Artifact, arrays: Arrays, now: float) -> None:
        self.models[round_], self._artifacts[round_], self._replaced_at[round_] = arrays, artifact, now


@contextmanager
def job_folder(path: Path | None) -> Iterator[Path]:
    """A driver's folder, locked until the block is left or the process dies; None: a temporary one, which goes then.

    Raises UsageError DIR_LOCKED, which names the driver that has it, or FILE.
    """
    if path is None:
        with tempfile.TemporaryDirectory(prefix="venn-job-") as temporary:
            yield Path(temporary)
        return
    with locked_folder(path, LOCK, "driver"):
        yield path
