"""Worlds in which everything fails: no rule is broken, a seed is the same everywhere, and planted bugs are found."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinator.service import jobs as coordinator_jobs
from job_driver.responses import Responses
from job_driver.spool import ResponseHeader
from job_driver.training import TrainingLoop
from testbed.chaos import script, world
from testbed.chaos.campaign import Campaign, run_campaign, run_seed
from venn.wire.files import JsonLines

HOURS = 1.0
FIRST, MOST = 1000, 100  # seeds among which a planted bug must be found

ONE = "from testbed.chaos.campaign import run_seed; print(run_seed({seed}, {hours}).digest)"


@pytest.mark.parametrize("seed", [105, 120])
def test_no_rule_is_broken(seed: int) -> None:
    outcome = run_seed(seed, HOURS)
    assert outcome.violation is None
    assert outcome.counts["receipts"] > 0
    assert outcome.virtual_s > HOURS * 3600


def test_a_seed_is_the_same_world_in_every_process() -> None:
    def digest(hash_seed: str) -> str:
        code = ONE.format(seed=105, hours=0.5)
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
        return ran.stdout

    assert digest("1") == digest("2") == f"{run_seed(105, 0.5).digest}\n"


def test_a_world_without_faults_loses_nothing() -> None:
    outcome = world.run(script.generate(3, 0.5).without(faults=()))
    assert outcome.violation is None
    assert outcome.counts["coordinators"] == 1
    assert outcome.counts["jobs"] == len(outcome.script.jobs)


def test_a_campaign_stops_at_its_bound_and_counts_worlds_in_the_order_of_their_seeds() -> None:
    told: list[int] = []
    campaign = Campaign(50)
    run_campaign(campaign, each_hours=0.2, jobs=1, seeds=2, progress=lambda found: told.append(found.seeds))
    assert told == [1, 2]
    again = Campaign(50)
    run_campaign(again, each_hours=0.2, jobs=2, seeds=2)
    assert again.counts == campaign.counts


# -- planted bugs


def dropped_dedup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver decides on a lease again when its device asks again."""
    decide = Responses._decide

    async def forgetful(self: Responses, header: ResponseHeader, body: memoryview | None, problem: str) -> Any:
        if (leases := self.receipts.find(header.no)) is not None:
            leases.decisions.pop(header.lease, None)
        return await decide(self, header, body, problem)

    monkeypatch.setattr(Responses, "_decide", forgetful)


def lost_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver does not wait for the disk before it acknowledges."""
    init = JsonLines.__init__

    def hasty(self: JsonLines, path: Path, *, fsync: bool = False) -> None:
        init(self, path)

    monkeypatch.setattr(JsonLines, "__init__", hasty)


def believed_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator believes a device that its response was taken, without its driver's receipt."""
    monkeypatch.setattr(coordinator_jobs, "is_genuine", lambda receipt, key: True)


def stale_incarnation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver takes another coordinator, whose machine has taken the place of the first one's, for the same."""
    monkeypatch.setattr(TrainingLoop, "restarted", lambda self: None)
    monkeypatch.setattr(TrainingLoop, "_forget_coordinator", lambda self: None)


BUGS: dict[Callable[[pytest.MonkeyPatch], None], int] = {  # and a seed that finds each, in an hour
    dropped_dedup: 1004,
    lost_fsync: 1005,
    believed_receipt: 1003,
    stale_incarnation: 1023,
}


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    assert FIRST <= BUGS[plant] < FIRST + MOST
    plant(monkeypatch)
    assert any(run_seed(BUGS[plant] + more, HOURS).violation for more in range(4))
