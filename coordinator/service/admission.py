"""Who is let in: identities, logins, the guard, and the services about them, assembled."""

from typing import Protocol

import grpc

from coordinator.service.auth import AuthService, Clock, Logins
from coordinator.service.facts import Fact
from coordinator.service.guard import Guard
from coordinator.service.host import Host
from coordinator.service.identities import Identities, Identity
from coordinator.service.identity_service import IdentityService
from coordinator.service.owners import Owners
from venn.v1.auth_pb2_grpc import add_AuthServiceServicer_to_server, add_IdentityServiceServicer_to_server
from venn.wire.keys import LocalKeys
from venn.wire.trust import NOTHING


class Certified(Protocol):
    """A server's certificate, as far as proofs are concerned."""

    @property
    def fingerprint(self) -> bytes: ...


class Admission:
    """The gate of one coordinator."""

    def __init__(
        self, host: Host, keys: LocalKeys, certificate: Certified | None, *, clock: Clock, keeps: bool
    ) -> None:
        """``certificate``: None if nothing is encrypted. ``keeps``: facts survive a restart."""
        authority = NOTHING if certificate is None else certificate.fingerprint
        self._host = host
        self.identities = Identities(keys, host.facts)
        self.owners = Owners(host.facts)
        self.logins = Logins(clock)
        self.guard = Guard(self.logins)
        self._service = IdentityService(
            host, self.identities, self.logins, self.guard, self.owners, authority=authority, keeps=keeps
        )
        self._auth = AuthService(
            self.identities,
            self.logins,
            coordinator=keys.coordinator,
            authority=authority,
            clock=clock,
            now_ms=lambda: host.wall_ms(host.now()),
            keep=self._keep,
            proved=self._proved,
        )

    async def _keep(self, *facts: Fact) -> None:
        for fact in facts[:-1]:
            self._host.note(fact)
        await self._host.keep(facts[-1])

    async def _proved(self, identity: Identity) -> None:
        if identity.replaces:
            await self._service.take_over(identity)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the services about identities."""
        add_AuthServiceServicer_to_server(self._auth, server)
        add_IdentityServiceServicer_to_server(self._service, server)
