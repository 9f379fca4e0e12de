"""How often devices without a task speak, by how many there are."""

import pytest

from coordinator.engine.model import EngineSettings
from coordinator.service.bounds import CoordinatorBounds
from coordinator.service.pace import SOONER, Pacer

PACER = Pacer.of(EngineSettings(seed=1, policy="fifo"), CoordinatorBounds())


def test_few_devices_speak_once_in_a_heartbeat() -> None:
    assert [PACER.interval_s(devices) for devices in (0, 1, 100, 300, 393)] == [3.0] * 5


@pytest.mark.parametrize("devices", [2000, 4000, 10_000, 50_000])
def test_the_heartbeats_of_many_devices_have_a_bounded_rate(devices: int) -> None:
    assert devices / (PACER.interval_s(devices) * SOONER) <= 150


def test_an_interval_is_told_again_only_when_it_is_too_short_or_much_too_long() -> None:
    told, changes = 3.0, 0
    for devices in (*range(1, 10_001), *range(10_000, 0, -1)):
        again = PACER.interval_s(devices, told)
        assert devices / (again * SOONER) <= 150
        changes += again != told
        told = again
    assert changes < 30  # of 20,000
    assert told <= 6.0


def test_silence_follows_the_interval_and_is_never_under_a_liveness_interval() -> None:
    assert PACER.silence_s(3.0) == 10.0
    assert PACER.silence_s(25.0) == 75.0


def test_devices_are_told_to_spread_when_they_connect_again() -> None:
    windows = [PACER.frame(devices, 3.0).reconnect.ToTimedelta().total_seconds() for devices in (1, 3000, 100_000)]
    assert windows == pytest.approx([1 / 300, 10.0, 30.0], abs=1e-6)
