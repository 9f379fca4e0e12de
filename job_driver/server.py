"""Serves the job's TaskService: devices fetch the model and the code from here, and submit their responses."""

import math
from collections import OrderedDict
from hashlib import sha256
from typing import Any, assert_never

import grpc
from google.protobuf.message import DecodeError

from job_driver import metrics
from job_driver.artifacts import Artifact, Artifacts
from job_driver.client import OUTCOMES, Link
from job_driver.counting import AttemptNo, Decision
from job_driver.spool import Refused, ResponseHeader
from job_driver.upload import Call, Context, Uploads, parsed_request
from venn.v1 import common_pb2 as common
from venn.v1 import task_pb2 as task
from venn.wire import admission, chunks
from venn.wire.admission import TicketError, check_version
from venn.wire.calls import Exchanges
from venn.wire.chunks import DIGEST_BYTES, SMALL_BYTES, boundary
from venn.wire.errors import VennError
from venn.wire.keys import verifies
from venn.wire.login import showing
from venn.wire.open_calls import OpenCalls
from venn.wire.status import abort
from venn.wire.text import printable

SERVICE = task.DESCRIPTOR.services_by_name["TaskService"].full_name
FETCHED = task.ExchangeResponse.FETCHED_FIELD_NUMBER

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
    "OPEN_FILES": grpc.StatusCode.UNAVAILABLE,
}
MOST_SHOWN = 4096  # tickets whose signature is remembered


class TaskService:
    """Admits by ticket; keeps nothing itself. Fetch writes, and Submit reads, messages as bytes: see ``frames``."""

    def __init__(self, link: Link, artifacts: Artifacts, uploads: Uploads, open_calls: OpenCalls) -> None:
        """``link`` knows the keys of tickets and the coordinator's time; ``open_calls`` reads what shows them."""
        self._job, self._link, self._artifacts, self._uploads = link.job, link, artifacts, uploads
        self._open_calls = open_calls
        self._shown: OrderedDict[tuple[bytes, bytes], None] = OrderedDict()  # payloads with signatures that were right
        self.exchanges = Exchanges()

    async def Identify(self, request: task.IdentifyRequest, context: Context) -> task.IdentifyResponse:
        if request.job != self._job:
            await abort(context, grpc.StatusCode.NOT_FOUND, "OTHER_JOB", f"this driver serves {key_text(self._job)}")
        keys = list(self._link.ticket_keys.values())
        try:
            if not keys:
                raise ValueError("no key is known yet")
            return task.IdentifyResponse(mac=admission.identify_mac(keys[-1], request.challenge))
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
        first = parsed_request(await self._open_calls.request(context))
        if first.WhichOneof("frame") != "header":
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "HEADER", "the first frame is not a header")
        told = await self._receipt(first.header, context)
        await context.write(task.SubmitResponse(receipt=told).SerializeToString())

    async def Exchange(self, request_iterator: object, context: Context) -> None:
        """Answer a device until it leaves, something is refused, or this driver ends."""
        message = await self._open_calls.request(context)
        while message is not None:
            try:
                request = task.ExchangeRequest.FromString(message)
            except DecodeError:
                request = task.ExchangeRequest()
            match request.WhichOneof("request"):
                case "fetch":
                    answer = chunks.field(FETCHED, await self._small(request.fetch, context))
                case "submit" if len(request.submit.body) == request.submit.total_bytes:
                    told = await self._receipt(request.submit, context)
                    answer = task.ExchangeResponse(receipt=told).SerializeToString()
                case "submit" | None:
                    await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "HEADER", "this is not a request")
                case other:
                    assert_never(other)
            await context.write(answer)
            message = await self.exchanges.request(context)

    async def _small(self, request: task.FetchRequest, context: Context) -> bytes:
        """Read all that is asked for, as a serialised FetchResponse."""
        lease, artifact, offset, end = await self._wanted(request, context)
        if not 0 < end - offset <= SMALL_BYTES:
            message = f"an exchange is for 1 to {SMALL_BYTES} bytes, not {end - offset}"
            await abort(context, grpc.StatusCode.OUT_OF_RANGE, "SIZE", message)
        self._uploads.active.add(lease)
        with artifact.fetched():
            return await artifact.message(offset, end)

    async def _wanted(self, request: task.FetchRequest, context: Context) -> tuple[int, Artifact, int, int]:
        """Check a request; returns its lease, the artifact, and the bytes from where to where."""
        await check_version(context, request.version)
        payload, _ = await self._admit(request.ticket, context)
        artifact = self._artifacts.find(request.digest)
        if artifact is None:
            await abort(context, grpc.StatusCode.NOT_FOUND, "ARTIFACT", "this is not served here, or not any more")
        if request.offset > artifact.size:
            await abort(context, grpc.StatusCode.OUT_OF_RANGE, "OFFSET", f"the artifact has {artifact.size} bytes")
        length = request.length or artifact.size
        return payload.lease, artifact, request.offset, min(artifact.size, request.offset + length)

    async def _receipt(self, submit: task.SubmitHeader, context: Context) -> common.Receipt:
        """Answer a response, once its bytes are here or are not needed."""
        await check_version(context, submit.version)
        payload, key = await self._admit(submit.ticket, context)
        left_s = max(0.0, (payload.not_after_ms - self._link.now_ms()) / 1000)
        try:
            header = read_header(submit, payload)
            decision, new = await self._uploads.submit(header, Call(context), memoryview(submit.body), left_s)
        except VennError as error:
            code = CODES.get(error.reason, grpc.StatusCode.FAILED_PRECONDITION)
            await abort(context, code, error.reason, error.message)
        return receipt(self._job, header.no, decision, key, new=new)

    async def _admit(self, ticket: common.Ticket, context: Context) -> tuple[common.TicketPayload, bytes]:
        """Read a genuine ticket that has not expired, and return its key too; end the call for any other."""
        key = self._link.ticket_keys.get(ticket.key_id)
        try:
            if key is None:
                raise TicketError("TICKET_FORGED", "the ticket was not signed for this job")
            payload = admission.verify(ticket, key, ticket.key_id, now_ms=self._link.now_ms())
            if payload.driver_certificate != self._link.certificate:
                raise TicketError("TICKET_FORGED", "the ticket is for a driver with another certificate")
            self._check_device(ticket, payload)
            return payload, key
        except TicketError as error:
            await abort(context, grpc.StatusCode.PERMISSION_DENIED, error.reason, error.message)

    def _check_device(self, ticket: common.Ticket, payload: common.TicketPayload) -> None:
        """Check that the holder of the key that a ticket names shows it, to this driver. Each is looked at once."""
        shown = (ticket.payload, ticket.signature)
        if sha256(ticket.public_key).digest() != payload.device_key:
            raise TicketError("TICKET_FORGED", "the ticket is for the key of another device")
        if shown in self._shown:
            return
        exact = showing(ticket.payload, self._link.certificate)
        if not verifies(ticket.public_key, ticket.signature, exact):
            raise TicketError("TICKET_FORGED", "the ticket was not signed by the key of its device, for this driver")
        self._shown[shown] = None
        if len(self._shown) > MOST_SHOWN:
            self._shown.popitem(last=False)


def add_task_service(service: TaskService, server: grpc.aio.Server) -> None:
    """Add the service to a server as the generated function would, but chunks pass as bytes."""
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Identify": grpc.unary_unary_rpc_method_handler(
            service.Identify, task.IdentifyRequest.FromString, task.IdentifyResponse.SerializeToString
        ),
        "Fetch": grpc.unary_stream_rpc_method_handler(service.Fetch, task.FetchRequest.FromString),
        "Submit": grpc.stream_stream_rpc_method_handler(service.Submit),
        "Exchange": grpc.stream_stream_rpc_method_handler(service.Exchange),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


def read_header(header: task.SubmitHeader, payload: common.TicketPayload) -> ResponseHeader:
    """Read and check the header of a response. Raises Refused HEADER: it breaks the protocol."""
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
    problem, device = metrics.problem(header.metrics), printable(payload.device, 64)
    shown = {} if problem else {name: header.metrics[name] for name in sorted(header.metrics)}
    return ResponseHeader(attempt, payload.lease, device, header.total_bytes, header.digest, weight, shown, problem)


def receipt(job: common.JobKey, no: AttemptNo, decision: Decision, key: bytes, *, new: bool) -> common.Receipt:
    """The receipt that a device gets: the decision, or that it was told before. ``key`` signs it: its ticket's."""
    outcome = OUTCOMES[decision.outcome]
    return common.Receipt(
        lease=decision.lease,
        attempt=common.AttemptKey(job=job, round=no.round, attempt=no.attempt),
        outcome=outcome if new else common.OUTCOME_DUPLICATE,
        first_outcome=common.OUTCOME_UNSPECIFIED if new else outcome,
        reason=decision.reason,
        digest=decision.digest,
        mac=admission.receipt_mac(key, decision.lease, outcome, decision.digest),
    )


def key_text(job: common.JobKey) -> str:
    """A job's key as text: owner/name/run."""
    return f"{job.owner}/{job.name}/{job.run}"
