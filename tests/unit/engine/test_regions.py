"""Regions, capability classes and supply: engine rules 8 and 9."""

import pytest

from coordinator.engine.effects import AdoptPlan, OfferLease
from coordinator.engine.events import JobEnded
from coordinator.engine.ids import DeviceId, GroupId, RegionId
from coordinator.engine.model import EngineSettings, JobEnd
from coordinator.engine.plan import View
from coordinator.engine.regions import MOST_ATOMS, MOST_KINDS, OVERFLOW, Regions
from coordinator.engine.requirements import AllDevices, Capabilities, Comparison, Every, Ids
from coordinator.engine.supply import Supply
from testbed.testing.engine import ScriptedEngine, needs
from tests.unit.engine.tiny import Recorder

ROOMY, FAST = Comparison("memory", ">=", 4.0), Comparison("cpu", ">=", 7.0)


def numbers(memory: float, cpu: float = 1.0) -> Capabilities:
    return Capabilities({"memory": memory, "cpu": cpu})


def supply_of(view: View, group: str) -> int:
    (regions,) = [one.regions for one in view.groups if one.group == GroupId(group)]
    return sum(view.supply.get(region, 0) for region in regions)


def test_devices_that_can_serve_the_same_jobs_share_a_region() -> None:
    regions = Regions(10)
    regions.add_job(AllDevices(), "any")
    regions.add_job(ROOMY, "roomy")
    regions.recut([])
    regions.rebuild()
    small, large, larger = (
        regions.classify(DeviceId(name), numbers(memory))
        for name, memory in (("small", 2.0), ("large", 4.0), ("larger", 64.0))
    )
    assert regions.region_of(large) == regions.region_of(larger) != regions.region_of(small)
    assert [(view.group, view.regions) for view in regions.views()] == [("all", (0, 1)), ("memory >= 4", (1,))]


def test_devices_with_the_same_capabilities_are_alike_unless_a_job_asks_for_certain_ones() -> None:
    regions, kind, names = Regions(10), numbers(8.0), (DeviceId("one"), DeviceId("two"))
    for requirement in (ROOMY, Ids(names[1:])):
        regions.add_job(requirement, "")
        regions.recut([])
        regions.rebuild()
        one, two = (regions.classify(name, kind) for name in names)
        assert (one == two) is (requirement is ROOMY)
    assert [regions.classify(name, kind) for name in names] == [one, two]


def test_capabilities_are_remembered_up_to_a_bound() -> None:
    regions = Regions(10)
    regions.add_job(ROOMY, "roomy")
    regions.recut([])
    regions.rebuild()
    for number in range(MOST_KINDS + 2):
        roomy = regions.classify(DeviceId("one"), numbers(number % 8))
        assert roomy == (number % 8 >= 4)
    assert 0 < len(regions._kinds) <= MOST_KINDS


def test_regions_are_numbered_anew_when_a_group_goes() -> None:
    play = ScriptedEngine()
    job = play.job("a", **needs(ROOMY, "roomy"))
    play.job("b")
    play.check_in("small", numbers={"memory": 2.0})
    play.check_in("large", numbers={"memory": 8.0})
    assert len(play.engine.regions.regions) == 2
    play.handle(JobEnded(job.id, JobEnd.FINISHED))
    assert len(play.engine.regions.regions) == 1
    assert len(play.engine.regions.classes) == 2  # its past is kept


def test_beyond_the_bound_devices_are_checked_one_by_one() -> None:
    play = ScriptedEngine(most_regions=2)
    play.request("a", demand=2, **needs(Every((ROOMY, FAST)), "powerful"))
    play.check_in("one", numbers={"memory": 2.0, "cpu": 1.0})
    play.check_in("two", numbers={"memory": 2.0, "cpu": 9.0})
    play.check_in("three", numbers={"memory": 8.0, "cpu": 1.0})
    assert play.device("three").capability_class == OVERFLOW
    assert not play.got(OfferLease)
    assert play.offer("four", numbers={"memory": 8.0, "cpu": 9.0})
    assert play.device("four").capability_class == OVERFLOW
    assert play.engine.supply.by_region(play.engine.regions) == {}
    play.beat(2)
    assert play.engine.supply.by_region(play.engine.regions)[RegionId(2)] == 2


def test_a_new_requirement_over_known_thresholds_finds_its_past() -> None:
    recorder = Recorder()
    play = ScriptedEngine(recorder)
    play.job("a", **needs(ROOMY, "roomy"))
    play.job("b", **needs(FAST, "fast"))
    for number in range(12):
        play.check_in(f"d{number}", numbers={"memory": 8.0 if number % 2 else 2.0, "cpu": 9.0 if number % 3 else 1.0})
    play.beat(2)
    play.request("c", **needs(Every((ROOMY, FAST)), "powerful"))
    assert supply_of(recorder.views[-1], "memory >= 4 and cpu >= 7") == 4
    assert not play.engine.plan.reasons


def test_past_that_cannot_be_split_is_shared_in_proportion_and_said_to_be_a_guess() -> None:
    recorder = Recorder()
    play = ScriptedEngine(recorder)
    play.job("a")
    for number in range(9):
        play.check_in(f"d{number}", numbers={"memory": 8.0 if number % 3 == 0 else 2.0})
    for number in range(4):
        for interval in (2, 3):
            play.check_in(f"d{number}", numbers={"memory": 8.0 if number % 3 == 0 else 2.0}, interval=interval)
    play.beat(2)
    job = play.job("b", demand=4, **needs(ROOMY, "roomy"))
    play.open(job)
    assert supply_of(recorder.views[-1], "memory >= 4") == 7  # 17 x 7 / 17: by the check-ins of those known
    assert supply_of(recorder.views[-1], "all") == 17
    assert any("17 earlier check-ins were shared in proportion" in line for line in play.engine.explain_job(job.id))


def test_comparisons_of_ended_jobs_are_forgotten_at_a_bound() -> None:
    regions = Regions(4096)
    for number in range(MOST_ATOMS + 1):
        group = regions.add_job(Comparison("memory", ">=", float(number)), "")
        regions.recut([])
        regions.remove_job(group)
        regions.rebuild()
    assert len(regions._atoms) == 1


def test_shares_are_whole_numbers_by_largest_remainder() -> None:
    supply = Supply(EngineSettings(seed=1, policy=""), 0.0)
    for _ in range(10):
        supply.count(0)
    assert supply.recut({0: ((0, 1), (1, 1), (2, 1))}) == 10
    assert supply.totals == {0: 4, 1: 3, 2: 3}
    assert supply.recut({0: ((0, 1),), 1: ((0, 5),), 2: ((2, 1),)}) == 0  # merging is exact
    assert supply.totals == {0: 7, 2: 3}


def test_counts_are_published_at_ticks_and_leave_the_window() -> None:
    supply = Supply(EngineSettings(seed=1, policy="", supply_window_s=10.0, supply_buckets=5), 100.0)
    assert supply.next_tick == 101.0  # within the first bucket of 2 s there are more
    supply.count(3)
    assert supply.published == {}
    supply.tick(101.0)
    assert (supply.published, supply.span_s, supply.next_tick) == ({3: 1}, 1.0, 102.0)
    for now in (102.0, 104.0, 106.0, 108.0, 110.0):
        assert supply.next_tick == now
        supply.tick(now)
        assert supply.published == {3: 1}
    assert supply.span_s == 10.0
    supply.count(3)
    supply.tick(112.0)
    assert (supply.published, supply.span_s) == ({3: 1}, 10.0)
    supply.tick(500.0)  # the host slept
    assert (supply.published, supply.next_tick) == ({}, 502.0)


@pytest.mark.parametrize(("count", "moved"), [(100, False), (109, False), (110, False), (111, True), (89, True)])
def test_a_region_has_moved_by_more_than_a_tenth(count: int, moved: bool) -> None:
    supply = Supply(EngineSettings(seed=1, policy=""), 0.0)
    supply.plan_made({RegionId(0): 100, RegionId(1): 50})
    assert supply.moved({RegionId(0): count, RegionId(1): 50}) is moved
    assert supply.moved({RegionId(0): 100})
    assert supply.moved({RegionId(0): 100, RegionId(1): 50, RegionId(2): 1})


def test_a_tick_plans_again_only_if_supply_moved() -> None:
    play = ScriptedEngine()
    play.request(demand=50)
    play.check_in("one")
    assert [effect for effect in play.beat(2) if isinstance(effect, AdoptPlan)]  # from nothing to something
    before = play.engine.world.plan_number
    play.beat(40)
    assert play.engine.world.plan_number - before < 20  # 1/s becomes 1/40 s, by steps of a tenth
    before = play.engine.world.plan_number
    play.beat(3)
    assert play.engine.world.plan_number == before


def test_a_session_counts_once_in_the_supply() -> None:
    play = ScriptedEngine()
    play.job()
    for interval in (1, 1, 2):
        play.check_in("one", interval=interval)
    assert play.engine.supply.totals == {0: 2}
