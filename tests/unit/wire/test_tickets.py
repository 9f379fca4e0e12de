import pytest

from venn.v1.common_pb2 import AttemptKey, JobKey, Ticket, TicketPayload
from venn.wire import admission
from venn.wire.admission import TicketError, identify_mac, sign, verify

KEY, OTHER = bytes(range(32)), bytes(32)
PAYLOAD = TicketPayload(
    device="phone-1",
    attempt=AttemptKey(job=JobKey(owner="o", name="n", run="r"), round=2, attempt=1),
    lease=7,
    not_after_ms=1000,
)


def test_a_genuine_ticket_says_what_was_signed() -> None:
    said = verify(sign(PAYLOAD, KEY, "k1"), KEY, "k1", now_ms=1000)
    assert (said.device, said.lease, said.attempt.round) == ("phone-1", 7, 2)
    assert PAYLOAD.version == 0  # the caller's own is left alone


def test_an_old_ticket_is_expired() -> None:
    with pytest.raises(TicketError, match=r"ended 0\.5 s ago") as error:
        verify(sign(PAYLOAD, KEY, "k1"), KEY, "k1", now_ms=1500)
    assert error.value.reason == "TICKET_EXPIRED"


@pytest.mark.parametrize("bit", range(0, 256, 37))
def test_a_changed_ticket_is_forged(bit: int) -> None:
    ticket = sign(PAYLOAD, KEY, "k1")
    payload = bytearray(ticket.payload)
    payload[bit // 8 % len(payload)] ^= 1 << bit % 8
    mac = bytearray(ticket.mac)
    mac[bit // 8] ^= 1 << bit % 8
    for forged in (
        Ticket(payload=bytes(payload), mac=ticket.mac, key_id="k1"),
        Ticket(payload=ticket.payload, mac=bytes(mac), key_id="k1"),
        Ticket(payload=ticket.payload, key_id="k1"),
        Ticket(payload=ticket.payload, mac=ticket.mac, key_id="k2"),
        Ticket(),
        sign(PAYLOAD, OTHER, "k1"),
    ):
        with pytest.raises(TicketError) as error:
            verify(forged, KEY, "k1", now_ms=0)
        assert error.value.reason == "TICKET_FORGED"


@pytest.mark.parametrize("payload", [b"\xff\xff", b"", TicketPayload(version=2).SerializeToString()])
def test_a_signed_ticket_that_cannot_be_read_is_malformed(payload: bytes) -> None:
    ticket = Ticket(payload=payload, mac=admission.mac_of(payload, KEY), key_id="k1")
    with pytest.raises(TicketError) as error:
        verify(ticket, KEY, "k1", now_ms=0)
    assert error.value.reason == "TICKET_MALFORMED"


def test_unknown_fields_survive_because_the_exact_bytes_are_verified() -> None:
    payload = sign(PAYLOAD, KEY, "k1").payload + b"\x98\x06\x01"  # field 99 = 1
    ticket = Ticket(payload=payload, mac=admission.mac_of(payload, KEY), key_id="k1")
    assert verify(ticket, KEY, "k1", now_ms=0).lease == 7


def test_a_proof_of_identity_is_never_a_ticket() -> None:
    challenge = bytes(32)
    mac = identify_mac(KEY, challenge)
    assert mac != identify_mac(OTHER, challenge)
    with pytest.raises(TicketError) as error:
        verify(Ticket(payload=admission.IDENTIFY + challenge, mac=mac, key_id="k1"), KEY, "k1", now_ms=0)
    assert error.value.reason == "TICKET_MALFORMED"


def test_keys_and_challenges_have_their_length() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        identify_mac(KEY, b"short")
    with pytest.raises(ValueError, match="32 bytes"):
        sign(PAYLOAD, b"short", "k1")
