"""One device's stream: its way out, bounded, and its end.

A session has one lasting coroutine, which reads. What is to be written waits in the outbox; a task that writes lives
only while there is something in it.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

import grpc

from coordinator.engine.ids import DeviceId, SessionSeq
from coordinator.service.allowances import Allowance
from venn.v1.device_pb2 import ConnectResponse
from venn.wire.chunks import joined
from venn.wire.status import abort

Context = grpc.aio.ServicerContext[Any, Any]

MORE = ConnectResponse.MORE_FIELD_NUMBER  # of a message: frames that leave together with its own
MOST_OUTBOX_FRAMES = 256
MOST_OUTBOX_BYTES = 1024 * 1024
FAREWELL_S = 1.0  # to flush the outbox and the status of a session that ends

FRAMES_PER_OFFER, RECORDED_PER_OFFER = 8, 8 * 1024  # that a device may answer with, beyond what it may say anyway


@dataclass(frozen=True, slots=True)
class Ending:
    """The way in which the coordinator ends a stream."""

    code: grpc.StatusCode
    reason: str
    message: str
    retry_after_s: float = 0.0


class Session:
    """A stream and its outbox. Written by the coordinator's loop only."""

    __slots__ = (
        "_bytes",
        "_loop",
        "_outbox",
        "_reader",
        "_writer",
        "acknowledged",
        "asked_at",
        "context",
        "device",
        "ending",
        "frames",
        "heard_at",
        "key_id",
        "open",
        "pace_s",
        "received",
        "recorded",
        "seq",
    )

    def __init__(self, seq: SessionSeq, context: Context, frames: Allowance, recorded: Allowance) -> None:
        """``recorded``: of bytes, shared by all sessions of its device."""
        self.seq, self.frames, self.recorded = seq, frames, recorded
        self.context = context
        self.device = DeviceId("")
        self.key_id = b""  # of the key that began it
        self.open = False  # the engine knows this session and has not ended it
        self.ending: Ending | None = None  # set once: the coordinator ends the stream
        self.received = 0  # seq of the last frame that was handled
        self.acknowledged = 0  # ... that the device was told about
        self.heard_at = 0.0  # engine time of the last sign of life
        self.asked_at = -1.0  # engine time at which it was asked for one
        self.pace_s = 0.0  # between its heartbeats without a task, as it was told last
        self._loop = asyncio.get_running_loop()
        self._reader = asyncio.current_task(self._loop)
        self._outbox: deque[bytes] | None = None  # None: empty; most devices idle
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None

    # -- out

    def send(self, raw: bytes, *, can_wait: bool = False) -> bool:
        """Put a frame into the outbox; False if it is full, or the stream ends. One that can wait leaves with the next
        that cannot, or at ``let_go``.
        """
        if self.ending is not None:
            return False
        outbox = self._outbox
        if outbox is None:
            outbox = self._outbox = deque()
        if len(outbox) >= MOST_OUTBOX_FRAMES or self._bytes + len(raw) > MOST_OUTBOX_BYTES:
            return False
        outbox.append(raw)
        self._bytes += len(raw)
        if not can_wait:
            self.let_go()
        return True

    def let_go(self) -> None:
        """Send what is in the outbox."""
        if self._outbox and self._writer is None:
            self._writer = self._loop.create_task(self._write())

    def expect_answers(self) -> None:
        """Allow more: an offer was sent, which the device will answer with frames."""
        self.frames.add(FRAMES_PER_OFFER)
        self.recorded.add(RECORDED_PER_OFFER)

    async def _write(self) -> None:
        """Write until the outbox is empty. A stream that has ended takes nothing more; its reader finds that out
        itself.
        """
        outbox = self._outbox
        assert outbox is not None
        try:
            while outbox:
                frames = tuple(outbox)
                await self.context.write(frames[0] if len(frames) == 1 else joined(frames, MORE))
                for frame in frames:  # they counted until now: what a device does not read is not free
                    self._bytes -= len(frame)
                    outbox.popleft()
            self._outbox = None
        except grpc.aio.BaseError:
            outbox.clear()
        finally:
            self._writer = None

    # -- the end

    def end(self, ending: Ending) -> None:
        """End the stream from this side: the reader stops, what is in the outbox leaves if the device reads."""
        if self.ending is None:
            self.ending = ending
            if self._reader is not None:
                self._reader.cancel()

    async def flush(self) -> None:
        """Send what is in the outbox before the stream ends of itself. Raises CancelledError where the device does not
        read it: gRPC sends no status beside a message, and would log a traceback of each device that hangs up so.
        """
        self.let_go()
        if self._writer is not None:
            _, writing = await asyncio.wait([self._writer], timeout=FAREWELL_S)
            if writing:
                raise asyncio.CancelledError("the device does not read")

    async def farewell(self) -> None:
        """Flush, then send the status; called in the reader's task after ``end``. Bounded in time, whatever the device
        does.
        """
        assert self.ending is not None
        ending = self.ending
        self.let_go()
        try:
            async with asyncio.timeout(FAREWELL_S):
                if self._writer is not None:
                    await self._writer
                await abort(self.context, ending.code, ending.reason, ending.message, **_details(ending))
        except TimeoutError:
            if self._writer is not None:
                self._writer.cancel()


def _details(ending: Ending) -> dict[str, str]:
    return {"retry_after_s": f"{ending.retry_after_s:.3f}"} if ending.retry_after_s else {}
