"""All responses on their way: who writes which, how much may be under way, and when one is not wanted any more."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from job_driver.counting import AttemptNo, Decision
from job_driver.responses import Responses
from job_driver.spool import Spool
from job_driver.upload import Announcement, Refused, Upload, Writer
from venn.wire.chunks import CHUNK_BYTES
from venn.wire.frames import Piece

CREDIT_BUDGET = 256 * 2**20  # bytes that all devices together may have under way
LEAST_CREDIT, MOST_CREDIT = 2**20, 2**23  # bytes, of one device


class Stream(Protocol):
    """The pieces of a response, as one call of a device brings them."""

    async def piece(self) -> Piece | None:
        """The next one; None: the device has ended the stream. Raises VennError where it is none."""

    async def proceed(self, offset: int, granted: int) -> None:
        """Ask for the bytes from ``offset`` up to ``granted``."""


class Uploads:
    """The responses of a job that are not decided yet."""

    def __init__(self, responses: Responses, spool: Spool, threads: ThreadPoolExecutor) -> None:
        """``threads`` do what takes a disk or much computing."""
        self._responses, self._spool, self._threads = responses, spool, threads
        self._uploads: dict[tuple[AttemptNo, int], Upload] = {}
        self.active: set[int] = set()  # leases with bytes since it was last emptied
        responses.changed = self.sweep

    async def submit(
        self, announcement: Announcement, stream: Stream, body: memoryview, seconds: float
    ) -> tuple[Decision, bool]:
        """The decision on a response, once its bytes are here or are not needed; and whether it is new.

        ``body``: the bytes that came with the announcement: none or all. The rest may take so many ``seconds``.
        Raises VennError.
        """
        self.active.add(announcement.lease)
        if self._responses.wants(announcement):
            await self._receive(announcement, stream, body, seconds)
        return await self.acknowledge(announcement)

    async def acknowledge(self, announcement: Announcement) -> tuple[Decision, bool]:
        """The decision on a response whose bytes are all here, or are not needed; and whether it is new.

        Goes on to its end even if its caller is cancelled. Raises what ``Responses.take`` does.
        """
        upload = self._uploads.get((announcement.no, announcement.lease))
        if upload is None:
            return await asyncio.shield(asyncio.ensure_future(self._responses.take(announcement, None)))
        if upload.finishing is None:
            upload.finishing = asyncio.create_task(self._finish(upload))
        return await asyncio.shield(upload.finishing)

    def begin(self, announcement: Announcement, seconds: float) -> tuple[Upload, Writer]:
        """Start a response, or go on with it, for so long at most; the caller is now its writer.

        Raises Refused where another response was begun on this lease.
        """
        key = announcement.no, announcement.lease
        upload = self._uploads.get(key)
        if upload is None:
            upload = Upload(announcement, self._responses.form, self._spool, self._threads)
            self._uploads[key] = upload
        elif upload.announcement != announcement:
            raise Refused("OTHER_RESPONSE", f"another response was begun on lease {announcement.lease}")
        if upload.writer is not None:
            upload.writer.send_away()
        upload.writer, upload.wanted = Writer(seconds), True
        return upload, upload.writer

    async def settled(self, upload: Upload) -> None:
        """Until what an earlier writer brought is on disk. Raises VennError where that fails."""
        with self._responses.disk.used(upload.path):
            await upload.settled()

    async def append(self, upload: Upload, offset: int, data: memoryview) -> None:
        """The next piece. Raises Refused where it does not follow, VennError where the disk fails."""
        with self._responses.disk.used(upload.path):
            await upload.append(offset, data)
        self.active.add(upload.announcement.lease)

    def leave(self, upload: Upload, writer: Writer) -> None:
        """A stream is over. Unless a newer one writes, the upload waits for the next, if it can still count."""
        if upload.writer is writer:
            upload.writer = None
            if not upload.wanted:
                self._end(upload)

    def sweep(self) -> None:
        """The uploads that cannot count any more end, for an attempt has filled or ended, or a lease has."""
        for upload in list(self._uploads.values()):
            if not self._responses.wants(upload.announcement):
                self._end(upload)

    def close(self) -> None:
        """Before its threads end."""
        uploads, self._uploads = list(self._uploads.values()), {}
        for upload in uploads:
            if upload.finishing is not None:
                upload.finishing.cancel()
            upload.discard()

    async def _receive(self, announcement: Announcement, stream: Stream, body: memoryview, seconds: float) -> None:
        """Take the bytes, until all are here or the response cannot count any more. Raises VennError."""
        upload, writer = self.begin(announcement, seconds)
        try:
            await self._take(upload, writer, stream, body)
        except TimeoutError:
            _still_writes(upload, writer)
            if upload.wanted:
                raise Refused("TICKET_EXPIRED", "the ticket ended before the response was here") from None
        finally:
            self.leave(upload, writer)

    async def _take(self, upload: Upload, writer: Writer, stream: Stream, body: memoryview) -> None:
        """Bytes into the upload, and credit for more as soon as half of the last is used up."""
        await self.settled(upload)
        if rest := body[upload.offset :]:  # an earlier stream may have brought some, or all
            _still_writes(upload, writer)
            await self.append(upload, upload.offset, rest)
        announcement, granted = upload.announcement, upload.offset
        while not upload.complete:
            credit = self._credit(upload)
            if granted < announcement.size and granted - upload.offset <= credit // 2:
                granted = upload.offset + credit
                await stream.proceed(upload.offset, granted)
            await self._keep(upload, await writer.wait(stream.piece()), writer, granted)
            _still_writes(upload, writer)
            if not upload.wanted:
                return

    async def _keep(self, upload: Upload, piece: Piece | None, writer: Writer, granted: int) -> None:
        """Put a piece where it belongs. Nothing refers to it afterwards, while the next one is awaited."""
        size = upload.announcement.size
        _still_writes(upload, writer)
        if piece is None:
            raise Refused("TRUNCATED", f"the stream ended at byte {upload.offset} of {size}")
        if granted < piece.offset + len(piece.data) <= size:
            raise Refused("CREDIT", f"only the bytes up to {granted} were asked for")
        await self.append(upload, piece.offset, piece.data)

    def _credit(self, upload: Upload) -> int:
        """Bytes beyond its offset that a device may send now: a share of what all may, within bounds; up to the
        end of a chunk if it is as much as one.
        """
        share = max(LEAST_CREDIT, min(MOST_CREDIT, CREDIT_BUDGET // max(1, len(self._uploads))))
        end = upload.offset + share
        if share >= CHUNK_BYTES:
            end -= end % CHUNK_BYTES
        return min(end, upload.announcement.size) - upload.offset

    async def _finish(self, upload: Upload) -> tuple[Decision, bool]:
        try:
            return await self._responses.take(upload.announcement, upload)
        finally:
            self._forget(upload)

    def _end(self, upload: Upload) -> None:
        """Its bytes are not wanted any more. Who sends them gets the receipt; with nobody there, it is forgotten."""
        if upload.finishing is not None:
            return
        upload.wanted = False
        if upload.writer is not None:
            upload.writer.send_away()
        else:
            self._forget(upload)

    def _forget(self, upload: Upload) -> None:
        found = self._uploads.pop((upload.announcement.no, upload.announcement.lease), None)
        if found is not None and upload.body is None:
            self._threads.submit(upload.discard)


def _still_writes(upload: Upload, writer: Writer) -> None:
    if upload.writer is not writer:
        raise Refused("SUPERSEDED", "a newer stream submits this response")
