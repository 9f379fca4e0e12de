"""What a container is slowed down by: the decisions of its entrypoint, without a container."""

import pytest

from testbed.shape.commands import RefusedError
from testbed.shape.entrypoint import Held, asked_limits, hold
from testbed.shape.limits import Limits
from venn.wire.errors import UsageError

LINK = Limits(up_bits=1e6, down_bits=4e6, delay_s=0.1, jitter_s=0.02)


def held(
    limits: Limits, *, netem: bool = False, tc: bool = True, engine: tuple[float | None, int | None] = (None, None)
) -> Held:
    def shape(_: Limits, with_netem: bool) -> None:
        if not (netem if with_netem else tc):
            raise RefusedError("the kernel has no such thing")

    return hold(limits, shape, lambda: engine)


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


def test_what_nothing_can_do_is_a_problem() -> None:
    got = held(Limits(up_bits=1e6, loss=0.01))
    assert means(got) == {"up": "tc", "loss": ""}
    assert [problem.where for problem in got.problems] == ["VENN_LOSS"]
    assert got.problems[0].exit_code == 3


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
