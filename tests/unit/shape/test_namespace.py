"""What ``ip`` and ``tc`` are told, and how their answers are read."""

import json

import pytest

from testbed.shape.limits import Limits
from testbed.shape.namespace import ENDS, burst_bytes, cable, netem_arguments, rate_arguments, rate_of


@pytest.mark.parametrize("rate", [1e5, 1e6, 2e7, 1e9])
def test_a_burst_is_at_least_ten_milliseconds_and_two_packets(rate: float) -> None:
    assert burst_bytes(rate) >= max(3200, int(rate / 8 * 0.01))
    assert rate_arguments(rate)[-2:] == ["latency", "400ms"]


def test_a_round_trips_delay_is_halved() -> None:
    words = netem_arguments(Limits(delay_s=0.1, jitter_s=0.02, loss=0.015))
    assert words[3:] == ["delay", "50.000ms", "10.000ms", "loss", "1.5000%"]


def test_cables_do_not_share_addresses() -> None:
    ends = [end for number in range(200) for end in cable(number)]
    assert len(set(ends)) == 400
    assert cable(0) == cable(ENDS.num_addresses // 4)


def test_the_rate_is_read_back_in_bits() -> None:
    said = '[{"kind":"tbf","handle":"8001:","root":true,"options":{"rate":125000,"burst":3200,"lat":400000}}]'
    assert rate_of(json.loads(said)) == 1e6
    assert rate_of([{"kind": "noqueue"}]) is None
