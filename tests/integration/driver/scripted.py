"""The other two sides of a driver, scripted: a coordinator that does what a test says, and devices that misbehave."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import grpc
import numpy as np

from tests.integration.gate import KEYS, guarded_server, login
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.v1 import task_pb2 as task
from venn.v1.job_pb2_grpc import JobServiceServicer, add_JobServiceServicer_to_server
from venn.v1.task_pb2_grpc import TaskServiceStub
from venn.wire import admission, tensors
from venn.wire.admission import this_version
from venn.wire.channel import bind, open_channel
from venn.wire.chunks import digest_of
from venn.wire.status import abort

CHUNK = 64 * 1024


class Coordinator(JobServiceServicer):
    """Answers a driver. Leases and ends of attempts happen when a test says so; the K-th response closes by itself."""

    def __init__(self) -> None:
        self.incarnation = int(time.time() * 1000)
        self.key, self.key_id = secrets.token_bytes(32), secrets.token_hex(8)
        self.submitted: list[pb.SubmitJobRequest] = []
        self.opened: dict[tuple[int, int], pb.OpenAttemptRequest] = {}
        self.status: dict[tuple[int, int], int] = {}
        self.recorded: dict[tuple[int, int], dict[int, int]] = {}  # attempt -> lease -> outcome
        self.record_calls = self.drive_calls = 0
        self.activity: list[int] = []
        self.activity_calls = 0
        self.heartbeat_ms = 0  # 0: none is wanted
        self.metrics: dict[int, Mapping[str, float]] = {}
        self.ended = ""  # finished, cancelled, failed
        self.cancel_reason = ""
        self.over = ""  # the phase that a driver is told that asks for a job which has ended
        self.answers_finish = True
        self.closes = True  # whether the K-th response closes an attempt
        self.address = ""
        self._frames: list[pb.FollowJobResponse] = []
        self.follow_calls = 0
        self._gone = 0  # seq of the last frame that is not kept any more
        self._changed = asyncio.Condition()
        self._known = False

    def restart(self) -> None:
        """Come back with another incarnation and no memory."""
        self.incarnation += 1000
        self.key, self.key_id = secrets.token_bytes(32), secrets.token_hex(8)
        self._known, self._frames, self._gone = False, [], 0
        self.opened, self.status, self.recorded = {}, {}, {}

    async def wait_for(self, condition: Any) -> None:
        """Until a condition on this object holds."""
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def tell(self, **frame: Any) -> None:
        """A frame on the follow stream."""
        self._frames.append(pb.FollowJobResponse(seq=len(self._frames) + 1, **frame))
        await self._change()

    async def forget(self, **frame: Any) -> None:
        """A frame that is not kept for as long as the driver takes to read it."""
        self._frames.append(pb.FollowJobResponse(seq=len(self._frames) + 1, **frame))
        self._gone = len(self._frames)
        await self._change()

    async def end_attempt(self, no: tuple[int, int], status: int, reason: int) -> None:
        self.status[no] = status
        await self.tell(attempt_ended=pb.AttemptEnded(attempt=self.attempt(no), status=status, reason=reason))

    async def end_lease(self, no: tuple[int, int], lease: int, reason: int) -> None:
        await self.tell(ended=pb.LeaseEnded(lease=lease, attempt=self.attempt(no), reason=reason))

    def attempt(self, no: tuple[int, int]) -> common.AttemptKey:
        return common.AttemptKey(job=self.submitted[-1].key, round=no[0], attempt=no[1])

    def ticket(
        self,
        no: tuple[int, int],
        lease: int,
        *,
        seconds: float = 60,
        key: bytes | None = None,
        device: str = "",
        certificate: bytes = b"",
        shown_to: bytes | None = None,
    ) -> common.Ticket:
        not_after = int((time.time() + seconds) * 1000)
        payload = common.TicketPayload(
            device=device or f"device-{lease}",
            attempt=self.attempt(no),
            lease=lease,
            not_after_ms=not_after,
            driver_certificate=sha256(certificate).digest() if certificate else b"",
            device_key=KEYS.device.id,
        )
        ticket = admission.sign(payload, key or self.key, self.key_id)
        return login("127.0.0.1:1", "device").sign_ticket(ticket, shown_to if shown_to is not None else certificate)

    # -- JobService

    async def SubmitJob(self, request: pb.SubmitJobRequest, context: Any) -> pb.SubmitJobResponse:
        self.submitted.append(request)
        if self.over:
            message = f"it has {self.over}"
            await abort(
                context, grpc.StatusCode.FAILED_PRECONDITION, "JOB_ENDED", message, phase=self.over, why="not today"
            )
        self._known, self.address = True, request.address
        await self._change()
        return pb.SubmitJobResponse(
            ticket_key=self.key,
            key_id=self.key_id,
            incarnation=self.incarnation,
            now_ms=int(time.time() * 1000),
            version=this_version(),
            heartbeat={"nanos": self.heartbeat_ms * 10**6},
        )

    async def _open_attempt(self, request: pb.OpenAttemptRequest, context: Any) -> pb.OpenAttemptResponse:
        await self._check(context)
        no = request.key.round, request.key.attempt
        if self.opened.setdefault(no, request).task != request.task:
            await abort(context, grpc.StatusCode.ALREADY_EXISTS, "KEY_REUSED", "it was opened with another task")
        if self.status.get((no[0], no[1] - 1)) == pb.ATTEMPT_STATUS_OPEN:
            self.status[no[0], no[1] - 1] = pb.ATTEMPT_STATUS_ABORTED  # given up
        self.status.setdefault(no, pb.ATTEMPT_STATUS_OPEN)
        await self._change()
        return pb.OpenAttemptResponse(status=self.status[no], responses_needed=1, places=1)

    async def FollowJob(self, request: pb.FollowJobRequest, context: Any) -> AsyncIterator[pb.FollowJobResponse]:
        await self._check(context)
        after = request.after_seq or self._gone
        self.follow_calls += 1
        await self._change()
        yield pb.FollowJobResponse(now_ms=int(time.time() * 1000), alive=pb.DriverAlive(address_verified=True))
        while self._known:
            if after < self._gone:
                await abort(context, grpc.StatusCode.OUT_OF_RANGE, "HISTORY_GONE", "it is not kept")
            for frame in self._frames[after:]:
                frame.now_ms = int(time.time() * 1000)
                yield frame
                after = frame.seq
            async with self._changed:
                await self._changed.wait_for(lambda seen=after: len(self._frames) > seen or not self._known)

    async def _record_responses(self, request: pb.RecordResponsesRequest, context: Any) -> pb.RecordResponsesResponse:
        await self._check(context)
        self.record_calls += 1
        no = request.attempt.round, request.attempt.attempt
        if no not in self.opened:
            await abort(context, grpc.StatusCode.FAILED_PRECONDITION, "OUT_OF_ORDER", "it was not opened here")
        told = self.recorded.setdefault(no, {})
        for response in request.responses:
            told.setdefault(response.lease, response.outcome)
        counted = sum(outcome == common.OUTCOME_COUNTED for outcome in told.values())
        if self.closes and self.status.get(no) == pb.ATTEMPT_STATUS_OPEN and counted >= self._needed():
            await self.end_attempt(no, pb.ATTEMPT_STATUS_CLOSED, pb.ATTEMPT_END_REASON_ENOUGH)
        await self._change()
        return pb.RecordResponsesResponse(status=self.status.get(no, pb.ATTEMPT_STATUS_ABORTED), responses=counted)

    async def Drive(self, requests: AsyncIterator[pb.DriveRequest], context: Any) -> AsyncIterator[pb.DriveResponse]:
        self.drive_calls += 1
        async for request in requests:
            if request.HasField("open_attempt"):
                yield pb.DriveResponse(attempt_opened=await self._open_attempt(request.open_attempt, context))
            else:
                recorded = await self._record_responses(request.record_responses, context)
                yield pb.DriveResponse(responses_recorded=recorded)

    async def ReportActivity(self, request: pb.ReportActivityRequest, context: Any) -> pb.ReportActivityResponse:
        self.activity += request.leases
        self.activity_calls += 1
        await self._change()
        return pb.ReportActivityResponse()

    async def ReportRound(self, request: pb.ReportRoundRequest, context: Any) -> pb.ReportRoundResponse:
        self.metrics[request.round] = dict(request.metrics)
        await self._change()
        return pb.ReportRoundResponse()

    async def FinishJob(self, request: pb.FinishJobRequest, context: Any) -> pb.FinishJobResponse:
        await self._check(context)
        self.ended = "finished"
        if not self.answers_finish:
            await abort(context, grpc.StatusCode.UNAVAILABLE, "FAULT", "the answer is lost")
        return pb.FinishJobResponse()

    async def CancelJob(self, request: pb.CancelJobRequest, context: Any) -> pb.CancelJobResponse:
        self.ended, self.cancel_reason = "failed" if request.failed else "cancelled", request.reason
        assert request.driver_incarnation == self.submitted[-1].driver_incarnation
        return pb.CancelJobResponse(phase=pb.JOB_PHASE_CANCELLED)

    def _needed(self) -> int:
        spec = self.submitted[-1].spec
        if spec.HasField("asynchronous"):
            return spec.asynchronous.buffer
        return -(-int(float(spec.min_response) * 100) * spec.demand // 100)

    async def _check(self, context: Any) -> None:
        if not self._known:
            await abort(context, grpc.StatusCode.NOT_FOUND, "UNKNOWN_JOB", "no such job")

    async def _change(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@asynccontextmanager
async def coordinator(address: str = "127.0.0.1:0") -> AsyncIterator[tuple[Coordinator, str]]:
    """A scripted coordinator on loopback, and its address."""
    server, scripted = guarded_server(), Coordinator()
    add_JobServiceServicer_to_server(scripted, server)
    bound = bind(server, address, insecure=False)
    await server.start()
    try:
        yield scripted, bound
    finally:
        scripted._known = False
        await scripted._change()
        await server.stop(0)


class Device:
    """One device's dealings with a driver, step by step."""

    def __init__(
        self, side: Coordinator, no: tuple[int, int], lease: int, *, address: str = "", name: str = ""
    ) -> None:
        self.side, self.no, self.lease = side, no, lease
        self.ticket = side.ticket(no, lease, device=name)
        self._channel = open_channel(address or side.address)
        self.stub: Any = TaskServiceStub(self._channel)

    async def __aenter__(self) -> "Device":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._channel.close()

    async def fetch(self, artifact: common.Artifact, *, offset: int = 0, length: int = 0) -> bytes:
        request = task.FetchRequest(
            ticket=self.ticket, version=this_version(), digest=artifact.digest, offset=offset, length=length
        )
        got = bytearray()
        async for answer in self.stub.Fetch(request):
            assert answer.total_bytes == artifact.size
            if not answer.HasField("chunk"):
                continue
            assert answer.chunk.offset == offset + len(got)
            got += answer.chunk.data
        return bytes(got)

    async def model(self) -> dict[str, np.ndarray]:
        return tensors.decode(await self.fetch(self.side.opened[self.no].task.model))

    def header(
        self, body: bytes, *, weight: float = 1.0, total: int | None = None, **metrics: float
    ) -> task.SubmitRequest:
        header = task.SubmitHeader(
            ticket=self.ticket,
            version=this_version(),
            covers=[task.Cover(lease=self.lease, weight=weight)],
            total_bytes=len(body) if total is None else total,
            digest=digest_of(body),
            metrics=metrics,
        )
        return task.SubmitRequest(header=header)

    def begin(self) -> Any:
        """A Submit stream."""
        return self.stub.Submit()

    async def submit_whole(self, body: bytes, frame: task.SubmitRequest) -> task.SubmitResponse:
        """All bytes in the header, in a call for one answer. Raises AioRpcError."""
        frame.header.body = body
        submit = self._channel.unary_unary(
            "/venn.v1.TaskService/Submit",
            request_serializer=task.SubmitRequest.SerializeToString,
            response_deserializer=task.SubmitResponse.FromString,
        )
        answer: task.SubmitResponse = await submit(frame)
        return answer

    def exchange(self) -> Any:
        """A lasting stream for what is small."""
        return self.stub.Exchange()

    async def submit(
        self, arrays: Mapping[str, np.ndarray] | bytes, *, weight: float = 1.0, **metrics: float
    ) -> common.Receipt:
        """A well-behaved submission."""
        body = arrays if isinstance(arrays, bytes) else tensors.encode(arrays)
        call = self.begin()
        await call.write(self.header(body, weight=weight, **metrics))
        sent = 0
        while True:
            answer = await call.read()
            assert answer is not grpc.aio.EOF, await call.code()
            if answer.WhichOneof("frame") == "receipt":
                return answer.receipt
            end = min(len(body), answer.proceed.offset + answer.proceed.credit_bytes)
            sent = max(sent, answer.proceed.offset)
            while sent < end:
                await call.write(piece(body, sent, min(end, sent + CHUNK)))
                sent = min(end, sent + CHUNK)


def piece(body: bytes, start: int, end: int) -> task.SubmitRequest:
    return task.SubmitRequest(chunk=task.Chunk(offset=start, data=body[start:end]))


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    """The status and reason with which a driver ended a stream."""
    from venn.wire.status import reason_of

    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as error:
        return error.code(), reason_of(error)
    return await call.code(), ""
