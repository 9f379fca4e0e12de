"""Errors over the wire: a status code with ``google.rpc.ErrorInfo``, written by servers, read by clients."""

import asyncio
from datetime import UTC, datetime
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from venn.wire.errors import PeerError
from venn.wire.text import printable

DOMAIN = "venn"
DETAILS_KEY = "grpc-status-details-bin"
MAX_MESSAGE, MAX_VALUE = 1000, 300  # bytes of UTF-8; encoded for the way, all metadata of a call must fit into 8 KiB

REASONS = {  # of statuses that carry no ErrorInfo
    grpc.StatusCode.UNAVAILABLE: (
        "UNREACHABLE",
        "it does not answer",
        "check that it runs and that the address is right",
    ),
    grpc.StatusCode.DEADLINE_EXCEEDED: (
        "TIMEOUT",
        "it did not answer in time",
        "check that it runs and is not overloaded",
    ),
    grpc.StatusCode.UNIMPLEMENTED: ("WRONG_SERVER", "it does not know this call", "check that the address is right"),
    grpc.StatusCode.CANCELLED: ("CANCELLED", "it ended the call", ""),
    grpc.StatusCode.RESOURCE_EXHAUSTED: ("TOO_LARGE", "a message is too large", ""),
}
JOIN = "join it (venn agent join, venn login)"
TRANSPORT = (  # what gRPC's texts of a connection that failed contain; reason, message, and what to do
    (
        "unable to get local issuer certificate",
        "WRONG_CA",
        "its certificate is of an authority that is not trusted here",
        f"{JOIN} again; or a login page of this network answers in its place",
    ),
    (
        "self signed certificate",
        "WRONG_CA",
        "its certificate is not one that is trusted here",
        f"check the address; if the coordinator has a new authority, {JOIN} again",
    ),
    (
        "certificate has expired",
        "CERTIFICATE_TIME",
        "its certificate is no longer valid by this machine's clock",
        "",
    ),
    (
        "certificate is not yet valid",
        "CERTIFICATE_TIME",
        "its certificate is not yet valid by this machine's clock",
        "",
    ),
    (
        "Hostname Verification Check failed",
        "WRONG_NAME",
        "its certificate is that of another server",
        "check the address: another program may answer there",
    ),
    (
        "is not in peer certificate",  # the same, as gRPC 1.70 says it
        "WRONG_NAME",
        "its certificate is that of another server",
        "check the address: another program may answer there",
    ),
    (
        "call host does not match SSL server name",
        "WRONG_NAME",
        "its certificate does not name it as ours do",
        "check the address: another program may answer there",
    ),
    (
        "WRONG_VERSION_NUMBER",
        "NO_TLS",
        "it does not encrypt",
        "check the address; or a login page of this network answers, or it needs --insecure on both sides",
    ),
    (
        "missing selected ALPN property",
        "NO_HTTP2",
        "a web server or proxy answers that does not speak HTTP/2",
        "check the address, or let the proxy pass the connection through as it is",
    ),
    (
        "http1.x server",
        "WEB_SERVER",
        "a web server answers in its place",
        "check the address; or log in to this network first",
    ),
    (
        "Handshake read failed",
        "HANDSHAKE",
        "the connection was cut while it began to encrypt",
        "check the address, and that no firewall is in between",
    ),
    (
        "Failed to create security handshaker",
        "BAD_CA",
        "the certificate that is trusted here cannot be used",
        f"copy ca.pem from the coordinator again, or {JOIN} again",
    ),
    (
        "Socket closed",
        "UNREACHABLE",
        "it closed the connection",
        f"check that it runs and that the address is right; if it encrypts, {JOIN}",
    ),
)
FIXES = {
    "UNKNOWN_KEY": "name the folder with the coordinator's keys: --keys DIR",
    "ROLE": "use a key of another role: --keys DIR",
    "LOGIN": "try again",
    "REVOKED": "ask an administrator for a join token, remove the key here, and join again",
    "VERSION": "install the same version of venn-testbed on both sides",
}


def unreachable(where: str) -> PeerError:
    """The error of a peer that was not even dialled."""
    reason, message, fix = REASONS[grpc.StatusCode.UNAVAILABLE]
    return PeerError(reason, message, where=where, fix=fix)


async def abort(
    context: grpc.aio.ServicerContext[Any, Any], code: grpc.StatusCode, reason: str, message: str, **metadata: str
) -> NoReturn:
    """End a call with a status and its ErrorInfo (domain ``venn``); one whose caller has left ends as cancelled."""
    message = _fit(message, MAX_MESSAGE)
    info = ErrorInfo(
        reason=reason, domain=DOMAIN, metadata={key: _fit(value, MAX_VALUE) for key, value in metadata.items()}
    )
    status = Status(code=code.value[0], message=message)
    status.details.add().Pack(info)
    try:
        await context.abort(code, message, ((DETAILS_KEY, status.SerializeToString()),))
    except grpc.aio.AbortError:
        raise
    except grpc.aio.BaseError as error:  # gRPC would log it with a traceback, as often as strangers want
        raise asyncio.CancelledError("the caller has left") from error
    raise AssertionError("abort returned")


def reason_of(error: grpc.RpcError) -> str:
    """The reason that the other side gave; empty if none."""
    info = _info_of(error)
    return info.reason if info else ""


def metadata_of(error: grpc.RpcError) -> dict[str, str]:
    """The metadata that the other side added to its reason."""
    info = _info_of(error)
    return dict(info.metadata) if info else {}


def peer_error(error: grpc.RpcError, *, where: str) -> PeerError:
    """The error for people; ``where`` names the other side and its address."""
    code, text = _code_of(error), printable(_text_of(error), MAX_MESSAGE)
    if info := _info_of(error):
        details = {"code": code.name, **info.metadata}
        fix = details.pop("fix", "") or FIXES.get(info.reason, "")
        return PeerError(info.reason, text, where=where, fix=fix, details=details)
    told = text + ((error.debug_error_string() or "") if isinstance(error, grpc.aio.AioRpcError) else "")
    found = next((rest for part, *rest in TRANSPORT if part in told), None)
    reason, message, fix = found or REASONS.get(code, (code.name, f"it answered {code.name}: {text}", ""))
    if reason == "CERTIFICATE_TIME":
        fix = f"set this machine's clock, which says {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return PeerError(reason, message, where=where, fix=fix, details={"code": code.name, "text": text})


def _fit(text: str, limit: int) -> str:
    return printable(text, limit).encode()[:limit].decode(errors="ignore")


def _code_of(error: grpc.RpcError) -> grpc.StatusCode:
    code = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    return code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.UNKNOWN


def _text_of(error: grpc.RpcError) -> str:
    return (error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else str(error)) or ""


def _info_of(error: grpc.RpcError) -> ErrorInfo | None:
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return None
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return _unpack(value)
    return None


def _unpack(value: bytes) -> ErrorInfo | None:
    info = ErrorInfo()
    try:
        details = Status.FromString(value).details
        found = any(detail.Unpack(info) for detail in details)
    except DecodeError:
        return None
    return info if found and info.domain == DOMAIN else None
