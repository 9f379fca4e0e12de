"""What is true of a world under every policy, and what a cell's file says."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from coordinator.policies.fifo import Fifo
from testbed.compare.facts import alone_s, covered_s, find_facts, folded, take_sample
from testbed.compare.worker import cell_row
from testbed.report.comparison import RunResult, read_facts, read_run
from testbed.simulate.model import Simulation
from testbed.simulate.run import simulate
from testbed.testing.worlds import Session, job, world
from testbed.world.arrays import Matching
from tests.unit.compare.tiny import tiny


def test_supply_is_counted_by_hour_of_the_day() -> None:
    facts = find_facts(tiny())
    assert facts.sampled == 600
    rates = {group.name: group.per_hour[:2] for group in facts.groups}
    assert rates["all"] == (360.0, pytest.approx(360, rel=0.01))
    assert rates["h >= 1"] == (120.0, pytest.approx(120, rel=0.02))
    assert all(value is None for group in facts.groups for value in group.per_hour[2:])
    assert read_facts(json.loads(json.dumps(asdict(facts)))) == facts


def test_hours_of_several_days_are_laid_over_each_other() -> None:
    values, seconds = np.zeros(30), covered_s(30 * 3600.0)[:30]
    values[2], values[26] = 3600.0, 7200.0
    assert folded(values, seconds)[1:4] == (0.0, 1.5, 0.0)


def test_tiers_are_equal_parts_by_speed() -> None:
    tiers = find_facts(tiny()).tiers
    assert [tier.p50_s for tier in tiers] == [10.0, 30.0, 50.0, 70.0]
    assert all(tier.p5_s <= tier.p50_s <= tier.p95_s for tier in tiers)


@pytest.mark.parametrize("matching", list(Matching))
def test_a_job_alone_takes_about_what_a_simulation_of_it_takes(matching: Matching) -> None:
    made = replace(tiny(), matching=matching)
    facts = find_facts(made)
    for one in made.jobs:
        alone = simulate(replace(made, jobs=(replace(one, arrives_s=2000.0),)), Fifo())
        estimated = facts.alone_s[one.spec.job]
        assert estimated is not None
        assert estimated == pytest.approx(float(alone.ended_s[0]) - 2000.0, rel=0.2)


def test_a_round_that_cannot_close_has_no_time_alone() -> None:
    rows = [Session(10.0 * row, 10.0 * row + 5, row) for row in range(100)]
    made = world([job("long", 2, compute=6.0, deadline=30)], rows)
    sample = take_sample(made)
    assert alone_s(made.jobs[0], sample) is None
    assert alone_s(made.jobs[0], sample.where(np.zeros(len(sample), dtype=bool))) is None
    assert take_sample(replace(made, trace=lambda: iter(()))).until_s == 0.0


def test_a_cell_adds_up() -> None:
    made = tiny()
    found = _run(made)
    for one in found.jobs:
        assert one.jct_s == pytest.approx(one.delay_s + one.collect_s)
        assert found.alone_s[one.name]
    assert found.mean_jct_s == pytest.approx(math.fsum(one.jct_s or 0.0 for one in found.jobs) / 2)
    assert 100 < found.check_ins < 600
    assert len(found.digest) == 16


def test_what_is_wanted_is_a_mean_over_time() -> None:
    """The narrow job asks for two devices until each of its requests is filled."""
    made = tiny()
    outcome = simulate(made, Fifo())
    found = read_run(cell_row(made, outcome, find_facts(made)), "")
    mine = outcome.attempts.job == 1
    waited = float((outcome.attempts.filled_s - outcome.attempts.opened_s)[mine].sum())
    until = float(outcome.attempts.ended_s.max())
    assert until < 3600
    assert found.wanted["h >= 1"][0] == pytest.approx(2 * waited / until)


def _run(made: Simulation) -> RunResult:
    return read_run(cell_row(made, simulate(made, Fifo()), find_facts(made)), "")
