"""What a container is slowed down by: the decisions of its entrypoint, without a container."""

from pathlib import Path

import pytest

from testbed.live.throttle.entrypoint import Held, asked_changes, asked_limits, hold, wait_for
from testbed.live.throttle.tc import RefusedError
from testbed.world.limits import Limits
from venn.wire.errors import PeerError, UsageError

LINK = Limits(up_bits=1e6, down_bits=4e6, delay_s=0.1, jitter_s=0.02)


MOST_BITS = 1e9  # that this kernel takes


def held(
    limits: Limits,
    *changes: Limits,
    netem: bool = False,
    tc: bool = True,
    engine: tuple[float | None, int | None] = (None, None),
) -> Held:
    def shape(wanted: Limits, with_netem: bool) -> None:
        if not (netem if with_netem else tc) or (wanted.up_bits or 0.0) > MOST_BITS:
            raise RefusedError("the kernel has no such thing")

    return hold(limits, shape, lambda: engine, changes)


def means(of: Held) -> dict[str, object]:
    return {str(row["key"]): row["means"] for row in of.rows()}


def test_explicit_variables_go_before_the_profile() -> None:
    asked = asked_limits({"VENN_PROFILE": "phone-low", "VENN_UP": "2 Mbit/s", "VENN_DELAY": ""})
    assert asked.up_bits == 2e6
    assert asked.down_bits == 1.6e6  # of the link of the profile
    assert asked.delay_s == 0.3  # an empty variable says nothing
    assert asked.cores == 0.2
    assert asked.memory_bytes == 750_000_000


def test_nothing_asked_is_no_limit() -> None:
    assert asked_limits({"PATH": "/bin", "VENN_UP": ""}) == Limits()


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"VENN_UP": "4"}, "VENN_UP: '4' has no unit"),
        ({"VENN_DOWN": "-1 Mbit/s"}, "VENN_DOWN"),
        ({"VENN_LOSS": "200%"}, "VENN_LOSS"),
        ({"VENN_PROFILE": "phone-lo"}, "phone-low"),
    ],
)
def test_what_is_wrong_names_its_variable(environment: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked_limits(environment)
    assert said in str(caught.value)


def test_without_netem_the_relay_delays_and_tc_holds_the_rate() -> None:
    got = held(LINK)
    assert means(got) == {"up": "tc", "down": "tc", "delay": "relay", "jitter": "relay"}
    assert got.read_back == {"up": 1e6, "down": 4e6}


def test_with_netem_the_kernel_does_all() -> None:
    got = held(Limits(up_bits=1e6, delay_s=0.1, loss=0.01), netem=True)
    assert means(got) == {"up": "tc", "delay": "netem", "loss": "netem"}


def test_where_tc_is_refused_the_relay_does_all_and_nothing_is_read_back() -> None:
    got = held(LINK, tc=False)
    assert set(means(got).values()) == {"relay"}
    assert got.read_back == {}
    assert got.problems == ()


def test_without_netem_a_stall_stands_in_for_a_loss_and_is_a_problem() -> None:
    got = held(Limits(up_bits=1e6, loss=0.01))
    assert means(got) == {"up": "tc", "loss": "stall in the relay"}
    [problem] = got.problems
    assert (problem.where, problem.exit_code) == ("VENN_LOSS", 3)
    assert problem.message == "1% cannot be enforced; in place of each loss a relay can stall for 0.2 s"
    assert "--allow-degraded" in problem.fix
    assert got.plan.relayed(got.plan.limits)["stall"] == 0.01


def test_what_only_a_change_asks_for_has_its_relay_from_the_start() -> None:
    plain, slow = Limits(), Limits(up_bits=1e6, delay_s=0.3)
    got = held(plain, slow)
    assert (got.rows(), got.by_relay, got.problems) == ([], True, ())
    assert got.plan.relayed(slow) == {"up_bits": None, "down_bits": None, "delay_s": 0.3, "jitter_s": 0.0, "stall": 0.0}
    assert not held(plain, slow, netem=True).by_relay
    assert not held(plain, Limits(up_bits=1e6)).by_relay


def test_a_change_that_nothing_can_hold_is_a_problem_from_the_start() -> None:
    assert [problem.where for problem in held(LINK, Limits(up_bits=1e6, loss=0.1)).problems] == ["VENN_LOSS"]
    assert held(LINK, Limits(up_bits=1e6, loss=0.1), netem=True).problems == ()


def test_a_means_must_hold_each_change() -> None:
    assert means(held(Limits(up_bits=1e6), Limits(up_bits=2 * MOST_BITS))) == {"up": "relay"}


def test_changes_are_told_as_limits_are() -> None:
    assert asked_changes({}) == ()
    told = {
        "VENN_CHANGES": '[{"VENN_UP": "1 Mbit/s"}, {"VENN_DELAY": "300ms", "VENN_UP": ""}]',
        "VENN_DOWN": "9 Mbit/s",
    }
    assert asked_changes(told) == (Limits(up_bits=1e6), Limits(delay_s=0.3))


@pytest.mark.parametrize("text", ["{", "3", "[3]", '[{"VENN_UP": "1"}]'])
def test_changes_that_cannot_be_read_name_their_variable(text: str) -> None:
    with pytest.raises(UsageError, match=r"VENN_(CHANGES|UP): "):
        asked_changes({"VENN_CHANGES": text})


def test_who_sets_a_link_again_waits_for_its_start(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="has not set its limits within 0 s"):
        wait_for(tmp_path / "started", 0.0)
    (tmp_path / "started").touch()
    wait_for(tmp_path / "started", 0.0)


def test_what_the_engine_holds_is_read_back() -> None:
    got = held(Limits(cores=0.25, memory_bytes=512_000_000), engine=(0.25, 512_000_000))
    assert means(got) == {"cores": "cpus", "memory_limit": "mem_limit"}
    assert got.read_back == {"cores": 0.25, "memory_limit": 512_000_000.0}


def test_what_the_engine_does_not_hold_is_a_problem() -> None:
    got = held(Limits(cores=0.25, memory_bytes=512_000_000), engine=(0.5, None))
    assert [problem.fix for problem in got.problems] == [
        "the engine holds 0.5; write cpus: 0.25",
        "the engine holds none; write mem_limit: 512000000",
    ]
