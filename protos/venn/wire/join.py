"""Joining a coordinator: one line with its address, the fingerprint of its authority and a token lets one key in.

Nothing secret leaves before the server has proved to hold a certificate of that authority. First the authority's
certificate is taken from the server, which proves nothing, and compared with the fingerprint. Then a channel that
trusts this certificate alone is opened, and the token goes over it.
"""

import asyncio
import json
import os
import socket
import ssl
from base64 import b32decode, b32encode
from contextlib import closing
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc

from venn.v1 import auth_pb2
from venn.wire.calls import auth_stub
from venn.wire.channel import parse_address
from venn.wire.errors import PeerError, UsageError
from venn.wire.files import file_error, write_atomic
from venn.wire.jsontext import made, parse_json
from venn.wire.keys import Key, Role, check_private, key_file, new_key, read_key, write_private
from venn.wire.login import ROLE_FROM_WIRE, ROLE_TO_WIRE, enrolment
from venn.wire.places import JOINED
from venn.wire.status import peer_error
from venn.wire.trust import CA, NOTHING, Trust, coordinator_trust, open_trusted

SCHEME = "VENN://"
TOKEN_BYTES, FINGERPRINT_BYTES = 16, 32
JOINING = "joining.key"  # of a join that has not ended: the next try has the same key, so that its token is still good
CONNECT_S, JOIN_S = 10.0, 20.0


@dataclass(frozen=True, slots=True)
class Link:
    """The line that lets a key in. ``authority``: its fingerprint; empty: nothing is encrypted there."""

    address: str
    authority: bytes
    token: bytes

    def text(self) -> str:
        """The line: upper case, so that it makes a small QR code."""
        return f"{SCHEME}{self.address.upper()}/{_written(self.authority)}/{_written(self.token)}"


@dataclass(frozen=True, slots=True)
class Joined:
    """Which coordinator a folder of keys is for."""

    coordinator: str  # host:port
    id: str  # of the coordinator
    role: str
    name: str


def parse_link(text: str) -> Link:
    """Read the line. Raises UsageError LINK; its message does not repeat the token."""
    try:
        if not text.upper().startswith(SCHEME):
            raise ValueError(f"it does not begin with {SCHEME}")
        address, authority, token = text[len(SCHEME) :].strip().split("/")
        address = address.lower()
        parse_address(address)
        link = Link(address, _read(authority), _read(token))
        if len(link.token) != TOKEN_BYTES or len(link.authority) not in (0, FINGERPRINT_BYTES):
            raise ValueError("a part of it is missing")
    except (ValueError, UsageError) as error:
        fix = "copy the whole line that `venn token create` printed, in quotes"
        raise UsageError("LINK", "this is no join line", where="VENN://...", fix=fix) from error
    return link


async def join(link: Link, folder: Path, *, role: Role | None, name: str, insecure: bool) -> Joined:
    """Let a new key in, and keep it in ``folder`` with the coordinator's authority. ``role`` None: a person's.

    Raises UsageError JOINED (the folder has keys of a coordinator already) or NOT_ENCRYPTED; PeerError.
    """
    if not link.authority and not insecure:
        fix = "make an authority there (venn coordinator init), or give --insecure if you trust the network"
        raise UsageError("NOT_ENCRYPTED", "this coordinator does not encrypt", where=link.address, fix=fix)
    key = _joining(folder, role)
    pem = await asyncio.to_thread(authority_of, link) if link.authority else b""
    trust = coordinator_trust(pem) if pem else None
    answer = await _enrol(link, trust, key, role, name)
    granted = ROLE_FROM_WIRE[answer.role]
    joined = Joined(link.address, answer.coordinator, granted, answer.name)
    try:
        if pem:
            write_atomic(folder / CA, pem, mode=0o644, fsync=True)
        write_private(folder / JOINED, json.dumps(asdict(joined)).encode() + b"\n")
        (folder / JOINING).replace(key_file(granted, folder))
    except OSError as error:
        raise file_error(error, folder) from error
    return joined


def joined_at(folder: Path) -> Joined | None:
    """Which coordinator the keys of a folder have joined; None: none. Raises UsageError KEY_DAMAGED."""
    path = folder / JOINED
    try:
        return made(Joined, parse_json(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError("KEY_DAMAGED", "cannot be read", where=str(path), fix="remove it, and join again") from error


def forget(folder: Path) -> None:
    """Remove what a join left: keys, the authority, and where they are for."""
    for path in (*(key_file(role, folder) for role in ROLE_TO_WIRE), folder / CA, folder / JOINED, folder / JOINING):
        path.unlink(missing_ok=True)


def authority_of(link: Link) -> bytes:
    """The certificate (PEM) of the authority that a link names, from the server there. Nothing is sent to it but a
    handshake of TLS.

    Raises PeerError UNREACHABLE, NO_TLS, or WRONG_CA: it shows no such certificate.
    """
    where = f"coordinator at {link.address}"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the fingerprint decides
    context.set_alpn_protocols(["h2"])
    try:
        plain = socket.create_connection(parse_address(link.address), CONNECT_S)
        with closing(plain), context.wrap_socket(plain) as secure:
            chain = _chain(secure)
    except ssl.SSLError as error:
        fix = "check the address: it may be a web server, or a coordinator that does not encrypt"
        raise PeerError(
            "NO_TLS", f"it does not speak TLS as a coordinator does ({error.reason})", where=where, fix=fix
        ) from error
    except OSError as error:
        message, fix = f"cannot be reached: {error}", "check that it runs and that the address is right"
        raise PeerError("UNREACHABLE", message, where=where, fix=fix) from error
    for certificate in chain:
        if sha256(certificate).digest() == link.authority:
            return ssl.DER_cert_to_PEM_cert(certificate).encode()
    raise PeerError(
        "WRONG_CA",
        "the server there is not the one that the join line is for",
        where=where,
        fix="ask for a new join line; if it happens again, somebody may be listening in",
    )


def _chain(secure: ssl.SSLSocket) -> list[bytes]:
    """The certificates that the server has shown (DER). Public from Python 3.13 on, and there before."""
    public: Any = getattr(secure, "get_unverified_chain", None)
    if public is not None:
        return list(public() or ())
    own: Any = secure._sslobj  # type: ignore[attr-defined]
    return [ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in own.get_unverified_chain() or ()]


async def _enrol(link: Link, trust: Trust | None, key: Key, role: Role | None, name: str) -> auth_pb2.EnrolResponse:
    exact = enrolment(authority=link.authority or NOTHING, token=link.token, name=name, public=key.public)
    async with open_trusted(link.address, trust) as channel:
        try:
            return await auth_stub(channel).Enrol(
                auth_pb2.EnrolRequest(
                    token=link.token,
                    public_key=key.public,
                    role=auth_pb2.ROLE_UNSPECIFIED if role is None else ROLE_TO_WIRE[role],
                    name=name,
                    signature=key.sign(exact),
                ),
                timeout=JOIN_S,
            )
        except grpc.aio.AioRpcError as error:
            raise peer_error(error, where=f"coordinator at {link.address}") from error


def _joining(folder: Path, role: Role | None) -> Key:
    """The key that is to join, made at the first try."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder)
        taken = joined_at(folder) is not None or (folder / CA).exists() or _has_key(folder, role)
        if taken:
            fix = "name another folder with --keys DIR, or leave the other one first: venn agent leave"
            raise UsageError("JOINED", "there are keys of a coordinator here already", where=str(folder), fix=fix)
        path = folder / JOINING
        if not path.exists():
            write_private(path, new_key().pem())
        return read_key(path)
    except OSError as error:
        raise file_error(error, folder) from error


def _has_key(folder: Path, role: Role | None) -> bool:
    return any(os.path.exists(key_file(each, folder)) for each in ROLE_TO_WIRE if role in (None, each))


def _written(data: bytes) -> str:
    return b32encode(data).decode().rstrip("=")


def _read(text: str) -> bytes:
    return b32decode(text.upper() + "=" * (-len(text) % 8))
