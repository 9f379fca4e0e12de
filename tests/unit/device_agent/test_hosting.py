from pathlib import Path

import pytest

from device_agent.confine.inforce import NotInForceError
from device_agent.hosting import DIAL_SPREAD_S, SETTLED_S, _warm, start_delays
from device_agent.workers import WorkerPool
from venn.wire.errors import CannotEnforceError


def test_devices_begin_one_after_the_other_and_are_there_before_the_epoch() -> None:
    after = start_delays(100, 5.0)
    assert after == sorted(after)
    assert after[-1] == pytest.approx(5.0 - SETTLED_S - DIAL_SPREAD_S)


@pytest.mark.parametrize("epoch_in_s", [0.2, 0.0, -3.0])
def test_where_there_is_no_time_for_that_they_begin_at_once(epoch_in_s: float) -> None:
    assert start_delays(3, epoch_in_s) == pytest.approx([0.0, DIAL_SPREAD_S, 2 * DIAL_SPREAD_S])


async def test_where_no_worker_starts_or_none_is_confined_as_it_must_the_agent_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def warm(pool: WorkerPool, data: tuple[Path, ...]) -> None:
        raise NotInForceError("not confined")

    monkeypatch.setattr(WorkerPool, "warm", warm)
    with pytest.raises(CannotEnforceError, match="no worker process could be started: not confined"):
        await _warm(WorkerPool(1), ())
