"""The way into a scripted coordinator: the real guard and proofs, around services that follow a script."""

import time
from pathlib import Path

import grpc

from coordinator.service.auth import AuthService, Logins
from coordinator.service.facts import Facts
from coordinator.service.guard import Guard
from coordinator.service.identities import Identities
from venn.v1.auth_pb2_grpc import add_AuthServiceServicer_to_server
from venn.wire.channel import make_server
from venn.wire.keys import ROLES, LocalKeys, Role, key_file, new_key, write_private
from venn.wire.login import Login

KEYS = LocalKeys(new_key(), new_key(), new_key(), "0" * 32)


def guarded_server(keys: LocalKeys = KEYS) -> grpc.aio.Server:
    """A server that admits those who hold these keys."""
    logins = Logins(time.monotonic)
    server = make_server(interceptors=[Guard(logins)])
    auth = AuthService(
        Identities(keys, Facts()),
        logins,
        coordinator=keys.coordinator,
        clock=time.monotonic,
        now_ms=lambda: 1,
        keep=_nothing,
        proved=_nothing,
    )
    add_AuthServiceServicer_to_server(auth, server)
    return server


async def _nothing(_: object) -> None:
    """Nobody joins here."""


def login(address: str, role: Role, keys: LocalKeys = KEYS) -> Login:
    """The way in with one of the keys."""
    return Login(address, getattr(keys, role), role)


def write_keys(folder: Path, keys: LocalKeys = KEYS) -> Path:
    """Write the keys into a new folder, as a coordinator does; returns it."""
    folder.mkdir(mode=0o700)
    for role in ROLES:
        write_private(key_file(role, folder), getattr(keys, role).pem())
    return folder
