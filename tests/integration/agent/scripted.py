"""A coordinator and a driver that do what a test says, over real gRPC."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc

from tests.integration.gate import guarded_server
from venn.v1 import common_pb2 as common
from venn.v1 import device_pb2 as device
from venn.v1 import task_pb2 as task
from venn.v1.device_pb2_grpc import DeviceServiceServicer, add_DeviceServiceServicer_to_server
from venn.v1.task_pb2_grpc import TaskServiceServicer, add_TaskServiceServicer_to_server
from venn.wire import chunks
from venn.wire.channel import bind, make_server
from venn.wire.chunks import digest_of
from venn.wire.status import abort

INCARNATION = 1_700_000_000_000
JOB = common.JobKey(owner="test", name="job", run="1")
ATTEMPT = common.AttemptKey(job=JOB, round=3, attempt=1)

Context = grpc.aio.ServicerContext[Any, Any]


class Conversation:
    """One stream, from the coordinator's side."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._frames: asyncio.Queue[device.ConnectRequest | None] = asyncio.Queue()
        self.over = asyncio.Event()
        self.ending: tuple[grpc.StatusCode, str, dict[str, str]] | None = None

    def take(self, frame: device.ConnectRequest | None) -> None:
        self._frames.put_nowait(frame)

    async def hear(self, kind: str) -> Any:
        """The next frame of this kind; heartbeats are passed over. "end": the stream ended."""
        while True:
            frame = await self._frames.get()
            found = "end" if frame is None else str(frame.WhichOneof("frame"))
            if found == kind:
                return None if frame is None else getattr(frame, kind)
            assert found in ("heartbeat", "progress"), f"{found} came, {kind} was awaited: {frame}"

    async def say(self, **frame: Any) -> None:
        await self._context.write(device.ConnectResponse(**frame))

    async def welcome(self, heartbeat_s: float = 1.0, liveness_s: float = 60.0) -> device.CheckIn:
        check_in: device.CheckIn = await self.hear("check_in")
        welcome = device.Welcome(incarnation=INCARNATION, session=1)
        welcome.heartbeat.FromNanoseconds(round(heartbeat_s * 1e9))
        welcome.liveness.FromNanoseconds(round(liveness_s * 1e9))
        await self.say(welcome=welcome)
        return check_in

    def end(self, code: grpc.StatusCode = grpc.StatusCode.OK, reason: str = "", **metadata: str) -> None:
        self.ending = (code, reason, metadata)
        self.over.set()


class Coordinator(DeviceServiceServicer):
    """Hands each stream to the test."""

    def __init__(self) -> None:
        self.streams: asyncio.Queue[Conversation] = asyncio.Queue()

    async def stream(self) -> Conversation:
        return await self.streams.get()

    async def checked_in(self) -> device.CheckIn:
        """Of the next stream whose device still waits for its welcome: one that waited too long has dialled again."""
        while True:
            stream = await self.stream()
            with suppress(grpc.aio.BaseError):
                return await stream.welcome()

    async def Connect(  # type: ignore[override]
        self, requests: AsyncIterator[device.ConnectRequest], context: Context
    ) -> None:
        conversation = Conversation(context)
        self.streams.put_nowait(conversation)
        reading = asyncio.create_task(self._read(requests, conversation))
        await conversation.over.wait()
        reading.cancel()
        if conversation.ending and conversation.ending[0] is not grpc.StatusCode.OK:
            code, reason, metadata = conversation.ending
            await abort(context, code, reason, "as the test says", **metadata)

    async def _read(self, requests: AsyncIterator[device.ConnectRequest], conversation: Conversation) -> None:
        try:
            async for frame in requests:
                conversation.take(frame)
        finally:
            conversation.take(None)
            conversation.over.set()


class Driver(TaskServiceServicer):
    """Serves artifacts and takes responses; ``cut_*_at`` cuts one stream there, once."""

    def __init__(self) -> None:
        self.address = ""
        self.artifacts: dict[bytes, bytes] = {}
        self.fetched: list[tuple[bytes, int]] = []  # digest, offset of each Fetch
        self.exchanges = 0  # streams
        self.received = bytearray()
        self.headers: list[task.SubmitHeader] = []
        self.resumed_at: list[int] = []
        self.cut_fetch_at = self.cut_submit_at = 0
        self.corrupt_fetches = 0
        self.credit = 1 << 20
        self.fail_whole: int | None = None  # of a response that comes whole so much is kept, and no answer given
        self.outcome: common.Outcome.ValueType = common.OUTCOME_COUNTED
        self.refuse: tuple[grpc.StatusCode, str] | None = None
        self.refused, self.submitted = asyncio.Event(), asyncio.Event()
        self.held: asyncio.Event | None = None  # no receipt leaves before it is set

    def artifact(self, data: bytes) -> common.Artifact:
        digest = digest_of(data)
        self.artifacts[digest] = data
        return common.Artifact(digest=digest, size=len(data))

    async def Identify(self, request: task.IdentifyRequest, context: Context) -> task.IdentifyResponse:
        raise NotImplementedError

    async def Fetch(self, request: task.FetchRequest, context: Context) -> AsyncIterator[task.FetchResponse]:
        if self.refuse:
            self.refused.set()
            await abort(context, *self.refuse, "as the test says")
        self.fetched.append((request.digest, request.offset))
        data = self.artifacts[request.digest]
        stop = self.cut_fetch_at or None
        self.cut_fetch_at = 0
        offset, damaged = request.offset, self.corrupt_fetches > 0
        self.corrupt_fetches -= damaged
        for piece in chunks.pieces(data, offset, stop):
            content = bytes(len(piece)) if damaged else bytes(piece)
            yield task.FetchResponse(total_bytes=len(data), chunk=task.Chunk(offset=offset, data=content))
            offset += len(piece)
        if stop:
            await abort(context, grpc.StatusCode.UNAVAILABLE, "CUT", "as the test says")

    async def Submit(  # type: ignore[override]
        self, requests: AsyncIterator[task.SubmitRequest], context: Context
    ) -> AsyncIterator[task.SubmitResponse]:
        header = (await anext(aiter(requests))).header
        self.headers.append(header)
        self.resumed_at.append(len(self.received))
        self.received += header.body[len(self.received) : self.fail_whole]
        if header.body and self.fail_whole is not None:
            await abort(context, grpc.StatusCode.DEADLINE_EXCEEDED, "HEADER", "as the test says")
        while len(self.received) < header.total_bytes:
            offset = len(self.received)
            yield task.SubmitResponse(proceed=task.Proceed(offset=offset, credit_bytes=self.credit))
            while len(self.received) < min(header.total_bytes, offset + self.credit):
                chunk = (await anext(aiter(requests))).chunk
                assert chunk.offset == len(self.received)
                self.received += chunk.data
                if self.cut_submit_at and len(self.received) >= self.cut_submit_at:
                    self.cut_submit_at = 0
                    await abort(context, grpc.StatusCode.UNAVAILABLE, "CUT", "as the test says")
        assert digest_of(self.received) == header.digest
        lease = header.covers[0].lease
        receipt = common.Receipt(lease=lease, attempt=ATTEMPT, outcome=self.outcome, digest=header.digest)
        self.submitted.set()
        if self.held is not None:
            await self.held.wait()
        yield task.SubmitResponse(receipt=receipt)

    async def Exchange(
        self, requests: AsyncIterator[task.ExchangeRequest], context: Context
    ) -> AsyncIterator[task.ExchangeResponse]:
        """As the two others answer."""
        self.exchanges += 1
        async for request in requests:
            if request.HasField("fetch"):
                [fetched] = [answer async for answer in self.Fetch(request.fetch, context)]
                yield task.ExchangeResponse(fetched=fetched)
            else:
                assert len(request.submit.body) == request.submit.total_bytes
                async for answer in self.Submit(_alone(task.SubmitRequest(header=request.submit)), context):
                    yield task.ExchangeResponse(receipt=answer.receipt)


async def _alone(request: task.SubmitRequest) -> AsyncIterator[task.SubmitRequest]:
    yield request


@asynccontextmanager
async def serving(coordinator: Coordinator, driver: Driver) -> AsyncIterator[str]:
    """The coordinator's address, while both answer."""
    front = guarded_server()
    back = make_server()
    add_DeviceServiceServicer_to_server(coordinator, front)
    add_TaskServiceServicer_to_server(driver, back)
    address, driver.address = bind(front, "127.0.0.1:0"), bind(back, "127.0.0.1:0")
    await front.start()
    await back.start()
    try:
        yield address
    finally:
        await front.stop(0)
        await back.stop(0)


def offer(lease: int, driver: Driver, work: common.Task, *, remaining_s: float = 30.0) -> device.Offer:
    made = device.Offer(lease=lease, driver_address=driver.address, attempt=ATTEMPT, task=work)
    made.remaining.FromNanoseconds(round(remaining_s * 1e9))
    return made
