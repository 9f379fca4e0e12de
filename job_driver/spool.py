"""Responses on disk, so that what was acknowledged outlives its driver.

Before a receipt leaves, the response lies in a file named by its lease and the decision is a line in the manifest:
a rename and an append, in that order. fsync decides what they survive: on, a power cut; off, a SIGKILL.
"""

import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from job_driver.counting import AttemptNo, Decision, Outcome, Status
from venn.wire import tensors
from venn.wire.chunks import SMALL_BYTES
from venn.wire.digest import digest_of_file
from venn.wire.errors import PeerError, UsageError
from venn.wire.files import JsonLines, read_json_lines, sync_folder, write_all, writing

MANIFEST = "manifest.jsonl"


@dataclass(frozen=True, slots=True)
class Response:
    """A decided response, as the manifest keeps it."""

    decision: Decision
    of: AttemptNo  # the attempt of its lease, whose model its device was given
    incarnation: int  # of the coordinator that granted the lease
    device: str
    weight: float
    size: int  # bytes
    at: float  # Unix seconds
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def no(self) -> AttemptNo:
        """The attempt in which it was decided."""
        return self.decision.no

    def line(self) -> dict[str, Any]:
        decision = self.decision
        line: dict[str, Any] = {
            "kind": "response",
            "lease": decision.lease,
            "incarnation": self.incarnation,
            "round": self.no.round,
            "attempt": self.no.attempt,
            "device": self.device,
            "outcome": decision.outcome.value,
            "digest": decision.digest.hex(),
            "weight": self.weight,
            "bytes": self.size,
            "at": self.at,
        }
        if self.of != self.no:
            line["of_round"], line["of_attempt"] = self.of
        if decision.reason:
            line["reason"] = decision.reason
        if self.metrics:
            line["metrics"] = dict(self.metrics)
        return line

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> "Response":
        digest, reason = bytes.fromhex(line["digest"]), line.get("reason", "")
        no = AttemptNo(line["round"], line["attempt"])
        return Response(
            Decision(no, line["lease"], Outcome(line["outcome"]), digest, reason),
            AttemptNo(line["of_round"], line["of_attempt"]) if "of_round" in line else no,
            line["incarnation"],
            line["device"],
            line["weight"],
            line["bytes"],
            line["at"],
            line.get("metrics", {}),
        )


@dataclass(slots=True)
class AttemptLog:
    """What the manifest tells of one attempt."""

    no: AttemptNo
    status: Status = Status.OPEN
    responses: list[Response] = field(default_factory=list)  # in the order they were decided

    @property
    def incarnation(self) -> int:
        """Of the coordinator that granted its leases; 0: it was given none that was decided."""
        return next((response.incarnation for response in self.responses if response.of == self.no), 0)


class Spool:
    """The responses of a job's latest attempts, and the manifest of all."""

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        """``folder`` is the driver's own. Partial uploads of an earlier process are discarded."""
        self._folder = folder / "spool"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._fsync = fsync
        self._path = folder / MANIFEST
        self._spare: list[Path] = []  # files of discarded responses, as many as an attempt had
        self._spare_lock = Lock()
        for left_over in (*self._folder.glob("*.part"), *self._folder.glob("spare-*")):
            left_over.unlink()
        if self._path.exists():
            _drop_torn_line(self._path)
        self._manifest = JsonLines(self._path, fsync=fsync)

    def path(self, no: AttemptNo, lease: int) -> Path:
        """Where a lease's response lies once it is counted."""
        return self._folder / f"{no.round}-{no.attempt}-{lease}.tensors"

    def partial(self, no: AttemptNo, lease: int) -> Path:
        """Where it lies while it arrives."""
        return self._folder / f"{no.round}-{no.attempt}-{lease}.part"

    def prepare(self, no: AttemptNo, lease: int, size: int) -> Path:
        """The same, before the first of ``size`` bytes. A used file may be there, whose pages are cheaper than new
        ones: no larger one, because a file that is still read in place must never be cut short (SIGBUS, mmap(2)).
        """
        partial = self.partial(no, lease)
        with self._spare_lock:
            if self._spare:
                spare = self._spare.pop()
                if spare.stat().st_size <= size:
                    spare.rename(partial)
                else:
                    spare.unlink()
        return partial

    def keep(self, response: Response, body: memoryview | None = None) -> None:
        """Make a decision last; of a counted one the bytes too: ``body``, or what was written to the partial file.
        Raises PeerError OUT_OF_SPACE; then nothing is kept.
        """
        no, lease = response.no, response.decision.lease
        kept, partial = self.path(no, lease), self.partial(response.of, lease)
        try:
            if response.decision.outcome is Outcome.COUNTED:
                with writing(kept):
                    if body is not None:
                        self._write(response, body)
                    if self._fsync:
                        _sync_file(partial)
                    partial.rename(kept)
                    if self._fsync:
                        sync_folder(self._folder)
            else:
                partial.unlink(missing_ok=True)
            self._manifest.write(response.line())
        except (PeerError, OSError):
            for path in (kept, partial):
                path.unlink(missing_ok=True)
            raise

    def keeps_at_once(self, response: Response) -> bool:
        """Whether ``keep`` takes less time than to hand it to a thread: nothing large is deleted, and the disk is not
        waited for.
        """
        return response.size <= SMALL_BYTES and not self._fsync

    def _write(self, response: Response, body: memoryview) -> None:
        partial = self.partial(response.of, response.decision.lease)
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT, 0o600), "wb", buffering=0) as file:
            write_all(file.write, body)

    def end(self, no: AttemptNo, status: Status, counted: list[int], incarnation: int, at: float) -> None:
        """The attempt's end, as the coordinator said; ``incarnation``: of the one that granted its leases."""
        line = {"kind": "attempt", "round": no.round, "attempt": no.attempt, "status": status.value}
        self._manifest.write(line | {"leases": counted, "incarnation": incarnation, "at": at})

    def verify(self, responses: Sequence[Response]) -> None:
        """Raises UsageError DAMAGED_SPOOL where the bytes of a counted response are not what was acknowledged."""
        for response in responses:
            if response.decision.outcome is not Outcome.COUNTED:
                continue
            path = self.path(response.no, response.decision.lease)
            if not path.exists() or digest_of_file(path) != response.decision.digest:
                raise UsageError(
                    "DAMAGED_SPOOL", "an acknowledged response is missing or damaged", where=str(path),
                    fix="restore it, or start again in another --dir; to survive power cuts, run with --fsync",
                )  # fmt: skip

    def discard(self, no: AttemptNo) -> None:
        """Delete the responses of an attempt, on any thread: they are in a model that is on disk, or in none."""
        with self._spare_lock:
            for path in self._spare:
                path.unlink(missing_ok=True)
            own = f"{no.round}-{no.attempt}-"
            names = (name for name in os.listdir(self._folder) if name.startswith(own) and name.endswith(".tensors"))
            kept = [self._folder / name for name in sorted(names)]
            self._spare = [path.rename(self._folder / f"spare-{number}") for number, path in enumerate(kept)]

    def begun(self) -> bool:
        """Whether the manifest tells of any attempt, whatever version wrote it."""
        return any(read_json_lines(self._path))

    def attempts(self, *, after_round: int) -> list[AttemptLog]:
        """The attempts at the rounds after ``after_round``, in order, from the manifest."""
        logs: dict[AttemptNo, AttemptLog] = {}
        for line in read_json_lines(self._path):
            no = AttemptNo(line["round"], line["attempt"])
            if no.round <= after_round:
                continue
            found = logs.setdefault(no, AttemptLog(no))
            if line["kind"] == "response":
                found.responses.append(Response.from_line(line))
            else:
                found.status = Status(line["status"])
        return [logs[no] for no in sorted(logs)]

    def close(self) -> None:
        for path in self._spare:
            path.unlink(missing_ok=True)
        self._manifest.close()


class Mapped(Mapping[str, np.ndarray]):
    """The arrays of a response's file, in place. Each look lets go of the pages that were read before it."""

    def __init__(self, path: Path) -> None:
        """Raises TensorError."""
        with open(path, "rb") as file:
            self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._arrays = tensors.decode(self._pages)  # type: ignore[arg-type]  # any buffer will do

    def __getitem__(self, name: str) -> np.ndarray:
        if hasattr(mmap, "MADV_DONTNEED"):
            self._pages.madvise(mmap.MADV_DONTNEED)
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _drop_torn_line(path: Path) -> None:
    """A power cut may leave half a last line; its receipt was never sent, so it goes."""
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 4096)
            file.seek(start)
            last = file.read(end - start).rfind(b"\n")
            if last >= 0:
                file.truncate(start + last + 1)
                return
            end = start
        file.truncate(0)
