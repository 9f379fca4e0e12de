"""Responses on their way from devices: their bytes go into files, piece by piece, and are checked as they come.

An upload belongs to its lease and dies with it. The newest writer of an upload wins, and what an older one wrote is
kept: it goes on where that stopped.
"""

import asyncio
import os
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError

from job_driver.counting import AttemptNo, Decision, Outcome
from job_driver.form import ResponseForm
from job_driver.inspection import Inspection
from job_driver.responses import Responses
from job_driver.spool import Disk, Refused, ResponseHeader, Spool
from venn.v1 import task_pb2 as task
from venn.wire import chunks
from venn.wire.bounds import Refusals
from venn.wire.chunks import CHUNK_BYTES, SMALL_BYTES, check_size
from venn.wire.files import write_all

CREDIT_BUDGET = 256 * 2**20  # bytes that all devices together may have under way
LEAST_CREDIT, MOST_CREDIT = 2**20, 2**23  # bytes, of one device

Context = grpc.aio.ServicerContext[Any, Any]
Message = TypeVar("Message")


class Writer:
    """One stream that writes an upload, until it is sent away."""

    def __init__(self, seconds: float) -> None:
        """Let the stream write for so many ``seconds`` at most."""
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + seconds
        self._limit: asyncio.Timeout | None = None  # while a message is awaited

    async def wait(self, message: Awaitable[Message]) -> Message:
        """Wait for the next message. Raises TimeoutError once this stream is sent away, or its time is over.

        For reading only: a call of gRPC does not survive that a write of it is cancelled.
        """
        async with asyncio.timeout_at(self._until) as limit:
            self._limit = limit
            try:
                return await message
            finally:
                self._limit = None

    def stop(self) -> None:
        """Let it write no more: it waits for no further message."""
        self._until = self._loop.time()
        if self._limit is not None:
            self._limit.reschedule(self._until)


class Upload:
    """One response on its way. Its file is opened, written, checked and deleted on threads, never on the loop.

    A small one that comes in one piece is checked as it comes, on the loop, and written there with its decision, but
    for a driver that waits for its disk (fsync).
    """

    def __init__(
        self, header: ResponseHeader, form: ResponseForm, spool: Spool, disk: Disk, threads: ThreadPoolExecutor
    ) -> None:
        self.header, self.path = header, spool.partial(header.no, header.lease)
        self.offset = 0  # everything before it is in the file, or in ``body``
        self.body: memoryview | None = None  # of a small one, whole
        self.wanted = True  # its bytes; False: it cannot count any more
        self.problem = ""  # why it is refused, once all bytes are here
        self.writer: Writer | None = None  # the stream that writes now
        self.finishing: asyncio.Task[tuple[Decision, bool]] | None = None  # once all bytes are here
        self._spool, self._disk, self._threads = spool, disk, threads
        self._inspection, self._form = Inspection(header.size, form.limits), form
        self._writing: asyncio.Future[None] | None = None  # a piece
        self._lock = Lock()  # of what follows, which a thread uses
        self._descriptor: int | None = None
        self._over = False

    @property
    def complete(self) -> bool:
        """Whether all bytes are here."""
        return self.offset == self.header.size

    async def append(self, offset: int, data: memoryview) -> None:
        """Write the next piece, to its end even if the caller is cancelled (``settled`` waits for that).

        Raises Refused where it does not follow, VennError where the disk fails.
        """
        if offset != self.offset:
            raise Refused("OFFSET", f"the next byte is {self.offset}, not {offset}")
        if offset + len(data) > self.header.size:
            raise Refused("TOO_LONG", f"more than the {self.header.size} bytes that were announced")
        if len(data) == self.header.size <= SMALL_BYTES:
            self._inspection.take(data)
            self.body = data
            self.problem = self._problem(data)
            self.offset = len(data)
            return
        self._writing = asyncio.get_running_loop().run_in_executor(self._threads, self._write, data)
        await self.settled()

    async def settled(self) -> None:
        """Wait until no piece is under way, from this writer or one before; then ``offset`` holds. Raises VennError."""
        writing = self._writing
        if writing is None:
            return
        with self._disk.used(self.path):
            try:
                await asyncio.shield(writing)
            finally:
                if writing.done() and self._writing is writing:
                    self._writing = None  # what failed may work the next time

    def check_writer(self, writer: Writer) -> None:
        """Check that this stream still writes. Raises Refused SUPERSEDED."""
        if self.writer is not writer:
            raise Refused("SUPERSEDED", "a newer stream submits this response")

    def discard(self) -> None:
        """Delete the file, on a thread; what is still to be written is not written."""
        with self._lock:
            self._over = True
            self._close()
            self.path.unlink(missing_ok=True)

    def _problem(self, whole: memoryview | Path) -> str:
        return self._inspection.problem(self.header.digest) or self._form.problem(whole)

    def _write(self, data: memoryview) -> None:
        with self._lock:
            if self._over:
                return
            if self._descriptor is None:
                path = self._spool.prepare(self.header.no, self.header.lease, self.header.size)
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            descriptor, end = self._descriptor, self.offset + len(data)
            write_all(lambda rest: os.pwrite(descriptor, rest, end - len(rest)), data)
            self._inspection.take(data)
            if end == self.header.size:
                self._close()
                self.problem = self._problem(self.path)
            self.offset = end

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Call:
    """The messages of one call of Submit, after its header. On an Exchange none follow: the body came with it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def piece(self) -> chunks.Piece | None:
        """Read the next piece; None at the stream's end. Raises Refused, or ChunkError for a wrong size."""
        message = await self._context.read()
        if not isinstance(message, bytes):
            return None
        piece = chunks.read_submit_request(message)
        if piece is not None:
            return piece
        frame = parsed_request(message)
        if frame.WhichOneof("frame") != "chunk":
            raise Refused("HEADER", "a frame after the header is not a chunk")
        data = frame.chunk.data
        check_size(frame.chunk.offset, len(data))
        return chunks.Piece(frame.chunk.offset, memoryview(data))

    async def proceed(self, offset: int, granted: int) -> None:
        """Ask for the bytes from ``offset`` up to ``granted``."""
        proceed = task.Proceed(offset=offset, credit_bytes=granted - offset)
        await self._context.write(task.SubmitResponse(proceed=proceed).SerializeToString())


class Uploads:
    """The responses of a job that are not decided yet: who writes which, and how much may be under way."""

    def __init__(
        self,
        responses: Responses,
        spool: Spool,
        threads: ThreadPoolExecutor,
        *,
        free_disk: int,
        refusals: Refusals,
    ) -> None:
        """``threads`` do what takes a disk or much computing; so many bytes of the disk stay free."""
        self.responses, self._spool, self._threads = responses, spool, threads
        self._free_disk, self._refusals = free_disk, refusals
        self._uploads: dict[tuple[AttemptNo, int], Upload] = {}
        self.active: set[int] = set()  # leases with bytes since it was last emptied

    async def submit(
        self, header: ResponseHeader, call: Call, body: memoryview, seconds: float
    ) -> tuple[Decision, bool]:
        """Take in a response as far as its bytes are needed; returns the decision on it, and whether that is new.

        ``body``: the bytes that came with the header: none or all. The rest may take so many ``seconds``. Raises
        VennError.
        """
        self.active.add(header.lease)
        if self.responses.wants(header):
            await self._receive(header, call, body, seconds)
        return await self.acknowledge(header)

    def begin(self, header: ResponseHeader, seconds: float) -> tuple[Upload, Writer]:
        """Start a response, or go on with it, for so long at most; the caller is now its writer.

        Raises Refused where another response was begun on this lease, and where the disk has no room for this one.
        """
        key = header.no, header.lease
        upload = self._uploads.get(key)
        if upload is None:
            if self._spool.free_bytes() < self._free_disk + header.size:
                why = f"no room on the driver's disk for a response of {header.size} bytes"
                self._refusals.met("free_disk", header.device, why)
                raise Refused("OUT_OF_SPACE", why)
            upload = Upload(header, self.responses.form, self._spool, self.responses.disk, self._threads)
            self._uploads[key] = upload
        elif upload.header != header:
            raise Refused("OTHER_RESPONSE", f"another response was begun on lease {header.lease}")
        if upload.writer is not None:
            upload.writer.stop()
        upload.writer, upload.wanted = Writer(seconds), True
        return upload, upload.writer

    async def _receive(self, header: ResponseHeader, call: Call, body: memoryview, seconds: float) -> None:
        """Take the bytes, until all are here or the response cannot count any more. Raises VennError."""
        upload, writer = self.begin(header, seconds)
        try:
            await self._take(upload, writer, call, body)
        except TimeoutError:
            upload.check_writer(writer)
            if upload.wanted:
                raise Refused("TICKET_EXPIRED", "the ticket ended before the response was here") from None
        finally:
            self.leave(upload, writer)

    async def _take(self, upload: Upload, writer: Writer, call: Call, body: memoryview) -> None:
        """Write bytes to the upload, and grant more credit as soon as half of the last is used up."""
        await upload.settled()
        if rest := body[upload.offset :]:  # an earlier stream may have brought some, or all
            await self._keep(upload, chunks.Piece(upload.offset, rest), writer, upload.header.size)
        granted = upload.offset
        while not upload.complete:
            credit = self._credit(upload)
            if granted < upload.header.size and granted - upload.offset <= credit // 2:
                granted = upload.offset + credit
                await call.proceed(upload.offset, granted)
            await self._keep(upload, await writer.wait(call.piece()), writer, granted)
            upload.check_writer(writer)
            if not upload.wanted:
                return

    async def _keep(self, upload: Upload, piece: chunks.Piece | None, writer: Writer, granted: int) -> None:
        """Write a piece. Nothing refers to it afterwards, while the next one is awaited."""
        size = upload.header.size
        upload.check_writer(writer)
        if piece is None:
            raise Refused("TRUNCATED", f"the stream ended at byte {upload.offset} of {size}")
        if granted < piece.offset + len(piece.data) <= size:
            raise Refused("CREDIT", f"only the bytes up to {granted} were asked for")
        await upload.append(piece.offset, piece.data)
        self.active.add(upload.header.lease)

    def _credit(self, upload: Upload) -> int:
        """The number of bytes beyond its offset that a device may send now: a share of what all may, within bounds; up
        to the end of a chunk if it is as much as one.
        """
        share = max(LEAST_CREDIT, min(MOST_CREDIT, CREDIT_BUDGET // max(1, len(self._uploads))))
        end = upload.offset + share
        if share >= CHUNK_BYTES:
            end -= end % CHUNK_BYTES
        return min(end, upload.header.size) - upload.offset

    def leave(self, upload: Upload, writer: Writer) -> None:
        """End a stream. Unless a newer one writes, the upload waits for the next, if it can still count."""
        if upload.writer is writer:
            upload.writer = None
            if not upload.wanted:
                self._end(upload)

    async def acknowledge(self, header: ResponseHeader) -> tuple[Decision, bool]:
        """Let a response be decided whose bytes are all here, or are not needed; returns the decision, and whether it
        is new.

        Goes on to its end even if its caller is cancelled. Raises what ``Responses.take`` does.
        """
        upload = self._uploads.get((header.no, header.lease))
        if upload is None:
            return await asyncio.shield(asyncio.ensure_future(self.responses.take(header, None)))
        if upload.finishing is None:
            upload.finishing = asyncio.create_task(self._finish(upload))
        return await asyncio.shield(upload.finishing)

    async def _finish(self, upload: Upload) -> tuple[Decision, bool]:
        try:
            decision, new = await self.responses.take(upload.header, upload)
            if new and decision.outcome is Outcome.COUNTED and self.responses.full:
                self.review()
            return decision, new
        finally:
            self._forget(upload)

    def review(self) -> None:
        """Look at all that waits: an attempt has opened, filled or ended, or a lease has ended. Uploads that cannot
        count any more end.
        """
        self.responses.wake()
        for upload in list(self._uploads.values()):
            if not self.responses.wants(upload.header):
                self._end(upload)

    def close(self) -> None:
        """End all uploads, before the threads end."""
        uploads, self._uploads = list(self._uploads.values()), {}
        for upload in uploads:
            if upload.finishing is not None:
                upload.finishing.cancel()
            upload.discard()

    def _end(self, upload: Upload) -> None:
        """End an upload whose bytes are not wanted any more: who sends them gets the receipt; with nobody there, it is
        forgotten.
        """
        if upload.finishing is not None:
            return
        upload.wanted = False
        if upload.writer is not None:
            upload.writer.stop()
        else:
            self._forget(upload)

    def _forget(self, upload: Upload) -> None:
        found = self._uploads.pop((upload.header.no, upload.header.lease), None)
        if found is not None and upload.body is None:
            self._threads.submit(upload.discard)


def parsed_request(message: bytes) -> task.SubmitRequest:
    """Parse a SubmitRequest; one without a frame if the bytes are none."""
    try:
        return task.SubmitRequest.FromString(message)
    except DecodeError:
        return task.SubmitRequest()
