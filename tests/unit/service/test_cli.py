"""Flags of ``venn coordinator`` and what they become."""

import pytest

from coordinator.service.bounds import CoordinatorBounds
from coordinator.service.cli import engine_settings
from coordinator.service.policy import policy_of
from venn.wire.errors import UsageError

BOUNDS = CoordinatorBounds()


def test_silence_is_three_heartbeats_and_at_least_ten_seconds() -> None:
    for heartbeat, liveness_s in (("3s", 10.0), ("5s", 15.0), ("500ms", 10.0)):
        made = engine_settings(
            policy="venn", seed=7, heartbeat=heartbeat, driver_grace="30s", files=65_536, bounds=BOUNDS
        )
        assert made.liveness_s == liveness_s
        assert made.recovery_grace_s == 2 * liveness_s
        assert (made.driver_grace_s, made.seed, made.policy) == (30.0, 7, "venn")


@pytest.mark.parametrize(("files", "sessions"), [(65_536, 50_000), (4_096, 3_318), (1_048_576, 50_000), (1, 1)])
def test_a_coordinator_takes_no_more_sessions_than_it_may_have_files(files: int, sessions: int) -> None:
    made = engine_settings(policy="venn", seed=7, heartbeat="3s", driver_grace="30s", files=files, bounds=BOUNDS)
    assert made.most_sessions == sessions


@pytest.mark.parametrize("heartbeat", ["0s", "1h", "soon", "3"])
def test_a_heartbeat_that_makes_no_sense_is_refused(heartbeat: str) -> None:
    with pytest.raises(UsageError):
        engine_settings(policy="venn", seed=7, heartbeat=heartbeat, driver_grace="30s", files=65_536, bounds=BOUNDS)


def test_an_unknown_policy_is_told_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"fifo.*venn policy list"):
        policy_of("vann")
