"""Errors over the wire: a status code with ``google.rpc.ErrorInfo``, written by servers, read by clients."""

import asyncio
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
    reason, message, fix = REASONS.get(code, (code.name, f"it answered {code.name}: {text}", ""))
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
