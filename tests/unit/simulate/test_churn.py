"""A timeline in virtual time, held against cases worked by hand."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest

from coordinator.engine.model import LeaseEnd
from coordinator.policies.fifo import Fifo
from coordinator.policies.registry import load_policy
from device_agent.spec import Absence, AbsenceKind
from testbed.scenario.loader import parse
from testbed.simulate.build import build
from testbed.simulate.compiled.bulk import simulate_in_bulk
from testbed.simulate.compiled.compiled import COMPILES
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import Outcome, Simulation
from testbed.simulate.run import simulate
from testbed.testing.worlds import Session, block, job, world
from testbed.world import states
from testbed.world.absences import without
from testbed.world.arrays import CheckIns
from tests.simulation.test_bulk import assert_equal
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
    for each in made.trace():
        found.append(each)
        if len(each) and each.start_s[-1] > to_s:
            break
    rows = np.concatenate([each.start_s for each in found]) <= to_s
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


def test_a_population_that_joins_at_the_start_was_never_away() -> None:
    one, other = of(""), of("{at: 0s, join: all}")
    assert len(other.actions) == 2000
    assert simulate(one, load_policy("venn")).digest == simulate(other, load_policy("venn")).digest


GONE = """
version: 1
name: gone
backend: sim
duration: 10m
jobs: {j: {demand: 5, rounds: 200, deadline: 20s, workload: {compute: 5s}}}
population: {count: 300}
"""
FOR_GOOD = ("{at: 5s, leave: all}", "{at: 5s, disconnect: all}", "{at: 0s, leave: all}", "{at: 1m, partition: all}")


@pytest.mark.parametrize("churn", FOR_GOOD)
def test_the_trace_of_a_population_that_is_gone_for_good_ends(churn: str) -> None:
    made = build(parse(f"{GONE}churn: [{churn}]"))
    blocks = list(islice(made.trace(), 100))
    assert len(blocks) < 100
    ended = CheckIns.joined(blocks).end_s
    assert (ended <= made.actions[0].at_s).all()
    outcome = simulate_events(replace(made, trace=lambda: iter(blocks)), load_policy("venn"), validate=True)
    assert np.isnan(outcome.ended_s).all()
    assert outcome.now_s <= made.until_s


@pytest.mark.bulk
@pytest.mark.skipif(not COMPILES, reason="needs Numba")
@pytest.mark.parametrize("churn", FOR_GOOD)
def test_a_population_that_is_gone_for_good_is_the_same_in_bulk(churn: str) -> None:
    whole = build(parse(f"{GONE}churn: [{churn}]"))
    made = replace(whole, trace=lambda: islice(whole.trace(), 100))
    assert_equal(simulate_events(made, load_policy("venn")), simulate_in_bulk(made, load_policy("venn")))


def endless(read: list[int]) -> Iterator[CheckIns]:
    """A session of device 0 each 10 s, a block each; device 1 has none. Counts the blocks that are ``read``."""
    for number in count():
        assert number < 1000, "it does not end"
        read.append(number)
        yield replace(block([Session(10.0 * number, 10.0 * number + 5, 0)]), interval=np.array([number]))


def test_a_trace_ends_where_the_simulation_does_if_nothing_is_left() -> None:
    gone = {0: [Absence(20.0, math.inf, AbsenceKind.LEAVE)]}
    read: list[int] = []
    left = list(without(partial(endless, read), gone, 2, 100.0)())
    assert [len(each) for each in left] == [1, 1] + [0] * 9  # and without rows up to 100 s
    assert read[-1] == 11
    read.clear()
    assert len(list(without(partial(endless, read), gone, 1, 100.0)())) == 2
    assert read[-1] == 2  # there is no other device


PATHS = [
    simulate_events,
    pytest.param(simulate_in_bulk, marks=[pytest.mark.bulk, pytest.mark.skipif(not COMPILES, reason="needs Numba")]),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("since", [0.0, 20.0])
def test_a_watch_is_asked_while_nobody_is_there(path: Callable[..., Outcome], since: float) -> None:
    read: list[int] = []
    away = {0: [Absence(since, 5000.0, AbsenceKind.LEAVE)]}
    made = world([job("a", 1, rounds=99, compute=1.0)], [], trace=without(partial(endless, read), away, 1))
    outcome = path(made, load_policy("fifo"), watch=lambda _: len(read) < 50)
    assert len(read) == 50
    assert np.isnan(outcome.ended_s).all()
