"""IdentityService: which keys are let in. Roles: admin; any key may rotate itself, and leave."""

from typing import Any, NoReturn

import grpc

from coordinator.service.auth import Logins, refuse
from coordinator.service.convert.devices import seconds
from coordinator.service.convert.fields import MalformedError
from coordinator.service.guard import Guard, caller
from coordinator.service.host import Host
from coordinator.service.identities import Identities, Identity, IdentityError
from coordinator.service.owners import Owners
from venn.v1 import auth_pb2
from venn.v1.auth_pb2_grpc import IdentityServiceServicer
from venn.wire.keys import verifies
from venn.wire.login import ROLE_FROM_WIRE, ROLE_TO_WIRE, rotation
from venn.wire.status import abort

Context = grpc.aio.ServicerContext[Any, Any]

SERVICE = "venn.v1.IdentityService"
TOKEN_S = 15 * 60.0
LONGEST_TOKEN_S = 30 * 86_400.0
PAGE, LARGEST_PAGE = 100, 1_000


class IdentityService(IdentityServiceServicer):
    """Serves those who let keys in and out."""

    def __init__(
        self,
        host: Host,
        identities: Identities,
        logins: Logins,
        guard: Guard,
        owners: Owners,
        *,
        authority: bytes,
        keeps: bool,
    ) -> None:
        """``authority``: fingerprint of the certificate authority. ``keeps``: what is noted survives a restart."""
        self._host, self._identities, self._logins, self._guard = host, identities, logins, guard
        self._owners, self._authority, self._keeps = owners, authority, keeps

    def end(self, identity: Identity) -> None:
        """End the logins and calls of an identity that was revoked."""
        self._logins.end(identity.key_id)
        self._guard.end(identity.key_id)

    async def take_over(self, new: Identity) -> None:
        """Let a key that was used take the place of the one that it replaces: that one's jobs are its own now."""
        old = self._identities.used(new)
        if old is not None:
            for fact in self._owners.inherit(old, new):
                self._host.note(fact)
            await self._host.keep(self._identities.revoke(old, self._now_ms()))
            self.end(old)

    async def MakeJoinToken(
        self, request: auth_pb2.MakeJoinTokenRequest, context: Context
    ) -> auth_pb2.MakeJoinTokenResponse:
        if not self._keeps:
            message = "this coordinator would forget at its end who has joined"
            fix = "start it with --dir"
            await abort(context, grpc.StatusCode.FAILED_PRECONDITION, "NO_FOLDER", message, fix=fix)
        if request.role not in ROLE_FROM_WIRE:
            await _invalid(context, "a join token is for a role: device, job or admin")
        try:
            lasts_s = seconds(request.lasts, "lasts") if request.HasField("lasts") else TOKEN_S
        except MalformedError as error:
            await _invalid(context, error.message)
        if not 1.0 <= lasts_s <= LONGEST_TOKEN_S:
            await _invalid(context, "a join token lasts 1 s to 30 days")
        for ended in self._identities.ended_tokens(self._now_ms()):
            self._host.note(ended)
        try:
            token, fact = self._identities.make_token(
                ROLE_FROM_WIRE[request.role], request.uses or 1, int(lasts_s * 1000), self._now_ms()
            )
        except IdentityError as error:
            await refuse(context, error)
        await self._host.keep(fact)
        return auth_pb2.MakeJoinTokenResponse(token=token, authority=self._authority)

    async def ListIdentities(
        self, request: auth_pb2.ListIdentitiesRequest, context: Context
    ) -> auth_pb2.ListIdentitiesResponse:
        size = request.page_size or PAGE
        if size > LARGEST_PAGE:
            await _invalid(context, f"a page has at most {LARGEST_PAGE} identities")
        known = list(self._identities.joined())
        first = next((place for place, each in enumerate(known, 1) if each.id == request.page_token), 0)
        page = known[first : first + size]
        more = page[-1].id if first + size < len(known) else ""
        return auth_pb2.ListIdentitiesResponse(identities=[_told(each) for each in page], next_page_token=more)

    async def Revoke(self, request: auth_pb2.RevokeRequest, context: Context) -> auth_pb2.RevokeResponse:
        try:
            identity = self._identities.find(request.name)
        except IdentityError as error:
            await refuse(context, error)
        return auth_pb2.RevokeResponse(identity=_told(await self._revoked(identity)))

    async def Leave(self, request: auth_pb2.LeaveRequest, context: Context) -> auth_pb2.LeaveResponse:
        if caller().local:
            await abort(
                context, grpc.StatusCode.FAILED_PRECONDITION, "LOCAL", "a local key does not leave",
                fix="remove its file",
            )  # fmt: skip
        me = caller()
        await self._host.keep(self._identities.revoke(me, self._now_ms()))
        self._logins.end(me.key_id)  # the call itself is answered
        return auth_pb2.LeaveResponse()

    async def RotateKey(self, request: auth_pb2.RotateKeyRequest, context: Context) -> auth_pb2.RotateKeyResponse:
        me = caller()
        if not verifies(request.public_key, request.signature, rotation(me.key_id, request.public_key)):
            await _invalid(context, "the signature is not of this key")
        try:
            fact = self._identities.rotate(me, request.public_key, self._now_ms())
        except IdentityError as error:
            await refuse(context, error)
        if fact is not None:
            await self._host.keep(fact)
        return auth_pb2.RotateKeyResponse()

    async def _revoked(self, identity: Identity) -> Identity:
        fact = self._identities.revoke(identity, self._now_ms())
        self.end(identity)
        await self._host.keep(fact)
        return self._identities.get(identity.key_id) or identity

    def _now_ms(self) -> int:
        return self._host.wall_ms(self._host.now())


def _told(identity: Identity) -> auth_pb2.Identity:
    return auth_pb2.Identity(
        id=identity.id,
        role=ROLE_TO_WIRE[identity.role],
        name=identity.name,
        joined_ms=identity.joined_ms,
        revoked_ms=identity.revoked_ms,
    )


async def _invalid(context: Context, message: str) -> NoReturn:
    await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED", message)
