"""Admission: versions that understand each other; before TLS, tokens for callers, and tickets for leases.

Each role (device, job, admin) has a 256-bit token, in a 0600 file or the environment. Other users of the same machine
are strangers, so loopback needs tokens as well. TaskService is the exception: there a ticket admits one lease to one
driver. It is an HMAC-SHA256 over exact bytes under a per-job key that only the coordinator and that job's driver know:
a device token at every driver would let any job's owner pose as a device. Protobuf is not canonical, so the bytes that
were signed travel, and are verified before they are read.
"""

import hmac
import os
import re
import secrets
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

import grpc
from google.protobuf.message import DecodeError

from venn.v1.common_pb2 import Ticket, TicketPayload, Version
from venn.wire.errors import PeerError, UsageError
from venn.wire.files import file_error, write_atomic
from venn.wire.status import abort, unreachable

Role = Literal["device", "job", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
METADATA_KEY = "authorization"
HEALTH = "grpc.health.v1.Health"
TOKEN = re.compile(r"[0-9a-f]{64}")
DIAL_S = 2.0  # to see whether anybody listens


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token of each role."""

    device: str
    job: str
    admin: str


def default_dir() -> Path:
    """The folder of the tokens: ``$VENN_TOKENS``, else ``tokens`` in ``state_folder``."""
    named = os.environ.get("VENN_TOKENS")
    return Path(named).expanduser() if named else state_folder() / "tokens"


def state_folder() -> Path:
    """The folder of what is kept between runs: ``$XDG_STATE_HOME/venn``, else ``~/.local/state/venn``."""
    named = os.environ.get("XDG_STATE_HOME")
    return (Path(named) if named else Path.home() / ".local" / "state") / "venn"


def ensure_tokens(dir: Path | None = None) -> Tokens:
    """Read the tokens in a folder, and make those that are missing. Raises UsageError for an unsafe or damaged file."""
    folder = dir or default_dir()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Tokens(**{role: _read_or_make(folder / role) for role in ROLES})
    except OSError as error:
        raise file_error(error, folder) from error


def load_token(role: Role, *, dir: Path | None = None) -> str:
    """Load a token from ``$VENN_<ROLE>_TOKEN``, else from the folder. Raises UsageError NO_TOKEN, TOKEN_UNSAFE or
    TOKEN_DAMAGED.
    """
    variable = f"VENN_{role.upper()}_TOKEN"
    if named := os.environ.get(variable):
        return _checked(named, f"${variable}")
    path = (dir or default_dir()) / role
    try:
        return _read(path)
    except OSError as error:
        raise UsageError(
            "NO_TOKEN",
            f"no {role} token: {error.strerror}",
            where=str(path),
            fix=f"name the coordinator's folder with --tokens DIR, or set {variable}",
        ) from error


def client_token(role: Role, coordinator: str, *, dir: Path | None = None) -> str:
    """Load a token as ``load_token`` does; but where there is no token since there is no coordinator, that is what is
    told.

    Raises PeerError UNREACHABLE: nothing listens at ``coordinator``.
    """
    try:
        return load_token(role, dir=dir)
    except UsageError as error:
        if error.reason != "NO_TOKEN" or _listens(coordinator):
            raise
        raise unreachable(f"coordinator {coordinator}") from error


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), DIAL_S).close()
    except (OSError, ValueError):
        return False
    return True


def bearer(token: str) -> tuple[str, str]:
    """The metadata of a call that shows a token."""
    return (METADATA_KEY, f"Bearer {token}")


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls without the token of their service. Health needs none; a service that is not named needs one that
    nobody has.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = {service: bearer(token)[1].encode() for service, token in tokens.items()}
        self._refusal: Any = grpc.stream_stream_rpc_method_handler(_refuse)  # of any kind of call: it reads nothing

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        service = (handler_call_details.method or "").rpartition("/")[0].lstrip("/")
        if service != HEALTH and not self._admits(service, handler_call_details.invocation_metadata):
            return self._refusal
        return await continuation(handler_call_details)

    def _admits(self, service: str, metadata: Any) -> bool:
        expected = self._tokens.get(service)
        shown = b""
        for key, value in metadata or ():
            if key == METADATA_KEY:
                shown = value.encode() if isinstance(value, str) else value
        return expected is not None and hmac.compare_digest(expected, shown)


async def _refuse(requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await abort(context, grpc.StatusCode.UNAUTHENTICATED, "TOKEN", "the token is missing or wrong")


def _read_or_make(path: Path) -> str:
    """Read a token, or make it. Of several programs that start at once, the first one's stands, and none reads half of
    it.
    """
    if not path.exists():
        mine = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        write_atomic(mine, secrets.token_hex(32) + "\n", mode=0o600)
        try:
            with suppress(FileExistsError):
                os.link(mine, path)
        finally:
            mine.unlink()
    return _read(path)


def _read(path: Path) -> str:
    with open(path) as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise UsageError(
                "TOKEN_UNSAFE", "other users can read this token", where=str(path), fix=f"chmod 600 {path}"
            )
        return _checked(file.read(256).strip(), str(path))


def _checked(token: str, where: str) -> str:
    if not TOKEN.fullmatch(token):
        raise UsageError(
            "TOKEN_DAMAGED",
            "a token is 64 hexadecimal digits, and this is not one",
            where=where,
            fix="copy it again from the coordinator",
        )
    return token


KEY_BYTES = CHALLENGE_BYTES = MAC_BYTES = 32
FORMAT = 1
# Can begin no ticket: as protobuf its first byte is a field of wire type 6, which does not exist. So a MAC of the one
# kind is never one of the other.
IDENTIFY = b"venn.v1.Identify"


class TicketError(PeerError):
    """A ticket that does not admit: TICKET_FORGED, TICKET_EXPIRED or TICKET_MALFORMED."""


def sign(payload: TicketPayload, key: bytes, key_id: str) -> Ticket:
    """Sign a ticket; ``payload.version`` is set here."""
    signed = TicketPayload()
    signed.CopyFrom(payload)
    signed.version = FORMAT
    exact = signed.SerializeToString()
    return Ticket(payload=exact, mac=mac_of(exact, key), key_id=key_id)


def verify(ticket: Ticket, key: bytes, key_id: str, *, now_ms: int) -> TicketPayload:
    """Check a ticket and return its payload; ``now_ms`` is the coordinator's time. Raises TicketError."""
    if not hmac.compare_digest(mac_of(ticket.payload, key), ticket.mac) or ticket.key_id != key_id:
        raise TicketError("TICKET_FORGED", "the ticket was not signed for this job", fix="take a new offer")
    payload = TicketPayload()
    try:
        payload.ParseFromString(ticket.payload)
    except DecodeError as error:
        raise TicketError("TICKET_MALFORMED", "the ticket cannot be read") from error
    if payload.version != FORMAT:
        raise TicketError("TICKET_MALFORMED", f"the ticket has format {payload.version}, known is {FORMAT}")
    if now_ms > payload.not_after_ms:
        late = (now_ms - payload.not_after_ms) / 1000
        raise TicketError("TICKET_EXPIRED", f"the ticket of lease {payload.lease} ended {late:.1f} s ago")
    return payload


def identify_mac(key: bytes, challenge: bytes) -> bytes:
    """The proof of holding a job's key. Raises ValueError unless the challenge has 32 bytes."""
    if len(challenge) != CHALLENGE_BYTES:
        raise ValueError(f"a challenge has {CHALLENGE_BYTES} bytes, this one {len(challenge)}")
    return mac_of(IDENTIFY + challenge, key)


def mac_of(exact: bytes, key: bytes) -> bytes:
    """The MAC of a payload's exact bytes. Raises ValueError unless the key has 32 bytes."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"a ticket key has {KEY_BYTES} bytes, this one {len(key)}")
    return hmac.digest(key, exact, "sha256")


OLDEST = 1
PROTOCOL = 1


def _software() -> str:
    try:
        return version("venn-testbed")
    except PackageNotFoundError:  # run from a folder that is not installed
        return "unknown"


SOFTWARE = _software()


def this_version() -> Version:
    """The version that this software speaks."""
    return Version(protocol=PROTOCOL, software=SOFTWARE)


def describe(spoken: Version) -> str:
    """A version as text for people."""
    return f"protocol {spoken.protocol} (venn-testbed {spoken.software or 'unknown'})"


async def check_version(context: grpc.aio.ServicerContext[Any, Any], spoken: Version) -> None:
    """End the call with FAILED_PRECONDITION/VERSION, both versions named, if they do not understand each other."""
    if not OLDEST <= spoken.protocol <= PROTOCOL:
        await abort(
            context,
            grpc.StatusCode.FAILED_PRECONDITION,
            "VERSION",
            f"the caller speaks {describe(spoken)}, this side {describe(this_version())}",
            caller=describe(spoken),
            server=describe(this_version()),
        )
