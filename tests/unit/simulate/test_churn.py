"""A timeline in virtual time, held against cases worked by hand."""

from pathlib import Path

import numpy as np
import pytest

from coordinator.engine.model import LeaseEnd
from coordinator.policies.fifo import Fifo
from coordinator.policies.registry import load_policy
from testbed.scenario.loader import parse
from testbed.simulate.build import build
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import Outcome, Simulation
from testbed.simulate.run import simulate
from testbed.world import states
from testbed.world.arrays import CheckIns
from venn.wire.errors import UsageError

ONE = """
version: 1
name: one
backend: sim
duration: 1m
time_scale: {scale}
jobs:
  only: {{demand: 1, rounds: 2, deadline: 20s, workload: {{compute: 4s}}}}
fleets:
  phones: {{count: 1, cpu: 1}}
churn:
  - {entry}
"""


def run(entry: str, scale: float = 1) -> Outcome:
    return simulate_events(build(parse(ONE.format(entry=entry, scale=scale))), Fifo(), validate=True)


def test_undisturbed_it_takes_two_tasks() -> None:
    assert run("{at: 50s, leave: all}").ended_s.tolist() == [8.0]


@pytest.mark.parametrize("verb", ["leave", "crash"])
def test_a_task_that_is_cut_begins_again_when_its_device_is_back(verb: str) -> None:
    outcome = run(f"{{at: 2s, {verb}: all, for: 3s}}")
    assert outcome.ended_s.tolist() == [13.0]  # lost at 2, back at 5, two tasks of 4 s
    assert outcome.check_ins == 2
    assert outcome.leases[LeaseEnd.COUNTED] == 2
    assert outcome.leases[LeaseEnd.LOST] == 1


@pytest.mark.parametrize(
    ("verb", "ended", "check_ins"),
    [("disconnect", 9.0, 2), ("partition", 9.0, 2), ("suspend", 11.0, 1)],
)
def test_a_task_is_kept_by_a_device_that_is_cut_off(verb: str, ended: float, check_ins: int) -> None:
    """Done at 4, delivered at 5; one that stands still from 2 to 5 is done at 7."""
    outcome = run(f"{{at: 2s, {verb}: all, for: 3s}}")
    assert (outcome.ended_s.tolist(), outcome.check_ins) == ([ended], check_ins)
    assert outcome.leases[LeaseEnd.COUNTED] == 2


def test_a_crash_of_a_device_that_is_always_there_costs_its_restart() -> None:
    assert run("{at: 2s, crash: all}").ended_s.tolist() == [12.0]


def test_who_joins_comes_then() -> None:
    outcome = run("{at: 7s, join: all}")
    assert (outcome.ended_s.tolist(), outcome.check_ins) == ([15.0], 1)


def test_time_scale_multiplies_the_timeline() -> None:
    assert run("{at: 2s, leave: all, for: 3s}", 0.5).ended_s.tolist() == [6.5]


MANY = """
version: 1
name: many
backend: sim
duration: 12h
population: {population}
jobs: {{a: {{demand: 20, rounds: 30, deadline: 5m, workload: {{compute: 30s}}}}}}
churn: [{churn}]
"""


def of(churn: str, population: str = "{count: 2000}", folder: Path | None = None) -> Simulation:
    return build(parse(MANY.format(population=population, churn=churn), folder=folder))


def until(made: Simulation, to_s: float) -> CheckIns:
    """The sessions that begin by then."""
    found = []
    for block in made.trace():
        found.append(block)
        if block.start_s[-1] > to_s:
            break
    rows = np.concatenate([block.start_s for block in found]) <= to_s
    return CheckIns.joined(found).take(rows)


def test_an_exodus_of_a_population_and_its_return() -> None:
    made = of("{at: 1h, leave: 80% of all}, {at: 2h, join: all}")
    verbs = [action.verb.value for action in made.actions]
    assert (verbs.count("leave"), verbs.count("join")) == (1600, 1600)
    left = np.array([int(action.target) for action in made.actions[:1600]])
    trace = until(made, 3 * 3600)
    mine = np.isin(trace.device, left)
    assert not (mine & (trace.start_s < 7200) & (trace.end_s > 3600)).any()
    assert (~mine & (trace.start_s < 7200) & (trace.end_s > 3600)).any()
    back = mine & (trace.start_s == 7200)  # in mid-session
    assert 100 < back.sum() < 500
    assert (np.diff(trace.start_s) >= 0).all()
    assert not trace.crash.any()


def test_a_flash_crowd_of_devices_that_were_not_there() -> None:
    made = of("{from: 1h, to: 61m, join: 1000 of all}")
    assert len(made.actions) == 1000
    crowd = np.array([int(action.target) for action in made.actions])
    trace = until(made, 2 * 3600)
    assert trace.start_s[np.isin(trace.device, crowd)].min() >= 3600


def test_a_storm_ends_sessions_without_a_goodbye() -> None:
    made = of("{from: 1h, to: 2h, churn: 2%/min of all, for: 1m}")
    hits = [action.at_s for action in made.actions]
    trace = until(made, 3 * 3600)
    cut = np.isin(trace.end_s, hits)
    assert len(hits) == 2400
    assert trace.crash[cut].all()
    assert cut.sum() == 2400  # there is always somebody in a session, who is taken first


def test_a_population_that_is_left_alone_is_as_it_was() -> None:
    one, other = of(""), of("{at: 11h, leave: all}")
    assert one.actions == ()
    assert simulate(one, load_policy("venn")).digest == simulate(other, load_policy("venn")).digest


def test_repeated_sessions_have_one_timeline() -> None:
    made = of("{at: 90m, leave: all, for: 30m}", "{count: 2000, replay: 1h}")
    assert len(made.actions) == 2000
    trace = until(made, 4 * 3600)
    away = (trace.start_s < 7200) & (trace.end_s > 5400)
    assert not away.any()
    assert (np.bincount(trace.device[trace.start_s > 7200]) > 0).sum() > 300


def test_labels_of_a_file(tmp_path: Path) -> None:
    rows = "".join(f"d-{number},2,{'lab' if number % 4 == 0 else 'home'}\n" for number in range(400))
    (tmp_path / "phones.csv").write_text(f"device,cpu,site\n{rows}")
    made = of("{at: 1h, leave: 50% of site=lab}", "{devices: phones.csv}", tmp_path)
    assert len(made.actions) == 50
    assert {int(action.target) % 4 for action in made.actions} == {0}
    for selector, said in (
        ("site=lap", "no device has site=lap"),
        ("room=1", "no device has room=1"),
        ("101 of site=lab", "'101 of site=lab' asks for more than there are: 100"),
        ("0.1% of site=lab", "'0.1% of site=lab' selects none of 100 devices"),
    ):
        with pytest.raises(UsageError, match=said) as caught:
            of(f"{{at: 1h, leave: all}}, {{at: 1h, leave: {selector}}}", "{devices: phones.csv}", tmp_path)
        assert caught.value.where == "churn.1"


def test_too_many_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MOST_SESSIONS", 2000)
    of("{at: 10h, leave: all}")
    with pytest.raises(UsageError, match="more than 2,000 sessions lie between its first and last action, 1h and 10h"):
        of("{at: 1h, leave: 5 of all}, {at: 10h, leave: 5 of all}")
