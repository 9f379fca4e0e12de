"""A connection to the coordinator: one channel with one stream on it, and the meaning of the stream's end."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import grpc

from venn.v1.device_pb2 import ConnectRequest, ConnectResponse
from venn.wire.calls import device_stub
from venn.wire.errors import PeerError
from venn.wire.login import Login
from venn.wire.status import metadata_of, peer_error, reason_of

GOODBYE_S = 1.0  # to say what is left to say, and for the other side to close

ANOTHER_VERSION = "VERSION"
FOR_GOOD = frozenset(
    {ANOTHER_VERSION, "UNKNOWN_KEY", "REVOKED", "ROLE", "PROOF", "DEVICE_ID", "SUPERSEDED", "MALFORMED"}
)  # dialling again would change nothing
WRONG_SERVER = grpc.StatusCode.UNIMPLEMENTED


class Refused(PeerError):
    """The refusal of this device for good: it does not dial again, unless the coordinator's version is
    another.
    """


class Lost(PeerError):
    """The loss of a stream, or none could begin: the device dials again after a while."""


class NameTaken(PeerError):
    """The refusal of a name that another live process has: the device dials again later."""

    retry_after_s: float = 0.0


class FirstContact:
    """Whether any device of this process has met the coordinator. If none does, trying ends after ``patience_s``."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: float | None = None  # the first try that failed
        self.met = False  # once the coordinator was there, devices dial for ever: it may come back

    def failed(self, now: float) -> bool:
        """Note one more try that failed; returns whether it was the last."""
        if self._since is None:
            self._since = now
        return not self.met and now >= self._since + self._patience_s


class Stream:
    """A session's stream. ``hear`` is called with each frame down; ``ended`` is done when the other side has ended the
    stream, and raises Refused, Lost or NameTaken. While ``reach`` is not set nothing is said or heard; the connection
    stays open.
    """

    def __init__(
        self,
        login: Login,
        hear: Callable[[ConnectResponse], None],
        reach: asyncio.Event,
        *,
        proxy: str | None = None,
    ) -> None:
        self._where = f"coordinator at {login.address}"
        self._hear, self._reach = hear, reach
        self._channel = login.channel(proxy)
        self._call = device_stub(self._channel).Connect()
        self._outbox: asyncio.Queue[ConnectRequest | None] = asyncio.Queue()
        self.ended: asyncio.Task[None] = asyncio.create_task(self._listen())

    def say(self, frame: ConnectRequest) -> None:
        """Send a frame after those said before. (A session sends only heartbeats and a task's few frames.)"""
        self._outbox.put_nowait(frame)

    async def leave(self) -> None:
        """End the stream politely: send what is left, half-close, and let the other side end the stream."""
        self._outbox.put_nowait(None)
        await asyncio.wait({self.ended}, timeout=GOODBYE_S)
        await self.cut()

    async def cut(self) -> None:
        """Drop the connection at once."""
        self.ended.cancel()
        await self._channel.close()
        await asyncio.wait({self.ended})
        if not self.ended.cancelled():
            self.ended.exception()  # known, and of no interest any more

    async def _listen(self) -> None:
        speaking = asyncio.create_task(self._speak())
        try:
            async for message in self._call:
                await self._reach.wait()
                for frame in (message, *message.more):
                    self._hear(frame)
        except grpc.aio.AioRpcError as error:
            raise _meaning(error, self._where) from error
        finally:
            speaking.cancel()
        raise Lost("ENDED", "it ended the stream", where=self._where)

    async def _speak(self) -> None:
        """Send the frames of the outbox. A write on a stream that was just refused makes grpc.aio (1.85) say INTERNAL
        in place of the refusal (seen in 1 of 100): that is Lost, and the next dial is told the truth.
        """
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # the listener learns why
            while (frame := await self._outbox.get()) is not None:
                await self._reach.wait()
                await self._call.write(frame)
            await self._call.done_writing()


def _meaning(error: grpc.aio.AioRpcError, where: str) -> PeerError:
    said, reason = peer_error(error, where=where), reason_of(error)
    kind: type[PeerError] = Lost
    if reason in FOR_GOOD or error.code() is WRONG_SERVER:
        kind = Refused
    elif reason == "DUPLICATE_DEVICE":
        kind = NameTaken
    meaning = kind(said.reason, said.message, where=said.where, fix=said.fix, details=said.details)
    if isinstance(meaning, NameTaken):
        meaning.retry_after_s = _seconds(metadata_of(error).get("retry_after_s", ""))
    return meaning


def _seconds(text: str) -> float:
    try:
        return min(3600.0, max(0.0, float(text)))
    except ValueError:
        return 0.0
