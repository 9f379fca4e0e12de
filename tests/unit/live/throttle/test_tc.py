"""What ``ip`` and ``tc`` are told, and how their answers are read."""

import json
from pathlib import Path

import pytest

from testbed.live.throttle.tc import (
    ENDS,
    RefusedError,
    burst_bytes,
    cable,
    held_by,
    netem_arguments,
    own_interface,
    rate_arguments,
)
from testbed.world.limits import Limits, alike


@pytest.mark.parametrize("rate", [1e5, 1e6, 2e7, 1e9])
def test_a_burst_is_at_least_ten_milliseconds_and_two_packets(rate: float) -> None:
    assert burst_bytes(rate) >= max(3200, int(rate / 8 * 0.01))
    assert rate_arguments(rate)[-2:] == ["latency", "400ms"]


def test_a_round_trips_delay_is_halved() -> None:
    words = netem_arguments(Limits(delay_s=0.1, jitter_s=0.02, loss=0.015))
    assert words[3:] == ["delay", "50.000ms", "10.000ms", "rate", "100gbit", "loss", "1.5000%"]


def test_netem_keeps_the_order_only_with_a_rate_which_a_steady_delay_does_not_need() -> None:
    assert "rate" in netem_arguments(Limits(delay_s=0.1, jitter_s=0.02))
    assert "rate" not in netem_arguments(Limits(delay_s=0.1, loss=0.01))


def test_cables_do_not_share_addresses() -> None:
    ends = [end for number in range(200) for end in cable(number)]
    assert len(set(ends)) == 400
    assert cable(0) == cable(ENDS.num_addresses // 4)


TBF = '{"kind":"tbf","handle":"2:","parent":"1:1","options":{"rate":125000,"burst":3200,"lat":400000}}'
NETEM = """{"kind":"netem","handle":"1:","root":true,"refcnt":3,"options":{"limit":10000,
"delay":{"delay":0.025,"jitter":0.01,"correlation":0},"loss-random":{"loss":0.015,"correlation":0},
"rate":{"rate":12500000000,"packetoverhead":0,"cellsize":0,"celloverhead":0},
"seed":15387595466642510666,"ecn":false,"gap":0}}"""


def test_what_tc_tells_is_read_back_in_our_units() -> None:
    both, rate, nothing = json.loads(f"[{NETEM},{TBF}]"), json.loads(f"[{TBF}]"), [{"kind": "noqueue", "options": {}}]
    assert held_by(both, both) == Limits(up_bits=1e6, down_bits=1e6, delay_s=0.05, jitter_s=0.02, loss=0.015)
    assert held_by(rate, nothing) == Limits(up_bits=1e6)


def test_a_way_without_netem_is_not_taken_for_one_with_it() -> None:
    both, rate = json.loads(f"[{NETEM},{TBF}]"), json.loads(f"[{TBF}]")
    assert not alike(held_by(both, rate), held_by(both, both))
    assert held_by(both, rate).loss == 0


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir()
    return folder


@pytest.mark.parametrize("name", ["eth0", "eth3"])  # the number grows each time that it is given back
def test_the_own_interface_is_the_one_that_leads_out(tmp_path: Path, name: str) -> None:
    assert own_interface(made(tmp_path, "lo", "ifb0", name)) == name


@pytest.mark.parametrize(
    ("names", "said"),
    [(["lo"], "the container has no network"), (["eth0", "eth1"], "the container has eth0 beside eth1")],
)
def test_without_an_interface_or_with_another_nothing_is_shaped(tmp_path: Path, names: list[str], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        own_interface(made(tmp_path, *names))
