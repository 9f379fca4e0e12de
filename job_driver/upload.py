"""One response on its way from a device: its bytes go into a file, piece by piece, and are looked at as they come.

Nothing of gRPC is here. An upload belongs to its lease and dies with it. The newest writer of an upload wins, and what
an older one wrote is kept: it goes on where that stopped.
"""

import asyncio
import os
from collections.abc import Awaitable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TypeVar

from job_driver.counting import AttemptNo, Decision
from job_driver.inspection import Inspection, ResponseForm
from job_driver.spool import Spool
from venn.wire.chunks import SMALL_BYTES
from venn.wire.errors import PeerError, VennError
from venn.wire.files import file_error, write_all

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


class Disk:
    """The disk under a driver's folder. Its first failure ends the job: without it nothing can be acknowledged."""

    def __init__(self) -> None:
        self._failure: asyncio.Future[VennError] = asyncio.get_running_loop().create_future()

    @contextmanager
    def used(self, path: Path) -> Iterator[None]:
        """While a file is worked on. Raises VennError where that fails."""
        try:
            yield
        except OSError as error:
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

    def __init__(
        self, announcement: Announcement, form: ResponseForm, spool: Spool, threads: ThreadPoolExecutor
    ) -> None:
        self.announcement, self.path = announcement, spool.partial(announcement.no, announcement.lease)
        self.offset = 0  # everything before it is in the file, or in ``body``
        self.body: memoryview | None = None  # of a small one, whole
        self.wanted = True  # its bytes; False: it cannot count any more
        self.problem = ""  # why it is refused, once all bytes are here
        self.writer: Writer | None = None  # the stream that writes now
        self.finishing: asyncio.Task[tuple[Decision, bool]] | None = None  # once all bytes are here
        self._spool, self._threads = spool, threads
        self._inspection, self._form = Inspection(announcement.size), form
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
            self.body = data
            self.problem = self._problem(data)
            self.offset = len(data)
            return
        self._writing = asyncio.get_running_loop().run_in_executor(self._threads, self._write, data)
        await self.settled()

    async def settled(self) -> None:
        """Until no piece is under way, from this writer or one before; ``offset`` holds then. Raises OSError."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    def discard(self) -> None:
        """On a thread; what is still to be written is not."""
        with self._lock:
            self._over = True
            self._close()
            self.path.unlink(missing_ok=True)

    def _problem(self, whole: memoryview | Path) -> str:
        return self._inspection.problem(self.announcement.digest) or self._form.problem(whole)

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
            if end == self.announcement.size:
                self._close()
                self.problem = self._problem(self.path)
            self.offset = end

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
