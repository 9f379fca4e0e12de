"""The order of venn-plus, part by part. docs/venn-plus.md says why."""

from dataclasses import replace
from fractions import Fraction

import pytest

from coordinator.engine.ids import RegionId
from coordinator.engine.plan import View
from coordinator.policies.registry import PolicyError, load_policy
from coordinator.policies.srsf_job import SrsfJob
from coordinator.policies.venn_plus import VennPlus
from tests.unit.policies.arena import CASES, case, run, view


def seen(cycle: str, requests: str) -> View:
    world = case(cycle, requests)
    return view(world, world.demands)


def order(policy: VennPlus, world: View) -> tuple[int, ...]:
    (queue,) = policy.plan(world).queues
    return queue


@pytest.mark.parametrize(
    ("scarcity", "expected"),
    [(0, (0, 1)), (1, (0, 1)), (2, (1, 0))],  # G is at 2 devices a cycle, H at 1: 4 < 12; 4 x 2 < 12; 4 x 4 > 12
)
def test_scarcity_is_the_power_of_the_supply(scarcity: int, expected: tuple[int, ...]) -> None:
    assert order(VennPlus(scarcity=scarcity), seen("g gh", "G4 H12")) == expected


def test_the_order_without_its_parts_is_srsf_job() -> None:
    bare = VennPlus(scarcity=0, nearness=False, spare_last=False)
    for world in CASES.values():
        start = view(world, world.demands)
        assert bare.plan(start).queues == SrsfJob().plan(start).queues
        assert not bare.plan(start).at_enough


def test_what_is_nearly_full_comes_forward() -> None:
    world = seen("g", "G4 G4")
    first, second = world.requests
    far, near = first._replace(remaining_all_rounds=90), second._replace(remaining_all_rounds=100, remaining=2)
    assert order(VennPlus(), replace(world, requests=(far, near))) == (1, 0)  # 90 > 100 x sqrt(2 / 4)
    assert order(VennPlus(nearness=False), replace(world, requests=(far, near))) == (0, 1)


def test_spare_places_come_last_and_the_reason_says_so() -> None:
    world = seen("g h", "G2 G5 H1 G9")
    enough, lacks, other, much = world.requests
    world = replace(world, requests=(enough._replace(needed=0), lacks, other._replace(needed=0), much))
    plan = VennPlus().plan(world)
    assert plan.queues == ((1, 3, 2, 0),)
    assert plan.at_enough
    assert dict(plan.reasons) == {
        "job-03": "behind job-01: its job has less left to do, or needs scarcer devices",
        "job-00": "it has devices for all the responses it needs: spare ones come last",
    }
    assert VennPlus(spare_last=False).plan(world).queues == ((2, 0, 1, 3),)


def test_a_group_whose_devices_were_never_seen_counts_as_scarcest() -> None:
    world = replace(seen("g h", "G1 H9"), supply={RegionId(0): 5})
    assert order(VennPlus(), world) == (1, 0)


def test_supply_that_moves_is_seen() -> None:
    policy = VennPlus()
    world = seen("g h", "G3 H4")
    assert order(policy, world) == (0, 1)
    assert order(policy, replace(world, supply={RegionId(0): 5, RegionId(1): 1})) == (1, 0)


@pytest.mark.parametrize(("name", "mean"), [("A", "5"), ("C", "9")])
def test_exact_cases(name: str, mean: str) -> None:
    assert run(CASES[name], VennPlus()).mean == Fraction(mean)


def test_parameters_come_with_the_name() -> None:
    policy = load_policy("venn-plus(scarcity=1; nearness=no)")
    assert isinstance(policy, VennPlus)
    assert (policy.scarcity, policy.nearness, policy.spare_last) == (1, False, True)
    with pytest.raises(PolicyError, match="scarcity is 9; it is 0 to 8"):
        load_policy("venn-plus(scarcity=9)")
