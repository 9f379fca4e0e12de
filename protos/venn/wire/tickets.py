"""Tickets: admission of one lease to one driver, HMAC-SHA256 over exact bytes under a per-job key.

Protobuf is not canonical, so the bytes that were signed travel, and are verified before they are read.
"""

import hmac

from google.protobuf.message import DecodeError

from venn.v1.common_pb2 import Ticket, TicketPayload
from venn.wire.errors import PeerError

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
    return Ticket(payload=exact, mac=_mac(key, exact), key_id=key_id)


def mac_of(exact: bytes, key: bytes) -> bytes:
    """The MAC of a payload's exact bytes, for who signs many that differ little and serialises them himself."""
    return _mac(key, exact)


def verify(ticket: Ticket, key: bytes, key_id: str, *, now_ms: int) -> TicketPayload:
    """Check a ticket and return its payload; ``now_ms`` is the coordinator's time. Raises TicketError."""
    if not hmac.compare_digest(_mac(key, ticket.payload), ticket.mac) or ticket.key_id != key_id:
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
    return _mac(key, IDENTIFY + challenge)


def _mac(key: bytes, exact: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise ValueError(f"a ticket key has {KEY_BYTES} bytes, this one {len(key)}")
    return hmac.digest(key, exact, "sha256")
