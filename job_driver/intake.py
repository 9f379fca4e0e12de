"""How responses come in: pieces into a file, whole ones into a decision, decisions onto disk, and only then a receipt.

Nothing of gRPC is here. A response on its way is an ``Upload``; it belongs to its lease and dies with it. The newest
writer of an upload wins, and what an older one wrote is kept: it goes on where that stopped.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TypeVar

from job_driver.aggregation import Aggregation, Part, ResponseForm
from job_driver.collecting import AttemptNo, Outcome, Status
from job_driver.inspection import Inspection
from job_driver.receipts import Decision, Receipts
from job_driver.spool import Response, Spool
from venn.wire.chunks import CHUNK_BYTES, SMALL_BYTES
from venn.wire.errors import PeerError, VennError
from venn.wire.files import file_error, write_all

CREDIT_BUDGET = 256 * 2**20  # bytes that all devices together may have under way
LEAST_CREDIT, MOST_CREDIT = 2**20, 2**23  # bytes, of one device

Message = TypeVar("Message")


class Refused(PeerError):
    """A frame that breaks the protocol, or another response than the one that was begun."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """A response as its device announces it: the same, word for word, whenever it resumes."""

    no: AttemptNo  # of its lease
    lease: int
    device: str
    size: int  # bytes
    digest: bytes
    weight: float
    metrics: Mapping[str, float] = field(default_factory=dict)


class Writer:
    """One stream that writes an upload, until it is sent away."""

    def __init__(self, seconds: float) -> None:
        """So long at most."""
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + seconds
        self._limit: asyncio.Timeout | None = None  # while a message is awaited

    async def wait(self, message: Awaitable[Message]) -> Message:
        """The next message. Raises TimeoutError once this stream is sent away, or its time is over.

        For reading only: a call of gRPC does not survive that a write of it is cancelled.
        """
        async with asyncio.timeout_at(self._until) as limit:
            self._limit = limit
            try:
                return await message
            finally:
                self._limit = None

    def send_away(self) -> None:
        self._until = self._loop.time()
        if self._limit is not None:
            self._limit.reschedule(self._until)


class Upload:
    """One response on its way. Its file is opened, written, looked at and deleted on threads, never on the loop.

    A small one that comes in one piece is looked at as it comes, on the loop, and written there with its decision, but
    for a driver that waits for its disk (fsync).
    """

    def __init__(self, announcement: Announcement, spool: Spool, threads: ThreadPoolExecutor) -> None:
        self.announcement, self.path = announcement, spool.partial(announcement.no, announcement.lease)
        self.offset = 0  # everything before it is in the file, or in ``body``
        self.body: memoryview | None = None  # of a small one, whole
        self.writer: Writer | None = None  # the stream that writes now
        self.finishing: asyncio.Task[tuple[Decision, bool]] | None = None  # once all bytes are here
        self._spool, self._threads = spool, threads
        self._inspection = Inspection(announcement.size)
        self._writing: asyncio.Future[None] | None = None  # a piece
        self._lock = Lock()  # of what follows, which a thread uses
        self._descriptor: int | None = None
        self._over = False

    @property
    def complete(self) -> bool:
        return self.offset == self.announcement.size

    async def append(self, offset: int, data: memoryview) -> None:
        """The next piece. It goes on to its end even if its caller is cancelled, see ``settled``.

        Raises Refused where it does not follow, OSError.
        """
        if offset != self.offset:
            raise Refused("OFFSET", f"the next byte is {self.offset}, not {offset}")
        if offset + len(data) > self.announcement.size:
            raise Refused("TOO_LONG", f"more than the {self.announcement.size} bytes that were announced")
        if len(data) == self.announcement.size <= SMALL_BYTES:
            self._inspection.take(data)
            self.body, self.offset = data, len(data)
            return
        self._writing = asyncio.get_running_loop().run_in_executor(self._threads, self._write, data)
        await self.settled()

    async def settled(self) -> None:
        """Until no piece is under way, from this writer or one before; ``offset`` holds then. Raises OSError."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    def problem(self, form: ResponseForm) -> str:
        """Why the bytes, which are all here, are refused; "" if they are not. On a thread, unless there is a ``body``.
        Raises OSError.
        """
        with self._lock:
            self._close()
        return self._inspection.problem(self.announcement.digest) or form.problem(self.body or self.path)

    def discard(self) -> None:
        """On a thread; what is still to be written is not."""
        with self._lock:
            self._over = True
            self._close()
            self.path.unlink(missing_ok=True)

    def _write(self, data: memoryview) -> None:
        with self._lock:
            if self._over:
                return
            if self._descriptor is None:
                announcement = self.announcement
                path = self._spool.prepare(announcement.no, announcement.lease, announcement.size)
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            descriptor, end = self._descriptor, self.offset + len(data)
            write_all(lambda rest: os.pwrite(descriptor, rest, end - len(rest)), data)
            self._inspection.take(data)
            self.offset = end

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Intake:
    """All responses of a job: those on their way, and the moment at which each is decided."""

    def __init__(
        self,
        rounds: Receipts,
        spool: Spool,
        threads: ThreadPoolExecutor,
        *,
        decided: Callable[[Response], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """``threads`` do what takes a disk or much computing. ``decided`` is told each decision once, after it is on
        disk; ``failed`` what ends the job (a full disk).
        """
        self.rounds, self._spool, self._threads = rounds, spool, threads
        self._decided, self._failed = decided, failed
        self._uploads: dict[tuple[AttemptNo, int], Upload] = {}
        self._deciding = asyncio.Lock()  # decisions, the manifest and the sum have one order
        self._turn = asyncio.Event()  # what waits for the next round is to look again
        self._form: ResponseForm | None = None
        self._aggregation: Aggregation | None = None
        self.active: set[int] = set()  # leases with bytes since it was last emptied

    def collect(self, form: ResponseForm, aggregation: Aggregation) -> None:
        """From now on responses have this form and go into this sum."""
        self._form, self._aggregation = form, aggregation
        self.sweep()

    def finish(self) -> None:
        """No further round opens."""
        self.rounds.collector.finish()
        self.sweep()

    def begin(self, announcement: Announcement, seconds: float) -> Upload:
        """Start a response, or go on with it, for so long at most; the caller is now its writer.

        Raises Refused where another response was begun on this lease.
        """
        key = announcement.no, announcement.lease
        upload = self._uploads.get(key)
        if upload is None:
            upload = self._uploads[key] = Upload(announcement, self._spool, self._threads)
        elif upload.announcement != announcement:
            raise Refused("OTHER_RESPONSE", f"another response was begun on lease {announcement.lease}")
        if upload.writer is not None:
            upload.writer.send_away()
        upload.writer = Writer(seconds)
        return upload

    async def settled(self, upload: Upload) -> None:
        """Until what an earlier writer brought is on disk. Raises VennError where that fails."""
        with self._disk(upload.path):
            await upload.settled()

    async def append(self, upload: Upload, offset: int, data: memoryview) -> None:
        """The next piece. Raises Refused where it does not follow, VennError where the disk fails."""
        with self._disk(upload.path):
            await upload.append(offset, data)
        self.active.add(upload.announcement.lease)

    def credit(self, upload: Upload) -> int:
        """Bytes beyond its offset that a device may send now: a share of what all may, within bounds; up to the
        end of a chunk if it is as much as one.
        """
        share = max(LEAST_CREDIT, min(MOST_CREDIT, CREDIT_BUDGET // max(1, len(self._uploads))))
        end = upload.offset + share
        if share >= CHUNK_BYTES:
            end -= end % CHUNK_BYTES
        return min(end, upload.announcement.size) - upload.offset

    def foreseen(self, announcement: Announcement) -> bool:
        """Whether a receipt is due without the bytes: the lease is decided, or cannot count, or the size is wrong."""
        if self.rounds.find(announcement.no) is None:
            return True
        foreseen = self.rounds.foresee(announcement.no, announcement.lease, announcement.device)
        return foreseen is not None or bool(self._size(announcement))

    async def acknowledge(self, announcement: Announcement) -> tuple[Decision, bool]:
        """The decision on a response whose bytes are all here, or are not needed; and whether it is new.

        Goes on to its end even if its caller is cancelled. Raises Refused (ATTEMPT_PURGED; BYTES_NEEDED: it could not
        count, and now it may), VennError (a disk).
        """
        upload = self._uploads.get((announcement.no, announcement.lease))
        if upload is None:
            return await asyncio.shield(asyncio.ensure_future(self._finish(announcement, None)))
        if upload.finishing is None:
            upload.finishing = asyncio.create_task(self._finish(announcement, upload))
        return await asyncio.shield(upload.finishing)

    def sweep(self) -> None:
        """The rounds have changed: what cannot count any more ends, and what waited for the next round goes on."""
        for upload in list(self._uploads.values()):
            if self.foreseen(upload.announcement):
                self._end(upload)
        self._turn.set()

    def lease_over(self, no: AttemptNo, lease: int, why: str) -> None:
        """The coordinator ended a lease; its partial upload dies with it."""
        self.rounds.lease_ended(no, lease, why)
        self._turn.set()
        upload = self._uploads.get((no, lease))
        if upload is not None:
            self._end(upload)

    def leave(self, upload: Upload, writer: Writer) -> None:
        """A stream is over. Unless a newer one writes, the upload waits for the next, if it can still count."""
        if upload.writer is writer:
            upload.writer = None
            if self.foreseen(upload.announcement):
                self._end(upload)

    def close(self) -> None:
        """Before its threads end."""
        uploads, self._uploads = list(self._uploads.values()), {}
        for upload in uploads:
            if upload.finishing is not None:
                upload.finishing.cancel()
            upload.discard()

    @contextmanager
    def _disk(self, path: Path) -> Iterator[None]:
        """What a disk refuses ends the job: without it nothing can be acknowledged."""
        try:
            yield
        except OSError as error:
            failure = file_error(error, path)
            self._failed(failure)
            raise failure from error
        except VennError as failure:
            if not isinstance(failure, Refused):
                self._failed(failure)
            raise

    def _size(self, announcement: Announcement) -> str:
        return self._form.size_problem(announcement.size) if self._form else ""

    async def _finish(self, announcement: Announcement, upload: Upload | None) -> tuple[Decision, bool]:
        problem = self._size(announcement)
        if upload is not None and upload.complete and not problem:
            with self._disk(upload.path):
                problem = await self._inspect(upload)
        try:
            async with self._deciding:
                while self.rounds.waits(announcement.no, announcement.lease):
                    self._turn.clear()
                    await self._turn.wait()
                here = upload is not None and upload.complete
                if not (here or problem or self.foreseen(announcement)):
                    raise Refused("BYTES_NEEDED", "a round opened meanwhile in which it may count: send it again")
                return await self._decide(announcement, upload, problem)
        finally:
            if upload is not None:
                self._forget(upload)

    async def _inspect(self, upload: Upload) -> str:
        assert self._form is not None, "an attempt is open before a response can be complete"
        if upload.body is not None:
            return upload.problem(self._form)
        return await asyncio.get_running_loop().run_in_executor(self._threads, upload.problem, self._form)

    async def _decide(self, announcement: Announcement, upload: Upload | None, problem: str) -> tuple[Decision, bool]:
        no, lease = announcement.no, announcement.lease
        attempt = self.rounds.find(no)
        if attempt is None:
            raise Refused("ATTEMPT_PURGED", f"round {no.round} attempt {no.attempt} ended long ago")
        if lease in attempt.decisions:
            return attempt.decisions[lease], False
        aggregation = self._aggregation  # of this attempt, if it counts: another opens only after this one ended
        into = self.rounds.collector.latest
        decision = self.rounds.decide(no, lease, announcement.device, announcement.digest, problem)
        response = Response(
            decision,
            no,
            attempt.incarnation,
            announcement.device,
            announcement.weight,
            announcement.size,
            round(time.time(), 6),
            announcement.metrics,
        )
        path = self._spool.path(decision.no, lease)
        try:
            with self._disk(path):
                body = upload.body if upload is not None else None
                if self._spool.keeps_at_once(response):
                    self._spool.keep(response, body)
                else:
                    await asyncio.to_thread(self._spool.keep, response, body)
        except VennError as error:
            self.rounds.retract(no, lease, error.reason)
            raise
        if decision.outcome is Outcome.COUNTED and into.status is Status.ABORTED:  # meanwhile
            await asyncio.to_thread(path.unlink, missing_ok=True)
        elif decision.outcome is Outcome.COUNTED and aggregation is not None:
            aggregation.add(Part(lease, path, response.weight, response.metrics, no.round, response.size))
        self._decided(response)
        return decision, True

    def _end(self, upload: Upload) -> None:
        """Its bytes are not wanted any more. Who sends them gets the receipt; with nobody there, it is forgotten."""
        if upload.finishing is not None:
            return
        if upload.writer is not None:
            upload.writer.send_away()
        else:
            self._forget(upload)

    def _forget(self, upload: Upload) -> None:
        found = self._uploads.pop((upload.announcement.no, upload.announcement.lease), None)
        if found is not None and upload.body is None:
            self._threads.submit(upload.discard)
