"""Admission: versions that understand each other, and tickets, which admit one lease to one driver.

A ticket is an HMAC-SHA256 over exact bytes under a per-job key that only the coordinator and that job's driver know. So
no job's owner can pose as a device at another job's driver. Protobuf is not canonical, so the bytes that were signed
travel, and are verified before they are read.

Under the same key a driver signs its receipts. A device has no key, so a receipt that it shows to the coordinator is
its driver's word.
"""

import hmac
import struct
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from venn.v1.common_pb2 import OUTCOME_DUPLICATE, Receipt, Ticket, TicketPayload, Version
from venn.wire.chunks import DIGEST_BYTES
from venn.wire.errors import PeerError
from venn.wire.status import abort

KEY_BYTES = CHALLENGE_BYTES = MAC_BYTES = 32
FORMAT = 1
# Can begin no ticket: as protobuf their first byte is a field of wire type 6, which does not exist. Nor does one begin
# the other. So a MAC of one kind is never one of another.
IDENTIFY, RECEIPT = b"venn.v1.Identify", b"venn.v1.Receipt"
DECISION = struct.Struct(f"<Qi{DIGEST_BYTES}s")  # of a receipt: lease, decision, digest of the response


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


def receipt_mac(key: bytes, lease: int, outcome: int, digest: bytes) -> bytes:
    """The proof that a driver decided so on the response to a lease. ``outcome``: as of the first receipt, never
    DUPLICATE. ``digest``: of the response, 32 bytes.
    """
    return mac_of(RECEIPT + DECISION.pack(lease, outcome, digest), key)


def is_genuine(receipt: Receipt, key: bytes) -> bool:
    """Whether a receipt is from whoever holds the job's key."""
    said = receipt.first_outcome if receipt.outcome == OUTCOME_DUPLICATE else receipt.outcome
    if len(receipt.digest) != DIGEST_BYTES:
        return False
    return hmac.compare_digest(receipt_mac(key, receipt.lease, said, receipt.digest), receipt.mac)


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
