"""Whatever becomes of a link meanwhile: what passes it is there when a tiny step after the other says so."""

from itertools import repeat

from hypothesis import given
from hypothesis import strategies as st

from coordinator.engine.model import Workload
from testbed.world.limits import Limits
from testbed.world.links import LinkSchedule, Message, Way, arrival, chances, free_at, link_schedule, rate, task_end

STEP_S = 1 / 256

LIMITS = st.builds(
    Limits,
    up_bits=st.one_of(st.none(), st.integers(1, 64).map(lambda kilo: kilo * 1000.0)),
    down_bits=st.one_of(st.none(), st.integers(1, 64).map(lambda kilo: kilo * 1000.0)),
    delay_s=st.sampled_from([0.0, 0.05, 0.4, 1.5]),
    loss=st.sampled_from([0.0, 0.01, 0.3]),
)


@st.composite
def schedules(draw: st.DrawFn) -> LinkSchedule:
    """Changes at whole steps, some of them one right after the other."""
    at, changes = 0.0, []
    for other in draw(st.lists(LIMITS, max_size=4)):
        since = at + draw(st.sampled_from([0.0, 0.25, 1.0]))
        at = since + draw(st.sampled_from([0.125, 0.5, 2.0]))
        changes.append((since, at, other))
    return link_schedule(draw(LIMITS), changes)


def in_steps(link: LinkSchedule, message: Message, at: float) -> float:
    left = float(message.size)
    while left > 0:
        speed = rate(link.at(at), message.way)
        if left <= speed * STEP_S:
            return at + left / speed
        left -= speed * STEP_S
        at += STEP_S
    return at


@given(schedules(), st.sampled_from(Way), st.integers(0, 20_000), st.integers(0, 800))
def test_bytes_leave_at_the_rate_of_each_moment(link: LinkSchedule, way: Way, size: int, step: int) -> None:
    message, at = Message(way, size), step * STEP_S
    assert abs(link.left(message, at) - in_steps(link, message, at)) < 1e-6


@given(schedules(), st.integers(0, 800), st.integers(0, 8000), st.integers(0, 8000), st.integers(1, 99))
def test_a_task_is_its_messages_and_what_lies_between(
    link: LinkSchedule, step: int, down: int, up: int, lease: int
) -> None:
    at, seconds = step * STEP_S, 0.75
    ended = task_end(link, at, Workload(0.0, down, up), seconds, first=(), chance=chances(1, lease, 0))
    assert ended == task_end(link, at, Workload(0.0, down, up), seconds, first=(), chance=chances(1, lease, 0))
    assert (
        at + seconds
        <= ended
        <= task_end(link, at, Workload(0.0, down, up + 1), seconds, first=(), chance=chances(1, lease, 0))
    )
    assert free_at(link, ended, chances(1, lease, 1)) >= ended


@given(LIMITS, st.integers(0, 9), st.integers(0, 9))
def test_a_link_that_never_changes_takes_the_same_at_any_time(limits: Limits, first: int, second: int) -> None:
    link = link_schedule(limits, ())
    message = Message(Way.UP, 5000)
    took = [arrival(link, (message,), float(at), repeat(0.5)) - at for at in (first, second)]
    assert abs(took[0] - took[1]) < 1e-9
