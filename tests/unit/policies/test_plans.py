"""What a plan says beside its fills: the order within a group, regions without supply, reasons."""

from dataclasses import replace

import pytest

from coordinator.engine.ids import GroupId, JobId, RegionId
from coordinator.engine.plan import GroupView, Plan, Policy, Requests, View
from coordinator.policies import order, random, random_job, random_order, venn_plus
from coordinator.policies.fifo import Fifo
from coordinator.policies.las import Las
from coordinator.policies.random import Random
from coordinator.policies.random_job import RandomJob
from coordinator.policies.random_order import RandomOrder
from coordinator.policies.srsf import Srsf
from coordinator.policies.srsf_job import SrsfJob
from coordinator.policies.venn import policy as venn
from coordinator.policies.venn.policy import Venn
from coordinator.policies.venn.whole_queues import VennQueue
from coordinator.policies.venn_plus import VennPlus
from testbed.testing.arena import case, view

EACH = (Random(), RandomOrder(), RandomJob(), Fifo(), Srsf(), SrsfJob(), Las(), Venn(), VennQueue(), VennPlus())


def seen(cycle: str, requests: str) -> View:
    world = case(cycle, requests)
    return view(world, world.demands)


def reasons(plan: Plan) -> dict[str, str]:
    return {str(job): text for job, text in plan.reasons.items()}


def test_within_a_group_all_rounds_left_count_where_they_are_known() -> None:
    world = seen("g", "G3 G5 G4")
    long, short, unknown = world.requests
    world = world.showing(long._replace(remaining_all_rounds=30), short._replace(remaining_all_rounds=5), unknown)
    assert Venn().plan(world).queues == ((2, 1, 0),)


def test_within_a_group_only_the_open_request_counts_by_request() -> None:
    """What srsf knows: without the number of rounds, or where it is not looked at."""
    world = seen("g", "G3 G5 G4")
    long, short, third = world.requests
    world = world.showing(long._replace(remaining_all_rounds=30), short, third)
    assert Venn(order="request").plan(world).queues == Srsf().plan(world).queues == ((0, 2, 1),)
    assert Venn().plan(world).queues == SrsfJob().plan(world).queues == ((2, 1, 0),)


def test_ties_go_to_the_earlier_job_then_to_its_name() -> None:
    world = seen("g", "G3 G3 G3")
    late, z, third = world.requests
    requests = third, z._replace(job=JobId("z")), late._replace(arrival=2.0)
    world = replace(world.showing(*requests), attained={one.job: 0.0 for one in requests})
    for policy in (Srsf(), SrsfJob(), Las(), Venn()):
        assert policy.plan(world).queues == ((2, 1, 0),)


def test_fifo_follows_arrival() -> None:
    world = seen("g", "G1 G2")
    late, early = world.requests
    assert Fifo().plan(world.showing(early, late._replace(arrival=9.0))).queues == ((1, 0),)


def test_groups_that_the_same_regions_supply_share_one_queue() -> None:
    """H is eligible for one more region, in which no device was seen yet."""
    world = seen("gh", "G4 H2 G1")
    wider = (world.groups[0], GroupView(GroupId("h"), (RegionId(0), RegionId(1))))
    plan = Venn().plan(replace(world, groups=wider))
    assert plan.queues == ((2, 1, 0),)
    assert plan.owner == {RegionId(0): 0}


def test_a_region_goes_to_its_owner_and_queues_are_scarcest_first() -> None:
    plan = Venn().plan(seen("g gc gch gch", "G1 G1 G1 G1 G1 G1 C6 H20"))
    assert [len(queue) for queue in plan.queues] == [1, 1, 6]  # h, c, g
    g, gc, gch = RegionId(0), RegionId(1), RegionId(2)
    assert plan.owner == {g: 2, gc: 2, gch: 2}


def test_without_any_supply_nobody_owns_anything() -> None:
    world = replace(seen("g gh", "G4 H2"), supply={})
    plan = Venn().plan(world)
    assert plan.owner == {}
    assert plan.queues == ((0,), (1,))


def test_a_group_that_no_device_was_seen_of_comes_first_where_nobody_is_known_to_own() -> None:
    world = replace(seen("g gh", "G4 H2"), supply={RegionId(0): 5})
    assert Venn().plan(world).queues == ((1,), (0,))
    assert Venn().plan(world).owner == {RegionId(0): 1}


def test_a_policy_notices_new_groups_and_new_supply() -> None:
    venn = Venn()
    for world in (
        seen("g gh", "G4 H2"),
        seen("g gh gh", "G4 H2"),
        seen("g gc gch", "G2 G2 G2 C6 H2"),
        replace(seen("g gc gch", "G2 G2 G2 C6 H2"), supply={RegionId(2): 1}),
    ):
        assert venn.plan(world) == Venn().plan(world)


def test_what_is_as_it_was_is_the_very_same_in_the_next_plan() -> None:
    """So that nobody has to look at it again."""
    venn = Venn()
    world = seen("g gh c", "G4 H2 G5 C3 C6")
    before = venn.plan(world)
    *others, last = world.requests
    after = venn.plan(world.showing(*others, last._replace(remaining=1, remaining_all_rounds=1)))
    assert after.owner is before.owner
    changed = [last.request in queue for queue in before.queues]
    assert [is_ is was for is_, was in zip(after.queues, before.queues, strict=True)] == [not one for one in changed]
    assert changed.count(True) == 1
    assert [last.request == queue[0] for queue in after.queues] == changed


def test_an_empty_view_is_an_empty_plan() -> None:
    empty = View(0.0, 7, 1, (), Requests.of((), ()), {}, 1.0)
    for policy in EACH:
        assert not any(policy.plan(empty).queues)
        assert policy.plan(empty).reasons == {}


@pytest.mark.parametrize("policy", EACH, ids=lambda policy: policy.name)
def test_a_plan_is_made_without_its_reasons(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for module in (order, random, random_job, random_order, venn_plus):
        for name in {"behind", "by_chance"} & vars(module).keys():
            monkeypatch.setattr(module, name, lambda *_: asked.append("") or ())
    monkeypatch.setattr(venn, "_reasons", lambda *_: asked.append("") or ())
    plan = policy.plan(seen("g gh", "G4 H2 G5"))
    assert not asked
    list(plan.why())
    assert asked


def test_reasons_name_who_is_served_first() -> None:
    world = seen("g gh", "G4 H2 G5")
    assert reasons(Venn().plan(world)) == {
        "job-00": "some of its devices go first to job-01, in a scarcer group",
        "job-02": "behind job-00: less is left to do there",
    }
    assert reasons(Fifo().plan(world)) == {
        "job-01": "behind job-00: its job arrived earlier",
        "job-02": "behind job-00: its job arrived earlier",
    }
    assert reasons(Srsf().plan(world))["job-00"] == "behind job-01: its request needs fewer devices"
    assert reasons(SrsfJob().plan(world))["job-02"] == "behind job-01: its job has less left to do"
    assert reasons(Las().plan(world))["job-01"] == "behind job-00: its job has had less service"
    for policy in (Random(), RandomOrder(), RandomJob()):
        assert len(policy.plan(world).reasons) == 3


def test_reasons_name_who_took_devices_over() -> None:
    """G takes gh from H, in which one request waits as long as all of G."""
    assert reasons(Venn().plan(seen("g gh", "H5 G2 G3 G4"))) == {
        "job-00": "all of its devices go first to job-01, in a busier group",
        "job-02": "behind job-01: less is left to do there",
        "job-03": "behind job-01: less is left to do there",
    }


def test_requests_that_share_no_device_do_not_wait_for_each_other() -> None:
    world = seen("g h", "G4 H2")
    for policy in EACH:
        assert policy.plan(world).reasons == {}
