"""Calls to other parts: stubs, values in messages, exchanges on one lasting stream, and waits before another try.

The generator types the methods of both kinds of channel in separate classes, of which only one exists at run time. The
stubs here are those over an asyncio channel.
"""

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import grpc
from google.protobuf.duration_pb2 import Duration
from grpc.aio import EOF, AioRpcError, Metadata

from venn.v1.admin_pb2_grpc import AdminServiceStub
from venn.v1.auth_pb2_grpc import AuthServiceStub, IdentityServiceStub
from venn.v1.device_pb2_grpc import DeviceServiceStub
from venn.v1.job_pb2_grpc import JobServiceStub
from venn.v1.task_pb2_grpc import TaskServiceStub

if TYPE_CHECKING:
    from venn.v1.admin_pb2_grpc import AdminServiceAsyncStub
    from venn.v1.auth_pb2_grpc import AuthServiceAsyncStub, IdentityServiceAsyncStub
    from venn.v1.device_pb2_grpc import DeviceServiceAsyncStub
    from venn.v1.job_pb2_grpc import JobServiceAsyncStub
    from venn.v1.task_pb2_grpc import TaskServiceAsyncStub


def admin_stub(channel: grpc.aio.Channel) -> "AdminServiceAsyncStub":
    """The calls of AdminService."""
    return cast("AdminServiceAsyncStub", AdminServiceStub(channel))


def auth_stub(channel: grpc.aio.Channel) -> "AuthServiceAsyncStub":
    """The calls of AuthService."""
    return cast("AuthServiceAsyncStub", AuthServiceStub(channel))


def identity_stub(channel: grpc.aio.Channel) -> "IdentityServiceAsyncStub":
    """The calls of IdentityService."""
    return cast("IdentityServiceAsyncStub", IdentityServiceStub(channel))


def device_stub(channel: grpc.aio.Channel) -> "DeviceServiceAsyncStub":
    """The calls of DeviceService."""
    return cast("DeviceServiceAsyncStub", DeviceServiceStub(channel))


def job_stub(channel: grpc.aio.Channel) -> "JobServiceAsyncStub":
    """The calls of JobService."""
    return cast("JobServiceAsyncStub", JobServiceStub(channel))


def task_stub(channel: grpc.aio.Channel) -> "TaskServiceAsyncStub":
    """The calls of TaskService."""
    return cast("TaskServiceAsyncStub", TaskServiceStub(channel))


def duration(seconds: float) -> Duration:
    """A duration in a message, to the nanosecond."""
    nanos = round(seconds * 1e9)
    return Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)


def enum_name(kind: Any, value: int) -> str:
    """The name of an enum's value in lower case, without the enum's own: ``lost`` of LEASE_END_LOST."""
    prefix: str = kind.Name(0).removesuffix("UNSPECIFIED")
    name: str = kind.Name(value)
    return name.removeprefix(prefix).lower()


Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Exchange(Generic[Request, Answer]):
    """The side of an exchange that asks. One request is under way at a time, others wait for their turn."""

    def __init__(self, begin: Callable[[], "grpc.aio.StreamStreamCall[Request, Answer]"]) -> None:
        """``begin`` opens the stream: at the first request, and again once a stream has ended."""
        self._begin = begin
        self._turn = asyncio.Lock()
        self._call: grpc.aio.StreamStreamCall[Request, Answer] | None = None  # that waits for the next request

    async def ask(self, request: Request, timeout: float | None = None) -> Answer:  # noqa: ASYNC109 - as calls have it
        """Send a request and return its answer. Raises AioRpcError where it is refused, or not answered: in so many
        seconds, or because the other side ends.

        A stream that is left in the middle is not used again: the answer could be taken for that to the next request.
        """
        async with self._turn:
            call, self._call = self._call, None
            if call is None or call.done():
                call = self._begin()
            try:
                async with asyncio.timeout(timeout):
                    await call.write(request)
                    answer = await call.read()
            except TimeoutError as error:
                call.cancel()
                raise failed(grpc.StatusCode.DEADLINE_EXCEEDED) from error
            except BaseException:
                call.cancel()
                raise
            if answer is EOF:
                raise failed(grpc.StatusCode.UNAVAILABLE)
            self._call = call
            return answer  # type: ignore[return-value]  # it is no EOF

    def end(self) -> None:
        """End the stream, if no answer is due on it."""
        if self._call is not None:
            self._call.cancel()


class Exchanges:
    """The side of exchanges that answers."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Task[Any]] = set()  # handlers, for their next request
        self._over = False

    async def request(self, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        """Wait for the next request; None at the stream's end."""
        handler = asyncio.current_task()
        if self._over or handler is None:
            return None
        self._waiting.add(handler)
        try:
            message = await context.read()
        except asyncio.CancelledError:
            if not self._over:
                raise  # the transport, not we
            handler.uncancel()
            return None
        finally:
            self._waiting.discard(handler)
        return None if message is EOF else message

    def end(self) -> None:
        """End all streams: at once, or with the answer that is due. A server that stops would wait for them."""
        self._over = True
        for handler in self._waiting:
            handler.cancel()


def failed(code: grpc.StatusCode) -> AioRpcError:
    """The error of a call that did not come to an answer."""
    return AioRpcError(code, Metadata(), Metadata())


class Backoff:
    """Waits that are uniform in 0 to ``first_s`` x 2^n seconds, at most ``most_s``, after n failures in a row."""

    def __init__(self, rng: random.Random | None = None, *, first_s: float = 0.25, most_s: float = 5.0) -> None:
        self._rng, self._first_s, self._most_s = rng or random.Random(), first_s, most_s
        self.failures = 0  # since it worked last

    def next_s(self, least_s: float = 0.0) -> float:
        """Seconds to wait after one more failure: drawn from 0 to ``least_s`` if that is more."""
        ceiling = max(least_s, min(self._most_s, self._first_s * 2.0 ** min(self.failures, 32)))
        self.failures += 1
        return self._rng.uniform(0.0, ceiling)

    def reset(self) -> None:
        """Begin again at ``first_s``: a try has worked."""
        self.failures = 0
