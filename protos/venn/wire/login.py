"""A program's way into a coordinator: its key proves itself, and a login token stands for it on each call.

The key signs a nonce of the coordinator. All channels of a program share the token that it gets for that. It is renewed
before it ends, and when the coordinator, which keeps tokens in memory only, was restarted.
"""

import asyncio
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import grpc
from grpc.aio import EOF, AioRpcError

from venn.v1 import auth_pb2
from venn.v1.common_pb2 import Ticket
from venn.wire.calls import auth_stub, failed
from venn.wire.channel import parse_address
from venn.wire.errors import UsageError
from venn.wire.keys import Key, Role, exact, load_key
from venn.wire.places import keys_folder
from venn.wire.status import reason_of, unreachable
from venn.wire.trust import NOTHING, Trust, open_trusted, trust_for

if TYPE_CHECKING:
    from venn.v1.auth_pb2_grpc import AuthServiceAsyncStub

METADATA_KEY = "authorization"
NONCE_BYTES = 32
NO_LOGIN = "LOGIN"  # the reason of a refusal: this token is not known, or has ended
PROVE_S = 10.0  # for both calls
DIAL_S = 2.0  # to see whether anybody listens
RENEW_S = 60.0  # before a token ends
LABEL = b"venn-auth-v1"
ROLE_TO_WIRE: dict[Role, auth_pb2.Role.ValueType] = {
    "device": auth_pb2.ROLE_DEVICE,
    "job": auth_pb2.ROLE_JOB,
    "admin": auth_pb2.ROLE_ADMIN,
}

ROLE_FROM_WIRE = {value: role for role, value in ROLE_TO_WIRE.items()}

Shown = tuple[str, str]  # metadata


def bearer(token: str) -> Shown:
    """The metadata of a call that shows a token."""
    return (METADATA_KEY, f"Bearer {token}")


def proof(*, authority: bytes, coordinator: str, role: Role, key_id: bytes, nonce: bytes, own_nonce: bytes) -> bytes:
    """The bytes that a key signs.

    ``authority``: the fingerprint of the certificate authority that the caller trusts; empty: nothing is encrypted.
    """
    return exact(LABEL, authority, coordinator.encode(), role.encode(), key_id, nonce, own_nonce)


def enrolment(*, authority: bytes, token: bytes, name: str, public: bytes) -> bytes:
    """The bytes that a key signs as it joins."""
    return exact(b"venn-enrol-v1", authority, sha256(token).digest(), name.encode(), public)


def showing(payload: bytes, certificate: bytes) -> bytes:
    """The bytes that a device signs as it shows a ticket to the driver with this certificate (SHA-256; empty: none)."""
    return exact(b"venn-ticket-v1", payload, certificate)


def rotation(old: bytes, public: bytes) -> bytes:
    """The bytes that a key signs that takes the place of the key with the id ``old``."""
    return exact(b"venn-rotate-v1", old, public)


def log_in(role: Role, coordinator: str, keys: Path | None = None, *, insecure: bool = False) -> "Login":
    """The way into a coordinator with the key of a role from a folder of keys; None: the default one. It is encrypted
    if the folder has the coordinator's authority, and nothing is ``insecure``.

    Raises UsageError NO_KEY, KEY_UNSAFE, KEY_DAMAGED, CA_DAMAGED, NOT_ENCRYPTED or ADDRESS.
    """
    parse_address(coordinator)
    key = load_key(role, dir=keys)
    return Login(coordinator, key, role, trust_for(coordinator, keys or keys_folder(), insecure=insecure))


def log_in_now(role: Role, coordinator: str, keys: Path | None = None, *, insecure: bool = False) -> "Login":
    """The way in, as ``log_in`` gives it; where there is no key since there is no coordinator, that is what is told.

    Raises PeerError UNREACHABLE: nothing listens at ``coordinator``.
    """
    try:
        return log_in(role, coordinator, keys, insecure=insecure)
    except UsageError as error:
        if error.reason != "NO_KEY" or _listens(coordinator):
            raise
        raise unreachable(f"coordinator {coordinator}") from error


def _listens(address: str) -> bool:
    try:
        socket.create_connection(parse_address(address), DIAL_S).close()
    except OSError:
        return False
    return True


class Login:
    """A key's login with one coordinator, for all channels of a program."""

    def __init__(self, address: str, key: Key, role: Role, trust: Trust | None = None) -> None:
        """``trust``: None if nothing is encrypted."""
        self.address, self.role, self.trust = address, role, trust
        self._key = key
        self._shown: Shown | None = None
        self._renew_at = 0.0  # monotonic
        self._proving: asyncio.Task[None] | None = None

    @property
    def authority(self) -> bytes:
        """The fingerprint of the coordinator's certificate authority; empty: nothing is encrypted."""
        return NOTHING if self.trust is None else self.trust.fingerprint

    def sign(self, statement: bytes) -> tuple[bytes, bytes]:
        """The public key (DER), and a signature of these bytes with it."""
        return self._key.public, self._key.sign(statement)

    def channel(self, proxy: str | None = None) -> grpc.aio.Channel:
        """A channel to the coordinator, on which every call shows the token; through an HTTP proxy (``host:port``) if
        there is one. Connects at the first call. Raises UsageError ADDRESS.
        """
        return cast(grpc.aio.Channel, _LoginChannel(open_trusted(self.address, self.trust, proxy=proxy), self))

    async def enter(self) -> None:
        """Log in, and do nothing else. Raises AioRpcError."""
        async with open_trusted(self.address, self.trust) as channel:
            await self.shown(auth_stub(channel))

    async def shown(self, auth: "AuthServiceAsyncStub") -> Shown:
        """The metadata to show, after a proof by these calls if there must be one. Raises AioRpcError.

        Those who come while somebody's proof is under way wait for that one, and share its outcome.
        """
        while self._shown is None or time.monotonic() >= self._renew_at:
            if self._proving is None:
                self._proving = asyncio.create_task(self._prove(auth))
                self._proving.add_done_callback(self._proved)
            proving = self._proving
            await asyncio.wait({proving})
            if proving.cancelled():  # with the channel of the one who began it
                raise failed(grpc.StatusCode.UNAVAILABLE)
            proving.result()
        return self._shown

    def sign_ticket(self, ticket: Ticket, certificate: bytes) -> Ticket:
        """The ticket as the holder of this key shows it to the driver with this certificate (DER; empty: none)."""
        signed = Ticket()
        signed.CopyFrom(ticket)
        digest = sha256(certificate).digest() if certificate else b""
        signed.public_key, signed.signature = self._key.public, self._key.sign(showing(ticket.payload, digest))
        return signed

    def refused(self, shown: Shown | None, error: AioRpcError) -> bool:
        """Note the refusal of a call; returns whether it was for want of a login: then the next call proves again."""
        if reason_of(error) != NO_LOGIN:
            return False
        if shown is not None and shown == self._shown:
            self._shown = None
        return True

    async def _prove(self, stub: "AuthServiceAsyncStub") -> None:
        key, began = self._key, time.monotonic()
        try:
            begun = await stub.Begin(auth_pb2.BeginRequest(key_id=key.id), timeout=PROVE_S)
        except grpc.aio.UsageError as error:  # its channel was closed before
            raise failed(grpc.StatusCode.UNAVAILABLE) from error
        own = secrets.token_bytes(NONCE_BYTES)
        statement = proof(
            authority=self.authority,
            coordinator=begun.coordinator,
            role=self.role,
            key_id=key.id,
            nonce=begun.nonce,
            own_nonce=own,
        )
        proved = await stub.Prove(
            auth_pb2.ProveRequest(
                key_id=key.id,
                role=ROLE_TO_WIRE[self.role],
                nonce=begun.nonce,
                own_nonce=own,
                signature=key.sign(statement),
            ),
            timeout=PROVE_S,
        )
        lasts_s = proved.lasts.ToNanoseconds() / 1e9
        self._shown, self._renew_at = bearer(proved.token), began + max(lasts_s / 2, lasts_s - RENEW_S)

    def _proved(self, proving: "asyncio.Task[None]") -> None:
        self._proving = None
        if not proving.cancelled():
            proving.exception()  # those who wait are told


class _LoginChannel:
    """A channel whose calls show the token. What it costs is paid once in a call, and nearly nothing per message, as an
    interceptor on a stream would.
    """

    STREAMS = ("unary_stream", "stream_stream")

    def __init__(self, channel: grpc.aio.Channel, login: Login) -> None:
        self._channel, self._login = channel, login
        self._auth = auth_stub(channel)  # gRPC (1.85) crashes where one is made of a channel that was closed

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._channel, name)
        if name == "unary_unary":
            return lambda *of, **settings: self._unary(method(*of, **settings))
        if name in self.STREAMS:
            return lambda *of, **settings: self._streaming(method(*of, **settings))
        return method

    def _unary(self, multicallable: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(request: Any, *, timeout: float | None = None, metadata: Sequence[Shown] = ()) -> Any:  # noqa: ASYNC109 - as calls have it
            shown = await self._shown(timeout)
            try:
                return await multicallable(request, timeout=timeout, metadata=(*metadata, shown))
            except AioRpcError as error:
                if not self._login.refused(shown, error):
                    raise
            return await multicallable(request, timeout=timeout, metadata=(*metadata, await self._shown(timeout)))

        return call

    def _streaming(self, multicallable: Callable[..., Any]) -> Callable[..., "_LoginCall"]:
        def call(*request: Any, timeout: float | None = None, metadata: Sequence[Shown] = ()) -> _LoginCall:
            def begin(shown: Shown) -> Any:
                return multicallable(*request, timeout=timeout, metadata=(*metadata, shown))

            return _LoginCall(self._login, self._shown(timeout), begin)

        return call

    async def _shown(self, timeout_s: float | None) -> Shown:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._login.shown(self._auth)
        except TimeoutError as error:
            raise failed(grpc.StatusCode.DEADLINE_EXCEEDED) from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._channel.close()


class _LoginCall:
    """A stream that begins as soon as there is a login, and then is gRPC's own."""

    def __init__(self, login: Login, shown: Awaitable[Shown], begin: Callable[[Shown], Any]) -> None:
        self._login, self._begin = login, begin
        self._shown: Shown | None = None
        self._call: Any = None
        self._beginning = asyncio.ensure_future(self._start(shown))
        self._beginning.add_done_callback(lambda task: task.cancelled() or task.exception())  # who uses it is told

    async def _start(self, shown: Awaitable[Shown]) -> None:
        self._shown = await shown
        self._call = self._begin(self._shown)

    async def _use(self, name: str, *arguments: Any) -> Any:
        if self._call is None:
            await asyncio.shield(self._beginning)
        try:
            return await getattr(self._call, name)(*arguments)
        except AioRpcError as error:
            self._login.refused(self._shown, error)
            raise

    async def read(self) -> Any:
        return await self._use("read")

    async def write(self, message: Any) -> None:
        await self._use("write", message)

    async def done_writing(self) -> None:
        await self._use("done_writing")

    async def code(self) -> grpc.StatusCode:
        return cast(grpc.StatusCode, await self._use("code"))

    async def details(self) -> str:
        return cast(str, await self._use("details"))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        message = await self.read()
        if message is EOF:
            raise StopAsyncIteration
        return message

    def done(self) -> bool:
        return bool(self._call.done()) if self._call is not None else self._beginning.done()

    def cancel(self) -> bool:
        return bool(self._call.cancel()) if self._call is not None else self._beginning.cancel()
