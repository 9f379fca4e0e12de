"""Serves the job's TaskService: devices fetch the model and the code from here, and submit their responses."""

import asyncio
import math
from collections.abc import Mapping
from typing import Any, NoReturn, assert_never

import grpc
from google.protobuf.message import DecodeError

from job_driver.admission import Admission
from job_driver.artifacts import Artifact, Artifacts
from job_driver.counting import AttemptNo, Decision
from job_driver.recorder import OUTCOMES
from job_driver.upload import Announcement, Refused
from job_driver.uploads import Uploads
from venn.v1 import common_pb2 as common
from venn.v1 import task_pb2 as task
from venn.wire import frames
from venn.wire.chunks import SMALL_BYTES, boundary, check_size
from venn.wire.digest import DIGEST_BYTES
from venn.wire.errors import VennError
from venn.wire.exchange import Exchanges
from venn.wire.status import abort
from venn.wire.text import printable
from venn.wire.tickets import TicketError
from venn.wire.versions import check_version

SERVICE = task.DESCRIPTOR.services_by_name["TaskService"].full_name
HEADER_WITHIN_S = 30.0  # from the opening of a stream
FETCHED = task.ExchangeResponse.FETCHED_FIELD_NUMBER
MOST_METRICS = 64

CODES = {  # of what is refused in mid-transfer; the rest is FAILED_PRECONDITION
    "CHUNK_SIZE": grpc.StatusCode.INVALID_ARGUMENT,
    "HEADER": grpc.StatusCode.INVALID_ARGUMENT,
    "CREDIT": grpc.StatusCode.INVALID_ARGUMENT,
    "TOO_LONG": grpc.StatusCode.INVALID_ARGUMENT,
    "OUT_OF_SPACE": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "FILE": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "OTHER_RESPONSE": grpc.StatusCode.ALREADY_EXISTS,
    "SUPERSEDED": grpc.StatusCode.ABORTED,
    "BYTES_NEEDED": grpc.StatusCode.UNAVAILABLE,  # its device tries again
}

Context = grpc.aio.ServicerContext[Any, Any]


class TaskService:
    """Admits by ticket; keeps nothing itself. Fetch writes, and Submit reads, messages as bytes: see ``frames``."""

    def __init__(self, job: common.JobKey, admission: Admission, artifacts: Artifacts, uploads: Uploads) -> None:
        self._job, self._admission, self._artifacts, self._uploads = job, admission, artifacts, uploads
        self.exchanges = Exchanges()

    async def Identify(self, request: task.IdentifyRequest, context: Context) -> task.IdentifyResponse:
        if request.job != self._job:
            await abort(context, grpc.StatusCode.NOT_FOUND, "OTHER_JOB", f"this driver serves {key_text(self._job)}")
        try:
            return task.IdentifyResponse(mac=self._admission.identify(request.challenge))
        except ValueError as error:
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "CHALLENGE", str(error))

    async def Fetch(self, request: task.FetchRequest, context: Context) -> None:
        lease, artifact, offset, end = await self._wanted(request, context)
        if offset == end:
            await context.write(task.FetchResponse(total_bytes=artifact.size).SerializeToString())
        with artifact.fetched():
            while offset < end:
                stop = boundary(offset, end)
                await context.write(await artifact.message(offset, stop))
                self._uploads.active.add(lease)
                offset = stop

    async def Submit(self, request_iterator: object, context: Context) -> None:
        try:
            async with asyncio.timeout(HEADER_WITHIN_S):
                message = await _next(context)
        except TimeoutError:
            await abort(context, grpc.StatusCode.DEADLINE_EXCEEDED, "HEADER", "no header came")
        first = _parsed(message or b"")
        if first is None or first.WhichOneof("frame") != "header":
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "HEADER", "the first frame is not a header")
        told = await self._receipt(first.header, context)
        await context.write(task.SubmitResponse(receipt=told).SerializeToString())

    async def Exchange(self, request_iterator: object, context: Context) -> None:
        """Until its device leaves, something is refused, or this driver ends."""
        admitted = False
        while (message := await self.exchanges.request(context, None if admitted else HEADER_WITHIN_S)) is not None:
            try:
                request = task.ExchangeRequest.FromString(message)
            except DecodeError:
                request = task.ExchangeRequest()
            match request.WhichOneof("request"):
                case "fetch":
                    answer = frames.field(FETCHED, await self._small(request.fetch, context))
                case "submit" if len(request.submit.body) == request.submit.total_bytes:
                    told = await self._receipt(request.submit, context)
                    answer = task.ExchangeResponse(receipt=told).SerializeToString()
                case "submit" | None:
                    await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "HEADER", "this is not a request")
                case other:
                    assert_never(other)
            await context.write(answer)
            admitted = True

    async def _small(self, request: task.FetchRequest, context: Context) -> bytes:
        """All that is asked for, as a serialised FetchResponse."""
        lease, artifact, offset, end = await self._wanted(request, context)
        if not 0 < end - offset <= SMALL_BYTES:
            message = f"an exchange is for 1 to {SMALL_BYTES} bytes, not {end - offset}"
            await abort(context, grpc.StatusCode.OUT_OF_RANGE, "SIZE", message)
        self._uploads.active.add(lease)
        with artifact.fetched():
            return await artifact.message(offset, end)

    async def _wanted(self, request: task.FetchRequest, context: Context) -> tuple[int, Artifact, int, int]:
        """For which lease, what, and from where to where."""
        await check_version(context, request.version)
        lease = (await self._admit(request.ticket, context)).lease
        artifact = self._artifacts.find(request.digest)
        if artifact is None:
            await abort(context, grpc.StatusCode.NOT_FOUND, "ARTIFACT", "this is not served here, or not any more")
        if request.offset > artifact.size:
            await abort(context, grpc.StatusCode.OUT_OF_RANGE, "OFFSET", f"the artifact has {artifact.size} bytes")
        length = request.length or artifact.size
        return lease, artifact, request.offset, min(artifact.size, request.offset + length)

    async def _receipt(self, header: task.SubmitHeader, context: Context) -> common.Receipt:
        """The answer to a response, once its bytes are here or are not needed."""
        await check_version(context, header.version)
        payload = await self._admit(header.ticket, context)
        left_s = self._admission.seconds_left(payload)
        try:
            announcement = announcement_of(header, payload)
            decision, new = await self._uploads.submit(announcement, _Call(context), memoryview(header.body), left_s)
        except VennError as error:
            await _refuse(context, error)
        return receipt(self._job, announcement.no, decision, new=new)

    async def _admit(self, ticket: common.Ticket, context: Context) -> common.TicketPayload:
        try:
            return self._admission.admit(ticket)
        except TicketError as error:
            await abort(context, grpc.StatusCode.PERMISSION_DENIED, error.reason, error.message)


class _Call:
    """The messages of one call of Submit, behind its header. Of Exchange there are none to come: the body was there."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def piece(self) -> frames.Piece | None:
        """Raises Refused where the message has none, ChunkError where it has a wrong size."""
        message = await _next(self._context)
        if message is None:
            return None
        piece = frames.read_submit_request(message)
        if piece is not None:
            return piece
        frame = _parsed(message)
        if frame is None or frame.WhichOneof("frame") != "chunk":
            raise Refused("HEADER", "a frame after the header is not a chunk")
        data = frame.chunk.data
        check_size(frame.chunk.offset, len(data))
        return frames.Piece(frame.chunk.offset, memoryview(data))

    async def proceed(self, offset: int, granted: int) -> None:
        proceed = task.Proceed(offset=offset, credit_bytes=granted - offset)
        await self._context.write(task.SubmitResponse(proceed=proceed).SerializeToString())


def add_task_service(service: TaskService, server: grpc.aio.Server) -> None:
    """As the generated function would, but that chunks pass as bytes."""
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Identify": grpc.unary_unary_rpc_method_handler(
            service.Identify, task.IdentifyRequest.FromString, task.IdentifyResponse.SerializeToString
        ),
        "Fetch": grpc.unary_stream_rpc_method_handler(service.Fetch, task.FetchRequest.FromString),
        "Submit": grpc.stream_stream_rpc_method_handler(service.Submit),
        "Exchange": grpc.stream_stream_rpc_method_handler(service.Exchange),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


def announcement_of(header: task.SubmitHeader, payload: common.TicketPayload) -> Announcement:
    """Raises Refused HEADER where the header is none."""
    covers = list(header.covers)
    if len(covers) != 1 or covers[0].lease != payload.lease:
        raise Refused("HEADER", f"the response must cover lease {payload.lease}, and no other")
    weight = covers[0].weight
    if not (math.isfinite(weight) and weight > 0):
        raise Refused("HEADER", f"the weight must be a finite number above 0, not {weight}")
    if len(header.digest) != DIGEST_BYTES:
        raise Refused("HEADER", f"the digest must have {DIGEST_BYTES} bytes")
    if header.body and (len(header.body) != header.total_bytes or header.total_bytes > SMALL_BYTES):
        raise Refused("HEADER", f"a body must be all of a response of at most {SMALL_BYTES} bytes")
    attempt = AttemptNo(payload.attempt.round, payload.attempt.attempt)
    device, metrics = printable(payload.device, 64), _metrics(header.metrics)
    return Announcement(attempt, payload.lease, device, header.total_bytes, header.digest, weight, metrics)


def receipt(job: common.JobKey, no: AttemptNo, decision: Decision, *, new: bool) -> common.Receipt:
    """What a device is told: the decision, or that it was told before."""
    outcome = OUTCOMES[decision.outcome]
    return common.Receipt(
        lease=decision.lease,
        attempt=common.AttemptKey(job=job, round=no.round, attempt=no.attempt),
        outcome=outcome if new else common.OUTCOME_DUPLICATE,
        first_outcome=common.OUTCOME_UNSPECIFIED if new else outcome,
        reason=decision.reason,
        digest=decision.digest,
    )


def key_text(job: common.JobKey) -> str:
    """owner/name/run."""
    return f"{job.owner}/{job.name}/{job.run}"


def _metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    if len(metrics) > MOST_METRICS:
        raise Refused("HEADER", f"{len(metrics)} metrics, allowed are {MOST_METRICS}")
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise Refused("HEADER", f"metric {printable(name, 64)} is not a finite number")
    return {printable(name, 64): metrics[name] for name in sorted(metrics)}


async def _next(context: Context) -> bytes | None:
    """The next message; None at the end of the stream."""
    message = await context.read()
    return message if isinstance(message, bytes) else None


def _parsed(message: bytes) -> task.SubmitRequest | None:
    try:
        return task.SubmitRequest.FromString(message)
    except DecodeError:
        return None


async def _refuse(context: Context, error: VennError) -> NoReturn:
    await abort(context, CODES.get(error.reason, grpc.StatusCode.FAILED_PRECONDITION), error.reason, error.message)
