"""Responses on disk, so that what was acknowledged outlives its driver.

Before a receipt leaves, the response lies in a file named by its lease and the decision is a line in the manifest:
a rename and an append, in that order. fsync decides what they survive: on, a power cut; off, a SIGKILL.
"""

import asyncio
import errno
import mmap
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from job_driver.counting import AttemptNo, Decision, Outcome, Status
from venn.wire import tensors
from venn.wire.chunks import SMALL_BYTES, digest_of_file
from venn.wire.errors import PeerError, UsageError, VennError
from venn.wire.files import JsonLines, file_error, read_json_lines, sync, write_all, writing
from venn.wire.jsontext import made
from venn.wire.text import printable

MANIFEST = "manifest.jsonl"
NO_FILES_LEFT = (errno.EMFILE, errno.ENFILE)  # until other transfers have ended
FILES_EVERY_S, FILES_WITHIN_S = 0.05, 60.0


class Refused(PeerError):
    """The refusal of a frame that breaks the protocol, or of another response than the one that was begun."""


@dataclass(frozen=True, slots=True)
class ResponseHeader:
    """The header of a response, sent before its bytes: the same, word for word, whenever its device resumes."""

    no: AttemptNo  # the attempt of its lease, whose model its device was given
    lease: int
    device: str
    size: int  # bytes
    digest: bytes
    weight: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""  # why it is refused, whatever its bytes are


@dataclass(frozen=True, slots=True)
class Response:
    """A decided response, as the manifest keeps it."""

    decision: Decision
    header: ResponseHeader
    incarnation: int  # of the coordinator that granted the lease
    at: float  # Unix seconds

    def line(self) -> dict[str, Any]:
        """The line of the manifest."""
        decision, header = self.decision, self.header
        line: dict[str, Any] = {
            "kind": "response",
            "lease": decision.lease,
            "incarnation": self.incarnation,
            "round": decision.no.round,
            "attempt": decision.no.attempt,
            "device": header.device,
            "outcome": decision.outcome.value,
            "digest": decision.digest.hex(),
            "weight": header.weight,
            "bytes": header.size,
            "at": self.at,
        }
        if header.no != decision.no:
            line["of_round"], line["of_attempt"] = header.no
        if decision.reason:
            line["reason"] = decision.reason
        if header.metrics:
            line["metrics"] = dict(header.metrics)
        return line

    @staticmethod
    def from_line(line: object) -> "Response":
        """Read what ``line`` made. Raises ValueError."""
        said = made(_ResponseLine, line)
        digest, no = bytes.fromhex(said.digest), AttemptNo(said.round, said.attempt)
        of = no if said.of_round is None or said.of_attempt is None else AttemptNo(said.of_round, said.of_attempt)
        return Response(
            Decision(no, said.lease, Outcome(said.outcome), digest, said.reason),
            ResponseHeader(of, said.lease, said.device, said.bytes, digest, said.weight, said.metrics),
            said.incarnation,
            said.at,
        )


@dataclass(frozen=True, slots=True)
class _ResponseLine:
    """The fields of a response's line in the manifest."""

    lease: int
    incarnation: int
    round: int
    attempt: int
    device: str
    outcome: str
    digest: str  # hex
    weight: float
    bytes: int
    at: float
    of_round: int | None = None  # of_attempt, too: absent where they are round and attempt
    of_attempt: int | None = None
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Line:
    """The fields of every line of the manifest."""

    kind: str
    round: int
    attempt: int
    incarnation: int
    status: str = ""  # of an attempt that has ended


@dataclass(slots=True)
class AttemptLog:
    """The lines of the manifest about one attempt."""

    no: AttemptNo
    status: Status = Status.OPEN
    responses: list[Response] = field(default_factory=list)  # in the order they were decided
    ended_under: int = 0  # incarnation of the coordinator, in the line of its end; 0: there is no such line

    @property
    def incarnation(self) -> int:
        """The incarnation of the coordinator that granted its leases; 0: nothing was decided in it, and it has not
        ended. Responses to leases of earlier rounds, of an asynchronous job, are of the same request and coordinator.
        """
        return next((response.incarnation for response in self.responses), self.ended_under)


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

    def free_bytes(self) -> int:
        """The bytes that are free on its disk."""
        return shutil.disk_usage(self._folder).free

    def path(self, no: AttemptNo, lease: int) -> Path:
        """The path of a lease's response that counts."""
        return self._folder / f"{no.round}-{no.attempt}-{lease}.tensors"

    def partial(self, no: AttemptNo, lease: int) -> Path:
        """The path of a lease's response while it arrives."""
        return self._folder / f"{no.round}-{no.attempt}-{lease}.part"

    def prepare(self, no: AttemptNo, lease: int, size: int) -> Path:
        """Prepare the partial file for the first of ``size`` bytes; returns its path. A used file may be there, whose
        pages are cheaper than new ones: no larger one, because a file that is still read in place must never be cut
        short (SIGBUS, mmap(2)).
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
        decision = response.decision
        kept, partial = self.path(decision.no, decision.lease), self.partial(response.header.no, decision.lease)
        try:
            if decision.outcome is Outcome.COUNTED:
                with writing(kept):
                    if body is not None:
                        with open(os.open(partial, os.O_WRONLY | os.O_CREAT, 0o600), "wb", buffering=0) as file:
                            write_all(file.write, body)
                    if self._fsync:
                        sync(partial)
                    partial.rename(kept)
                    if self._fsync:
                        sync(self._folder)
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
        return response.header.size <= SMALL_BYTES and not self._fsync

    def end(self, no: AttemptNo, status: Status, counted: list[int], incarnation: int, at: float) -> None:
        """Write an attempt's end, as the coordinator said; ``incarnation``: of the one that granted its leases."""
        line = {"kind": "attempt", "round": no.round, "attempt": no.attempt, "status": status.value}
        self._manifest.write(line | {"leases": counted, "incarnation": incarnation, "at": at})

    def verify(self, responses: Sequence[Response]) -> None:
        """Check the counted responses. Raises UsageError DAMAGED_SPOOL where one is not what was acknowledged."""
        for response in responses:
            if response.decision.outcome is not Outcome.COUNTED:
                continue
            path = self.path(response.decision.no, response.decision.lease)
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
        return self._path.stat().st_size > 0

    def attempts(self, *, after_round: int) -> list[AttemptLog]:
        """Read the attempts at the rounds after ``after_round`` from the manifest, in order. Raises UsageError
        DAMAGED_SPOOL.
        """
        logs: dict[AttemptNo, AttemptLog] = {}
        whole = 0
        try:
            for line in read_json_lines(self._path):
                whole += 1
                said = made(_Line, line)
                no = AttemptNo(said.round, said.attempt)
                if no.round <= after_round:
                    continue
                found = logs.setdefault(no, AttemptLog(no))
                if said.kind == "response":
                    found.responses.append(Response.from_line(line))
                else:
                    found.status, found.ended_under = Status(said.status), said.incarnation
        except ValueError as error:
            raise UsageError(
                "DAMAGED_SPOOL", f"a line is damaged: {printable(str(error), 80)}",
                where=f"{self._path}:{max(1, whole)}",
                fix="restore it, or start again in another --dir",
            ) from error  # fmt: skip
        return [logs[no] for no in sorted(logs)]

    def close(self) -> None:
        for path in self._spare:
            path.unlink(missing_ok=True)
        self._manifest.close()


class Disk:
    """The disk under a driver's folder. Its first failure ends the job: without it nothing can be acknowledged."""

    def __init__(self) -> None:
        self._failure: asyncio.Future[VennError] = asyncio.get_running_loop().create_future()

    @contextmanager
    def used(self, path: Path) -> Iterator[None]:
        """Work on a file inside. Raises VennError where that fails; Refused OPEN_FILES where it will not for long."""
        try:
            yield
        except OSError as error:
            if error.errno in NO_FILES_LEFT:
                raise Refused("OPEN_FILES", "this driver has as many files open as it may: try again") from error
            raise self._failed(file_error(error, path)) from error
        except VennError as failure:
            if not isinstance(failure, Refused):
                self._failed(failure)
            raise

    async def fail(self) -> None:
        """Wait for the first failure, and raise it."""
        raise await self._failure

    def _failed(self, failure: VennError) -> VennError:
        if not self._failure.done():
            self._failure.set_result(failure)
        return failure


class Mapped(Mapping[str, np.ndarray]):
    """The arrays of a response's file, in place. Each look lets go of the pages that were read before it."""

    def __init__(self, path: Path) -> None:
        """Map the file of a response into memory; on a thread, it waits for a file to be free. Raises TensorError."""
        self._pages = _mapped(path)
        self._arrays = tensors.decode(self._pages)  # type: ignore[arg-type]  # any buffer will do

    def __getitem__(self, name: str) -> np.ndarray:
        if hasattr(mmap, "MADV_DONTNEED"):
            self._pages.madvise(mmap.MADV_DONTNEED)
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def _mapped(path: Path) -> mmap.mmap:
    give_up_at = time.monotonic() + FILES_WITHIN_S
    while True:
        try:
            with open(path, "rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            if error.errno not in NO_FILES_LEFT or time.monotonic() > give_up_at:
                raise
        time.sleep(FILES_EVERY_S)


def _drop_torn_line(path: Path) -> None:
    """Drop half a last line, which a power cut may leave; its receipt was never sent."""
    if path.stat().st_size:
        with open(path, "r+b") as file:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
                end = pages.rfind(b"\n") + 1
            file.truncate(end)
