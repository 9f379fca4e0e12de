"""Receipts: a driver's word, which nobody else can say."""

import pytest

from venn.v1.common_pb2 import OUTCOME_COUNTED, OUTCOME_DUPLICATE, OUTCOME_REJECTED, OUTCOME_STRAGGLER, Receipt
from venn.wire.admission import DECISION, identify_mac, is_genuine, mac_of, receipt_mac

KEY, OTHER, DIGEST = bytes(range(32)), bytes(32), bytes(reversed(range(32)))


def receipt(**fields: object) -> Receipt:
    signed: dict[str, object] = {"lease": 7, "outcome": OUTCOME_COUNTED, "digest": DIGEST}
    signed["mac"] = receipt_mac(KEY, 7, OUTCOME_COUNTED, DIGEST)
    return Receipt(**(signed | fields))  # type: ignore[arg-type]


def test_a_drivers_receipt_is_genuine_also_when_it_is_repeated() -> None:
    assert is_genuine(receipt(), KEY)
    assert is_genuine(receipt(outcome=OUTCOME_DUPLICATE, first_outcome=OUTCOME_COUNTED), KEY)
    assert not is_genuine(receipt(), OTHER)


@pytest.mark.parametrize(
    "changed",
    [
        {"lease": 8},
        {"outcome": OUTCOME_STRAGGLER},
        {"outcome": OUTCOME_REJECTED},
        {"outcome": OUTCOME_DUPLICATE, "first_outcome": OUTCOME_STRAGGLER},
        {"outcome": -1},
        {"digest": bytes(32)},
        {"digest": b""},
        {"digest": bytes(33)},
        {"mac": b""},
        {"mac": bytes(32)},
    ],
)
def test_any_other_is_not(changed: dict[str, object]) -> None:
    assert not is_genuine(receipt(**changed), KEY)


@pytest.mark.parametrize("bit", range(0, 256, 37))
def test_a_changed_mac_is_not_genuine(bit: int) -> None:
    mac = bytearray(receipt().mac)
    mac[bit // 8] ^= 1 << bit % 8
    assert not is_genuine(receipt(mac=bytes(mac)), KEY)


def test_no_proof_of_another_kind_passes_for_a_receipt() -> None:
    """A coordinator signs tickets, and drivers answer challenges, under the same key."""
    said = DECISION.pack(7, OUTCOME_COUNTED, DIGEST)
    for mac in (mac_of(said, KEY), identify_mac(KEY, said[:32]), identify_mac(KEY, said[-32:])):
        assert not is_genuine(receipt(mac=mac), KEY)
