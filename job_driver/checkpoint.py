"""The state of a job after a round: its model, and what a driver that starts again must know.

Of the rounds that have closed each is a line of a file beside it, so that a checkpoint costs the same after any number
of rounds. The line is written first; one whose round the state does not name yet is left out.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from job_driver.artifacts import Artifact
from job_driver.job import Arrays, Round
from venn.wire import tensors
from venn.wire.digest import Hasher, digest_of_file
from venn.wire.errors import UsageError
from venn.wire.files import JsonLines, read_json_lines, sync_folder, write_atomic, writing

FORMAT = 2
MODEL, NEXT_MODEL, STATE = "checkpoint.tensors", "checkpoint.next.tensors", "checkpoint.json"
HISTORY = "checkpoint.rounds.jsonl"


@dataclass(frozen=True)
class Former:
    """The model that the devices of a former round of an asynchronous job were given."""

    round: int
    digest: str  # hex, of its file


@dataclass(frozen=True)
class Checkpoint:
    """Written after each round, before its result is published; round 0 is the model before round 1."""

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
        """Where the model that was written last lies until it is committed."""
        return self._folder / NEXT_MODEL

    @property
    def model(self) -> Path:
        """The model of the newest checkpoint."""
        return self._folder / MODEL

    def exists(self) -> bool:
        return (self._folder / STATE).exists()

    def write_model(self, model: Arrays) -> Artifact:
        """Write the next model beside the checkpoint; ``commit`` makes it the checkpoint's."""
        path = self.next_model
        with writing(path):
            path.unlink(missing_ok=True)  # the former one may still be open and served
            with open(path, "wb") as file:
                hashing = _Hashing(file.write)
                tensors.write(model, cast(BinaryIO, hashing))
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
        return Artifact.of_file(path, hashing.digest())

    def commit(self, checkpoint: Checkpoint) -> None:
        """From here on a restart goes on after this round. The state names its model, so a crash between is mended."""
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
            sync_folder(self._folder)

    def keep(self, round_: int) -> None:
        """Keep the model of the newest checkpoint, which was given to devices in this round, beyond the next commit."""
        self.former(round_).unlink(missing_ok=True)
        with writing(self.former(round_)):
            os.link(self.model, self.former(round_))

    def former(self, round_: int) -> Path:
        """Where the model of a former round lies that was kept."""
        return self._folder / f"checkpoint.round-{round_}.tensors"

    def load_former(self, former: Former) -> Artifact | None:
        """None: it is not there, or damaged."""
        return self._model(self.former(former.round).name, bytes.fromhex(former.digest))

    def load(self, job: str) -> tuple[Checkpoint, Artifact]:
        """Raises UsageError where there is none, or not of this job, or its model is damaged."""
        path = self._folder / STATE
        try:
            state: dict[str, Any] = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(
                "NO_CHECKPOINT", "there is no checkpoint to resume from", where=str(path), fix="start without --resume"
            ) from error
        if state.get("format") != FORMAT:
            raise UsageError(
                "OTHER_FORMAT", "another version of venn-testbed wrote this checkpoint", where=str(path),
                fix="resume with that version, or start in another --dir",
            )  # fmt: skip
        if state.get("job") != job:
            raise UsageError(
                "OTHER_CHECKPOINT", f"this is a checkpoint of {state.get('job')}, not of {job}", where=str(path),
                fix="give the same --owner, --name and --run, or another --dir",
            )  # fmt: skip
        rounds = self._rounds(state["round"])
        former = tuple(Former(**each) for each in state.get("former", ()))
        checkpoint = Checkpoint(**(state | {"rounds": rounds, "former": former}))
        for name in (MODEL, NEXT_MODEL):
            artifact = self._model(name, bytes.fromhex(checkpoint.model_digest))
            if artifact is not None:
                (self._folder / name).replace(self.model)
                return checkpoint, artifact
        raise UsageError(
            "DAMAGED_CHECKPOINT", "the checkpoint's model is missing or damaged", where=str(self.model),
            fix="start again in another --dir",
        )  # fmt: skip

    def _rounds(self, last: int) -> tuple[Round, ...]:
        """From the first to ``last``; what a crash left behind that is cut off. Raises UsageError."""
        path = self._folder / HISTORY
        found: dict[int, Round] = {}
        if path.exists():
            with suppress(ValueError, TypeError):  # a damaged line: those after it are of no use
                for line in read_json_lines(path):
                    found[line["number"]] = Round(**line)
        rounds = tuple(found[number] for number in range(1, last + 1) if number in found)
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
        return str(json.loads((folder / STATE).read_bytes())["job"]).rpartition("/")[2]
    except (OSError, ValueError, KeyError, TypeError):
        return ""


class _Hashing:
    """A file that hashes what passes."""

    def __init__(self, write: Any) -> None:
        self._write, self._hasher = write, Hasher()

    def write(self, data: Any) -> int:
        self._hasher.update(data)
        return int(self._write(data))

    def digest(self) -> bytes:
        return self._hasher.digest()
