"""The guard: which roles may make which call. What is not in its table, nobody may."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeAlias

import grpc

from coordinator.service.auth import Logins
from coordinator.service.identities import Identity
from venn.wire.keys import ROLES, Role
from venn.wire.login import METADATA_KEY, NO_LOGIN, bearer
from venn.wire.status import abort

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
PREFIX = bearer("")[1]
HEALTH = "grpc.health.v1.Health"
REFLECTION = "grpc.reflection.v1alpha.ServerReflection"

OPEN = frozenset(
    {
        "/venn.v1.AuthService/Begin",
        "/venn.v1.AuthService/Prove",
        "/venn.v1.AuthService/Enrol",
        *(f"/{HEALTH}/{name}" for name in ("Check", "List", "Watch")),
    }
)
DEVICES: frozenset[Role] = frozenset({"device"})
OWNERS: frozenset[Role] = frozenset({"job", "admin"})
ADMINS: frozenset[Role] = frozenset({"admin"})
ALLOWED: Mapping[str, frozenset[Role]] = {
    "/venn.v1.DeviceService/Connect": DEVICES,
    **{
        f"/venn.v1.JobService/{name}": OWNERS
        for name in (
            "SubmitJob", "Drive", "FollowJob", "ReportActivity", "ReportRound", "FinishJob", "CancelJob", "WatchJob",
            "TransferJob",
        )
    },
    **{
        f"/venn.v1.AdminService/{name}": ADMINS
        for name in (
            "GetSnapshot", "Watch", "ListDevices", "Explain", "SetPolicy", "DrainDevices", "InjectFault",
        )
    },
    "/venn.v1.AdminService/ListJobs": OWNERS,  # an owner's own
    **{f"/venn.v1.IdentityService/{name}": ADMINS for name in ("MakeJoinToken", "ListIdentities", "Revoke")},
    **{f"/venn.v1.IdentityService/{name}": frozenset(ROLES) for name in ("RotateKey", "Leave")},
    f"/{REFLECTION}/ServerReflectionInfo": ADMINS,
}  # fmt: skip

_caller: ContextVar[Identity] = ContextVar("caller")


def caller() -> Identity:
    """Who makes the call that is being handled. Raises LookupError in a call that is open to anybody."""
    return _caller.get()


class Guard(grpc.aio.ServerInterceptor):
    """Refuses calls that their caller may not make, and tells the handlers of others who calls."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins
        self._calls: dict[bytes, set[asyncio.Task[Any]]] = {}  # key id -> those that are being handled
        self._ended: set[asyncio.Task[Any]] = set()  # by us

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        method = handler_call_details.method or ""
        if method in OPEN:
            return await continuation(handler_call_details)
        if method not in ALLOWED:
            return None  # unknown to this server
        identity = self._logins.find(_token(handler_call_details.invocation_metadata))
        if identity is None:
            message = "the caller has no login here, or it has ended"
            return _refusing(grpc.StatusCode.UNAUTHENTICATED, NO_LOGIN, message)
        if identity.role not in ALLOWED[method]:
            message = f"a key with the role {identity.role} may not call {method.rpartition('/')[2]}"
            return _refusing(grpc.StatusCode.PERMISSION_DENIED, "ROLE", message)
        handler = await continuation(handler_call_details)
        return None if handler is None else self._guarded(handler, identity)

    def end(self, key_id: bytes) -> None:
        """End all calls of an identity that was revoked."""
        for task in self._calls.get(key_id, ()):
            self._ended.add(task)
            task.cancel()

    def _guarded(self, handler: Handler, identity: Identity) -> Handler:
        """The handler, for one call of this caller. It ends when the caller is revoked."""
        streams = (handler.request_streaming, handler.response_streaming)
        kind = "_".join("stream" if each else "unary" for each in streams)
        behaviour = getattr(handler, kind)

        async def guarded(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            _caller.set(identity)
            task = asyncio.current_task()
            assert task is not None
            calls = self._calls.setdefault(identity.key_id, set())
            calls.add(task)
            try:
                answer = behaviour(request, context)
                if not hasattr(answer, "__aiter__"):
                    return await answer
                async for each in answer:
                    await context.write(each)
            except asyncio.CancelledError:
                if task not in self._ended:
                    raise  # the transport, not we
                task.uncancel()
                await abort(context, grpc.StatusCode.UNAUTHENTICATED, "REVOKED", "this key was revoked")
            finally:
                self._ended.discard(task)
                calls.discard(task)
                if not calls and self._calls.get(identity.key_id) is calls:
                    del self._calls[identity.key_id]

        make = getattr(grpc, f"{kind}_rpc_method_handler")
        guarded_handler: Handler = make(guarded, handler.request_deserializer, handler.response_serializer)
        return guarded_handler


def _token(metadata: Any) -> str:
    shown = ""
    for key, value in metadata or ():
        if key == METADATA_KEY and isinstance(value, str):
            shown = value
    return shown.removeprefix(PREFIX)


def _refusing(code: grpc.StatusCode, reason: str, message: str) -> "Handler":
    """A handler of any kind of call, which reads nothing."""

    async def refuse(requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await abort(context, code, reason, message)

    return grpc.stream_stream_rpc_method_handler(refuse)
