"""Decoders of what peers send."""

import asyncio
import json
import ssl
from collections.abc import Coroutine
from typing import Any, cast

import grpc
import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from coordinator.engine.events import Event, JobSubmitted
from coordinator.engine.ids import DeviceId, JobId, SessionSeq
from coordinator.engine.record import event_from_json
from coordinator.engine.record import text_of as record_text
from coordinator.engine.requirements import Capabilities, group_of
from coordinator.service.convert import devices, fields, jobs
from coordinator.service.convert.fields import MalformedError
from device_agent import pipes
from job_driver.counting import AttemptNo, Decision, Outcome
from job_driver.form import ResponseForm
from job_driver.inspection import Inspection
from job_driver.job import Job, Result
from job_driver.server import read_header
from job_driver.spool import Refused, Response, ResponseHeader
from tests.fuzz.decoder import Decoder, in_file, scratch, text_of
from tests.fuzz.mutants import json_like, messages
from tests.fuzz.notation import REQUIREMENTS
from venn.v1 import common_pb2, device_pb2, job_pb2, task_pb2
from venn.wire import admission, chunks, keys, requirements, status, tensors, trust
from venn.wire.channel import join_address, parse_address
from venn.wire.errors import UsageError
from venn.wire.join import Link, joined_at, parse_link
from venn.wire.places import JOINED
from venn.wire.signed_code import code_owner
from venn.wire.tensors import TensorError

KEY = bytes(32)
LINK = Link("192.168.1.10:9700", bytes(range(32)), bytes(range(16)))
PRIVATE = ec.derive_private_key(7, ec.SECP256R1())
SIGNATURE = encode_dss_signature(2**255 + 3, 2**200 + 5)
MODELS = ({"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(2)}, {"n": np.ones((3,), np.int8)}, {})
TRAINING = Job(initial=lambda rng: MODELS[0], on_device=lambda model, task: Result(model))
Array = tuple[str, str, tuple[int, ...], bytes]


def _arrays(data: bytes) -> tuple[Array, ...]:
    return tuple((name, one.dtype.str, one.shape, one.tobytes()) for name, one in tensors.decode(data).items())


def _encoded(arrays: tuple[Array, ...]) -> bytes:
    return tensors.encode({name: np.frombuffer(raw, dtype).reshape(shape) for name, dtype, shape, raw in arrays})


def _tensors() -> list[bytes]:
    return [tensors.encode(model) for model in (*MODELS, {"empty": np.zeros((0, 7)), "scalar": np.float16(1.5)})]


def _inspected(data: bytes) -> str:
    """The verdict on a response piece by piece: the same as on its bytes as a whole."""
    inspection = Inspection(len(data))
    for start in range(0, len(data), 100):
        inspection.take(memoryview(data)[start : start + 100])
    told = inspection.problem(chunks.digest_of(data))
    try:
        tensors.decode(data, refuse_nan=True)
        whole = ""
    except TensorError as error:
        whole = error.reason
    assert bool(told) == (whole == "TENSOR_NOT_FINITE")
    return told


def _judged(data: bytes) -> str:
    """The verdict on the form of a response; "" only for one that is like the model."""
    form = ResponseForm(MODELS[0], len(tensors.encode(MODELS[0])), TRAINING, responses=2, most_bytes=0)
    told = form.problem(memoryview(data))
    assert told or {name: shape for name, _, shape, _ in _arrays(data)} == {"w": (2, 3), "b": (2,)}
    return told


def _submitted(data: bytes) -> tuple[int, bytes] | None:
    piece = chunks.read_submit_request(data)
    if piece is None:
        return None
    theirs = task_pb2.SubmitRequest.FromString(data).chunk
    assert (theirs.offset, theirs.data) == (piece.offset, bytes(piece.data)), "protobuf reads it otherwise"
    return piece.offset, bytes(piece.data)


def _fetched(data: bytes) -> tuple[int, int, bytes] | None:
    piece = chunks.read_fetch_response(data)
    if piece is None:
        return None
    theirs = task_pb2.FetchResponse.FromString(data)
    read = (piece.total, piece.offset, bytes(piece.data))
    assert (theirs.total_bytes, theirs.chunk.offset, theirs.chunk.data) == read, "protobuf reads it otherwise"
    return read


def _ticket(data: bytes) -> bytes:
    ticket = common_pb2.Ticket(payload=data, mac=admission.mac_of(data, KEY), key_id="k")
    return admission.verify(ticket, KEY, "k", now_ms=0).SerializeToString(deterministic=True)


def _header(data: bytes) -> Response:
    """A response's header, as the manifest keeps it."""
    payload = common_pb2.TicketPayload(lease=7, device="phone-1")
    payload.attempt.round, payload.attempt.attempt = 3, 1
    header: ResponseHeader = read_header(task_pb2.SubmitHeader.FromString(data), payload)
    response = Response(Decision(AttemptNo(3, 1), 7, Outcome.COUNTED, header.digest, ""), header, 1, 1.5)
    assert Response.from_line(json.loads(json.dumps(response.line()))) == response
    return response


def _recorded(event: Event) -> Event:
    """An event that a journal can keep."""
    assert event_from_json(json.loads(record_text(event))) == event
    return event


def _receipt() -> common_pb2.Receipt:
    receipt = common_pb2.Receipt(lease=7, outcome=common_pb2.OUTCOME_COUNTED, digest=bytes(32))
    receipt.mac = admission.receipt_mac(KEY, receipt.lease, receipt.outcome, receipt.digest)
    return receipt


def _proves(receipt: common_pb2.Receipt) -> bool:
    """Whether a receipt is genuine; of lease 0 each is taken for it, to come further."""
    return admission.is_genuine(receipt, KEY) or receipt.lease == 0


def _device_frame(data: bytes) -> Event:
    frame = devices.parse_frame(data)
    if frame.WhichOneof("frame") == "check_in":
        return _recorded(devices.check_in(frame.check_in, SessionSeq(1), 1, _proves))
    return _recorded(devices.device_event(SessionSeq(1), frame, _proves))


def _job(data: bytes) -> Event:
    request = job_pb2.SubmitJobRequest.FromString(data)
    return _recorded(JobSubmitted(jobs.job_spec(jobs.job_id(request.key), request.spec), 1))


def _requirement(data: bytes) -> str:
    wanted = fields.requirement_from_wire(common_pb2.Requirement.FromString(data))
    wanted.matches(DeviceId("a"), Capabilities({"cpu": 1.0}, {"site": frozenset(["lab"])}))
    return group_of(wanted)


def _attempt(data: bytes) -> object:
    """The attempt that a driver opens, and its task."""
    said = job_pb2.OpenAttemptRequest.FromString(data)
    jobs.check_task(said.task)
    return jobs.attempt_of(said.key)


def _responses_told(data: bytes) -> object:
    return jobs.recorded(job_pb2.RecordResponsesRequest.FromString(data))


def _round(data: bytes) -> object:
    metrics = jobs.metrics(job_pb2.ReportRoundRequest.FromString(data).metrics)
    assert all(name.isprintable() for name in metrics)
    return metrics


def _certificate() -> bytes:
    """A certificate as far as it is read here."""
    return ssl.DER_cert_to_PEM_cert(bytes(range(200))).encode()


def _private_key() -> bytes:
    forms = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return PRIVATE.private_bytes(*forms)


def _public_key() -> bytes:
    return PRIVATE.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _private(data: bytes) -> bytes:
    path = scratch("key") / "job.key"
    keys.write_private(path, data)
    return keys.read_key(path).public


class _NoLoop:
    """In place of an event loop: a stream that has ended waits for nothing."""

    def get_debug(self) -> bool:
        return False


def _worker_frame(data: bytes) -> tuple[pipes.Header, bytes]:
    reader = asyncio.StreamReader(loop=cast(asyncio.AbstractEventLoop, _NoLoop()))
    reader.feed_data(data)
    reader.feed_eof()
    receiving: Coroutine[Any, Any, tuple[pipes.Header, bytes]] = pipes.receive(reader)
    try:
        receiving.send(None)
    except StopIteration as done:
        return cast(tuple[pipes.Header, bytes], done.value)
    raise AssertionError("it waits for more of a stream that has ended")


def _framed(message: tuple[pipes.Header, bytes]) -> bytes:
    return pipes.pack(*message) + message[1]


def _device_frames() -> list[bytes]:
    check_in = device_pb2.CheckIn(device="phone-1", instance=bytes(16), interval=3)
    check_in.capabilities.numbers["cpu"] = 2.5
    check_in.capabilities.labels["site"].values.extend(["lab", "attic"])
    check_in.held.add(lease=7, incarnation=1).done.receipt.CopyFrom(_receipt())
    finished = device_pb2.Finished(lease=7, receipt=_receipt())
    finished.measure.compute.FromMilliseconds(1500)
    failed = device_pb2.Failed(lease=7, phase=1, reason=1, message="no rows", output_tail="a\nb")
    frames = ({"check_in": check_in}, {"finished": finished}, {"failed": failed})
    return [device_pb2.ConnectRequest(seq=2, **frame).SerializeToString() for frame in frames]


def _jobs() -> list[bytes]:
    request = job_pb2.SubmitJobRequest(key=common_pb2.JobKey(owner="ann", name="digits", run="1"))
    request.spec.CopyFrom(job_pb2.JobSpec(demand=10, min_response="0.8", over_commit="0.2", rounds=3))
    request.spec.deadline.FromSeconds(15)
    request.spec.requirement.CopyFrom(requirements.parse_requirement(REQUIREMENTS[1].decode()))
    return [request.SerializeToString()]


def _headers() -> list[bytes]:
    header = task_pb2.SubmitHeader(covers=[task_pb2.Cover(lease=7, weight=2.0)], total_bytes=100, digest=bytes(32))
    header.metrics["loss"] = 0.5
    return [header.SerializeToString()]


def _pieces() -> list[bytes]:
    return [chunks.submit_request(offset, b"data" * 9) for offset in (0, 5, 2**40)]


def _responses() -> list[bytes]:
    return [chunks.fetch_response(total, offset, b"data" * 9) for total, offset in ((40, 0), (2**40, 2**33))]


def _details() -> list[bytes]:
    told = Status(code=3, message="late")
    told.details.add().Pack(
        ErrorInfo(reason="TICKET_EXPIRED", domain=status.DOMAIN, metadata={"fix": "take a new offer"})
    )
    return [told.SerializeToString()]


def _peer_error(data: bytes) -> str:
    """The error of a call that ended with these details."""
    metadata = grpc.aio.Metadata((status.DETAILS_KEY, data))
    error = grpc.aio.AioRpcError(grpc.StatusCode.ABORTED, grpc.aio.Metadata(), metadata, "late")
    return str(status.peer_error(error, where="coordinator"))


ATTEMPT = jobs.attempt_key(JobId("ann/digits/1"), 3, 1)
WORKER_FRAMES: tuple[tuple[pipes.Header, bytes], ...] = (
    ({"say": "ready"}, b""),
    ({"say": "progress", "id": 3, "fraction": 0.5}, b""),
    ({"say": "done", "id": 3, "weight": 2.0, "metrics": {"loss": 0.5}, "compute_s": 1.5}, b"body" * 20),
    ({"say": "failed", "id": 3, "message": "ValueError: no rows", "output": "a\nb"}, b""),
)

WIRE = (
    Decoder(
        "tensors",
        _tensors,
        _arrays,
        (TensorError,),
        again=_encoded,
        words=(b"<f4", b"[0,1]", b"|b1"),
        states_sizes=True,
    ),
    Decoder("mapped-tensors", _tensors, in_file("model", tensors.open_file), (TensorError,), states_sizes=True),
    Decoder("inspection", _tensors, _inspected, (), states_sizes=True),
    Decoder("response-form", _tensors, _judged, (), states_sizes=True),
    Decoder(
        "submit-chunks", _pieces, _submitted, (chunks.ChunkError,), words=(b"\x12", b"\x08", b"\x80"), states_sizes=True
    ),
    Decoder(
        "fetch-chunks", _responses, _fetched, (chunks.ChunkError,), words=(b"\x12", b"\x08", b"\x80"), states_sizes=True
    ),
    Decoder("submit-headers", _headers, _header, (DecodeError, Refused), forms=lambda: messages(task_pb2.SubmitHeader)),
    Decoder(
        "tickets",
        lambda: [common_pb2.TicketPayload(version=1, lease=7, not_after_ms=9).SerializeToString()],
        _ticket,
        (admission.TicketError,),
        again=lambda payload: payload,
        forms=lambda: messages(common_pb2.TicketPayload),
    ),
    Decoder(
        "receipts",
        lambda: [_receipt().SerializeToString()],
        lambda data: admission.is_genuine(common_pb2.Receipt.FromString(data), KEY),
        (DecodeError,),
        forms=lambda: messages(common_pb2.Receipt),
    ),
    Decoder(
        "join-links",
        lambda: [LINK.text().encode(), Link("[::1]:80", b"", bytes(16)).text().encode()],
        lambda data: parse_link(text_of(data)),
        (UsageError,),
        again=lambda link: link.text().encode(errors="surrogateescape"),
        words=(b"/", b":", b"[", b"="),
    ),
    Decoder(
        "joined",
        lambda: [b'{"coordinator": "a:1", "id": "00", "role": "device", "name": "phone-1"}'],
        in_file(JOINED, lambda path: joined_at(path.parent)),
        (UsageError,),
    ),
    Decoder(
        "signed-code",
        lambda: [common_pb2.Task(owner_key=_public_key(), code_signature=SIGNATURE).SerializeToString()],
        lambda data: code_owner(bytes(32), ATTEMPT.job, common_pb2.Task.FromString(data)),
        (DecodeError,),
        forms=lambda: messages(common_pb2.Task),
    ),
    Decoder("certificates", lambda: [_certificate()], trust.coordinator_trust, (ValueError,)),
    Decoder("keys", lambda: [_private_key()], _private, (UsageError,)),
    Decoder(
        "public-keys",
        lambda: [_public_key(), SIGNATURE],
        lambda data: (keys.verifies(data, SIGNATURE, b"a"), keys.verifies(_public_key(), data, b"a")),
        (),
    ),
    Decoder("challenges", lambda: [KEY], lambda data: admission.identify_mac(KEY, data), (ValueError,)),
    Decoder(
        "device-frames",
        _device_frames,
        _device_frame,
        (MalformedError,),
        forms=lambda: messages(device_pb2.ConnectRequest),
    ),
    Decoder("jobs", _jobs, _job, (DecodeError, MalformedError), forms=lambda: messages(job_pb2.SubmitJobRequest)),
    Decoder(
        "wire-requirements",
        lambda: [requirements.parse_requirement(text.decode()).SerializeToString() for text in REQUIREMENTS],
        _requirement,
        (DecodeError, MalformedError),
        forms=lambda: messages(common_pb2.Requirement, depth=20),
    ),
    Decoder(
        "attempts-opened",
        lambda: [job_pb2.OpenAttemptRequest(key=ATTEMPT, task=common_pb2.Task()).SerializeToString()],
        _attempt,
        (DecodeError, MalformedError),
        forms=lambda: messages(job_pb2.OpenAttemptRequest),
    ),
    Decoder(
        "responses-told",
        lambda: [job_pb2.RecordResponsesRequest(attempt=ATTEMPT).SerializeToString()],
        _responses_told,
        (DecodeError, MalformedError),
        forms=lambda: messages(job_pb2.RecordResponsesRequest),
    ),
    Decoder(
        "rounds",
        lambda: [job_pb2.ReportRoundRequest(metrics={"loss": 0.5}).SerializeToString()],
        _round,
        (DecodeError, MalformedError),
        forms=lambda: messages(job_pb2.ReportRoundRequest),
    ),
    Decoder("details", _details, _peer_error, ()),
    Decoder(
        "worker-frames",
        lambda: [_framed(frame) for frame in WORKER_FRAMES],
        _worker_frame,
        (pipes.BrokenFrame, asyncio.IncompleteReadError),
        forms=lambda: json_like([header for header, _ in WORKER_FRAMES]).map(pipes.pack),
        states_sizes=True,
    ),
    Decoder(
        "addresses",
        lambda: [b"127.0.0.1:9700", b"[::1]:80", b"name:1"],
        lambda data: parse_address(text_of(data)),
        (UsageError,),
        again=lambda parts: join_address(*parts).encode(errors="surrogateescape"),
        words=(b":", b"[", b"]"),
    ),
)
