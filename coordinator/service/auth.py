"""AuthService: a key signs a nonce, and gets a login token for it. Open to anybody.

What a stranger asks for costs no memory here: a nonce proves itself by a MAC, and only one that a known key has signed
is remembered, until it is too old to be used again.
"""

import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, NoReturn

import grpc

from coordinator.service.identities import Identities, Identity, IdentityError
from venn.v1 import auth_pb2
from venn.v1.auth_pb2_grpc import AuthServiceServicer
from venn.wire.calls import duration
from venn.wire.keys import ID_BYTES, verifies
from venn.wire.login import NONCE_BYTES, ROLE_FROM_WIRE, ROLE_TO_WIRE, enrolment, proof
from venn.wire.status import abort
from venn.wire.trust import NOTHING

Context = grpc.aio.ServicerContext[Any, Any]
Clock = Callable[[], float]  # seconds, never decreasing

SERVICE = "venn.v1.AuthService"
NONCE_S = 30.0
LOGIN_S = 15 * 60.0
MOST_LOGINS = 16  # of one identity: the oldest ends for one more
MOST_LOCAL_LOGINS = 4096  # of a local one: each program of the user has its own
LONGEST_KEY = 256  # bytes; a P-256 key in DER has 91
LONGEST_SIGNATURE = 80  # bytes; ECDSA over P-256 in DER has at most 72
TIME_BYTES = RANDOM_BYTES = 8
TOKEN_BYTES = 32


class Nonces:
    """Nonces: the time, random bytes, and a MAC over both and the key that asked. Good once, for 30 s."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)  # nonces of an earlier life are not good here
        self._used: OrderedDict[bytes, float] = OrderedDict()  # when it is too old anyway

    def new(self, key_id: bytes) -> bytes:
        """Make a nonce for a key."""
        start = int(self._clock() * 1000).to_bytes(TIME_BYTES, "big") + secrets.token_bytes(RANDOM_BYTES)
        return start + self._mac(start, key_id)

    def is_good(self, nonce: bytes, key_id: bytes) -> bool:
        """Whether a nonce was made for this key, less than 30 s ago, and was not used."""
        start = nonce[: TIME_BYTES + RANDOM_BYTES]
        age_s = self._clock() - int.from_bytes(nonce[:TIME_BYTES], "big") / 1000
        genuine = len(nonce) == NONCE_BYTES and hmac.compare_digest(nonce, start + self._mac(start, key_id))
        return genuine and age_s <= NONCE_S and nonce not in self._used

    def use(self, nonce: bytes) -> None:
        """Note that a nonce was used."""
        now = self._clock()
        while self._used and next(iter(self._used.values())) < now:
            self._used.popitem(last=False)
        self._used[nonce] = now + NONCE_S

    def _mac(self, start: bytes, key_id: bytes) -> bytes:
        return hmac.digest(self._secret, start + key_id, "sha256")[: NONCE_BYTES - TIME_BYTES - RANDOM_BYTES]


class Logins:
    """Login tokens, kept as hashes and in memory only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: OrderedDict[bytes, tuple[Identity, float]] = OrderedDict()  # by hash: whose, and its end
        self._of: dict[bytes, deque[bytes]] = {}  # key id -> hashes, the oldest first

    def begin(self, identity: Identity) -> str:
        """Begin a login; returns its token."""
        self._forget_ended()
        token = secrets.token_hex(TOKEN_BYTES)
        own, hashed = self._of.setdefault(identity.key_id, deque()), _hash(token)
        if len(own) >= (MOST_LOCAL_LOGINS if identity.local else MOST_LOGINS):
            del self._found[own.popleft()]
        own.append(hashed)
        self._found[hashed] = (identity, self._clock() + LOGIN_S)
        return token

    def find(self, token: str) -> Identity | None:
        """The identity that a token stands for; None: it is not known, or has ended."""
        found = self._found.get(_hash(token))
        return found[0] if found is not None and self._clock() < found[1] else None

    def end(self, key_id: bytes) -> None:
        """End all logins of an identity."""
        for hashed in self._of.pop(key_id, ()):
            del self._found[hashed]

    def _forget_ended(self) -> None:
        now = self._clock()
        while self._found:
            hashed, (identity, ends_at) = next(iter(self._found.items()))
            if now < ends_at:
                return
            del self._found[hashed]
            own = self._of[identity.key_id]
            own.popleft()  # those of one identity end in the order in which they began, as all do
            if not own:
                del self._of[identity.key_id]


class AuthService(AuthServiceServicer):
    """Serves those who prove who they are."""

    def __init__(
        self,
        identities: Identities,
        logins: Logins,
        *,
        coordinator: str,
        authority: bytes = NOTHING,
        clock: Clock,
        now_ms: Callable[[], int],
        keep: Callable[..., Awaitable[None]],
        proved: Callable[[Identity], Awaitable[None]],
    ) -> None:
        """``coordinator``: its id. ``authority``: fingerprint of its certificate authority. ``now_ms``: the
        coordinator's Unix time. ``keep`` notes facts in one turn, and returns when they are recorded.
        ``proved`` is called at each proof, before it is answered.
        """
        self._identities, self._logins, self._coordinator = identities, logins, coordinator
        self._authority, self._nonces, self._now_ms, self._keep = authority, Nonces(clock), now_ms, keep
        self._proved = proved

    async def Begin(self, request: auth_pb2.BeginRequest, context: Context) -> auth_pb2.BeginResponse:
        await _check(context, len(request.key_id) == ID_BYTES, f"a key id has {ID_BYTES} bytes")
        return auth_pb2.BeginResponse(
            nonce=self._nonces.new(request.key_id), coordinator=self._coordinator, now_ms=self._now_ms()
        )

    async def Prove(self, request: auth_pb2.ProveRequest, context: Context) -> auth_pb2.ProveResponse:
        await _check(context, len(request.own_nonce) == NONCE_BYTES, f"a nonce has {NONCE_BYTES} bytes")
        await _check(context, len(request.signature) <= LONGEST_SIGNATURE, "this is no signature")
        identity = self._identities.get(request.key_id)
        if identity is None:
            await _refuse(context, "UNKNOWN_KEY", "the coordinator does not know this key")
        if not self._nonces.is_good(request.nonce, request.key_id):
            await _refuse(context, "NONCE", "the nonce is too old, was used, or is not of this coordinator")
        exact = proof(
            authority=self._authority,
            coordinator=self._coordinator,
            role=identity.role,
            key_id=identity.key_id,
            nonce=request.nonce,
            own_nonce=request.own_nonce,
        )
        if request.role != ROLE_TO_WIRE[identity.role]:
            message = f"this key has the role {identity.role}, and no other"
            await abort(context, grpc.StatusCode.PERMISSION_DENIED, "ROLE", message)
        if not verifies(identity.public, request.signature, exact):
            await _refuse(context, "PROOF", "the signature is not of this key")
        if identity.revoked_ms:
            await _refuse(context, "REVOKED", "this key was revoked")
        self._nonces.use(request.nonce)
        await self._proved(identity)
        return auth_pb2.ProveResponse(token=self._logins.begin(identity), lasts=duration(LOGIN_S))

    async def Enrol(self, request: auth_pb2.EnrolRequest, context: Context) -> auth_pb2.EnrolResponse:
        await _check(context, len(request.public_key) <= LONGEST_KEY, "this is no P-256 key")
        exact = enrolment(authority=self._authority, token=request.token, name=request.name, public=request.public_key)
        if not verifies(request.public_key, request.signature, exact):
            await _refuse(context, "PROOF", "the signature is not of this key")
        role = ROLE_FROM_WIRE.get(request.role)
        try:
            identity, facts = self._identities.enrol(
                request.token, request.public_key, role, request.name, self._now_ms()
            )
        except IdentityError as error:
            await refuse(context, error)
        if facts is not None:
            await self._keep(*facts)
        return auth_pb2.EnrolResponse(
            role=ROLE_TO_WIRE[identity.role], name=identity.name, coordinator=self._coordinator
        )


async def _check(context: Context, holds: bool, message: str) -> None:
    if not holds:
        await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED", message)


REFUSALS = {
    "NAME": grpc.StatusCode.INVALID_ARGUMENT,
    "NAME_TAKEN": grpc.StatusCode.ALREADY_EXISTS,
    "KEY_KNOWN": grpc.StatusCode.ALREADY_EXISTS,
    "UNKNOWN_IDENTITY": grpc.StatusCode.NOT_FOUND,
    "SEVERAL": grpc.StatusCode.INVALID_ARGUMENT,
    "LOCAL": grpc.StatusCode.FAILED_PRECONDITION,
    "TOO_MANY": grpc.StatusCode.RESOURCE_EXHAUSTED,
}


async def refuse(context: Context, error: IdentityError) -> NoReturn:
    """End a call whose identity was refused; a token that is not good is a lack of permission."""
    code = REFUSALS.get(error.reason, grpc.StatusCode.PERMISSION_DENIED)
    await abort(context, code, error.reason, error.message, fix=error.fix)


async def _refuse(context: Context, reason: str, message: str) -> NoReturn:
    await abort(context, grpc.StatusCode.UNAUTHENTICATED, reason, message)


def _hash(token: str) -> bytes:
    return sha256(token.encode()).digest()
