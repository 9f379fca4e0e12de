"""The pace of a device without a task: it is told, obeyed within bounds, and left for the time of a task."""

import pytest

from device_agent.pace import MOST_HEARTBEAT_S, MOST_RECONNECT_S, Pace
from tests.unit.device_agent.test_session import Script
from venn.v1 import device_pb2 as pb


def pace(heartbeat_s: float, liveness_s: float, reconnect_s: float = 0.0) -> pb.Pace:
    told = pb.Pace()
    for length, seconds in ((told.heartbeat, heartbeat_s), (told.liveness, liveness_s), (told.reconnect, reconnect_s)):
        length.FromNanoseconds(int(seconds * 1e9))
    return told


def paced(heartbeat_s: float = 24.0, liveness_s: float = 72.0) -> Script:
    script = Script().open()
    script.hear(pace=pace(heartbeat_s, liveness_s))
    script.said.clear()
    return script


def beats(script: Script, until: float) -> list[float]:
    """The times at which it says something, if all is acknowledged."""
    found = []
    while (at := script.session.next_deadline()) <= until:
        script.at(at)
        if script.said:
            found.append(at)
            script.hear(ack=pb.Ack(through=script.said[-1].seq))
            script.said.clear()
    return found


def test_a_device_without_a_task_speaks_at_the_pace_that_it_was_told() -> None:
    assert beats(paced(), 200.0) == [124.0, 148.0, 172.0, 196.0]


def test_at_a_task_it_speaks_as_the_welcome_says_and_after_it_at_its_pace_again() -> None:
    script = paced()
    script.at(110.0).offer(7, remaining_s=100)
    assert script.kinds() == ["accepted"]
    assert beats(script, 120.0) == [113.0, 116.0, 119.0]
    script.session.held.clear()
    assert beats(script, 170.0) == [143.0, 167.0]


def test_devices_spread_over_a_quarter_of_the_interval() -> None:
    script = Script(draw=1.0).open()
    script.hear(pace=pace(24.0, 72.0))
    script.said.clear()
    assert beats(script, 160.0) == [118.0, 136.0, 154.0]


def test_a_pace_comes_with_the_welcome_and_another_one_in_mid_session() -> None:
    script = Script()
    script.dial()
    welcome = pb.Welcome(session=1, pace=pace(24.0, 72.0))
    welcome.heartbeat.FromSeconds(3)
    welcome.liveness.FromSeconds(10)
    script.hear(welcome=welcome)
    assert script.session.next_deadline() == 124.0
    script.hear(pace=pace(6.0, 18.0))
    assert script.session.next_deadline() == 106.0


def test_a_silent_coordinator_is_given_up_after_the_liveness_interval_of_the_pace() -> None:
    script = paced()
    for at in (124.0, 148.0, 171.9):
        script.at(at)
    assert not script.asked
    assert script.at(172.0).asked


@pytest.mark.parametrize(("told", "heartbeat_s"), [(0.0, 3.0), (-5.0, 3.0), (1.0, 3.0), (1e6, MOST_HEARTBEAT_S)])
def test_it_obeys_within_bounds(told: float, heartbeat_s: float) -> None:
    script = paced(told, told)
    assert script.session.next_deadline() == 100.0 + heartbeat_s


def test_it_connects_again_within_the_window_that_it_was_told_and_sooner_at_a_task() -> None:
    own = Pace(lambda: 0.0)
    assert own.reconnect_s(at_a_task=False) == 0.0
    own.told(pace(24.0, 72.0, 25.0))
    assert own.reconnect_s(at_a_task=False) == 25.0
    assert own.reconnect_s(at_a_task=True) == 5.0
    own.told(pace(24.0, 72.0, 1e9))
    assert own.reconnect_s(at_a_task=False) == MOST_RECONNECT_S
