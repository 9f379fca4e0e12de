"""The exact cases: small worlds whose answers are known, worked by hand and by enumeration."""

from collections import Counter
from fractions import Fraction
from statistics import fmean, stdev

import pytest

from coordinator.engine.ids import JobId, RequestId
from coordinator.engine.plan import Mode, Policy, View
from coordinator.policies.fifo import Fifo
from coordinator.policies.las import Las
from coordinator.policies.random import Random
from coordinator.policies.random_job import RandomJob
from coordinator.policies.random_order import RandomOrder
from coordinator.policies.srsf import Srsf
from coordinator.policies.srsf_job import SrsfJob
from coordinator.policies.venn.policy import Venn
from coordinator.policies.venn.whole_queues import VennQueue
from testbed.testing.arena import CASES, case, exact_mean, exact_order_mean, run, view


@pytest.mark.parametrize(("name", "mean"), [("A", "6"), ("B", "7.75"), ("C", "12"), ("D", "9.6"), ("E", "6")])
def test_fifo(name: str, mean: str) -> None:
    assert run(CASES[name], Fifo()).mean == Fraction(mean)


@pytest.mark.parametrize(("name", "mean"), [("A", "5"), ("B", "7"), ("C", "9"), ("D", "8.4"), ("E", "14/3")])
def test_srsf(name: str, mean: str) -> None:
    assert run(CASES[name], Srsf()).mean == Fraction(mean)


def test_srsf_on_case_e_by_hand() -> None:
    """Planned at 0 the order is H1 C2 G3, and it stands until a fill: gc goes to C at 2, gch to H at 3, C fills at 5.

    Ordered anew at each lease, as the engine never does, G would tie with C at 2 and with H at 3, and win both by its
    earlier arrival: a mean of 6.
    """
    assert run(CASES["E"], Srsf()).fills == [6, 5, 3]
    assert run(CASES["E"], Srsf(), plan_at_each_lease=True).fills == [3, 6, 9]


@pytest.mark.parametrize(
    ("name", "fills", "mean"),
    [
        ("A", [6, 4], "5"),
        ("B", [14, 2, 4, 7], "6.75"),
        ("C", [12, 9, 6], "9"),
        ("D", [2, 5, 10, 15, 6], "7.6"),
        ("E", [6, 5, 3], "14/3"),
    ],
)
def test_venn(name: str, fills: list[int], mean: str) -> None:
    played = run(CASES[name], Venn())
    assert played.fills == fills
    assert played.mean == Fraction(mean)


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("A", "11/2"),
        ("B", "1613/216"),
        ("C", "14017/1296"),
        ("E", "59/12"),
    ],
)
def test_random_by_enumeration(name: str, mean: str) -> None:
    assert exact_mean(CASES[name], Random()) == Fraction(mean)


def test_random_is_uniform() -> None:
    assert Random().plan(view(CASES["C"], CASES["C"].demands)).mode is Mode.UNIFORM


@pytest.mark.parametrize("name", CASES)
def test_srsf_job_is_srsf_where_no_job_knows_its_rounds(name: str) -> None:
    assert run(CASES[name], SrsfJob()).fills == run(CASES[name], Srsf()).fills


def test_srsf_job_serves_the_shorter_job_not_the_shorter_request() -> None:
    world = case("g gh", "G2*5 H4 G3")  # over all rounds left: 10, 4 (unknown: this round's) and 3
    assert run(world, Srsf()).fills == [2, 12, 5]
    # G3 takes 1 to 3. Then H4 has gh (4, 6, 8, 10), and what is left of g goes to G2 (5, 7).
    assert run(world, SrsfJob()).fills == [7, 10, 3]


@pytest.mark.parametrize(
    ("name", "fills"),
    [
        # At 0 nobody has had anything, and jobs go by arrival; a plan is made at a fill only.
        ("A", [4, 8]),
        # H takes gh at 2, the first G fills at 3. H has had one device-second, and is last until all are served.
        ("B", [14, 3, 5, 7]),
        ("C", [6, 12, 18]),
        # At 4 a device of gc or gch has gone to G each time, so C and H have had nothing: they go on by arrival.
        ("D", [2, 4, 6, 15, 21]),
        ("E", [3, 6, 9]),
    ],
)
def test_las(name: str, fills: list[int]) -> None:
    assert run(CASES[name], Las()).fills == fills


def test_las_follows_what_was_leased() -> None:
    """At 3, when G1 fills, K has been served since 1 (2 device-seconds) and L since 2 (1): L is ahead of K."""
    world = case("k l g kl", "K2 L2 G1")
    assert run(world, Las()).fills == [5, 4, 3]
    assert run(world, Fifo()).fills == [4, 6, 3]


@pytest.mark.parametrize(
    ("name", "fills"),
    [
        ("A", [6, 4]),
        ("B", [14, 2, 4, 7]),
        ("C", [12, 9, 6]),
        # G has 3 requests and takes gc; then 3 + 1 on 2 devices a cycle against H's one on one: 4 x 1 > 1 x 2, so it
        # takes gch as well, which those of its requests that H holds up would not have done.
        ("D", [2, 4, 10, 15, 9]),
        ("E", [6, 5, 3]),
    ],
)
def test_venn_queue(name: str, fills: list[int]) -> None:
    assert run(CASES[name], VennQueue()).fills == fills


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        # G first: (4, 8). H first: (6, 4). Half of each.
        ("A", "11/2"),
        # H is first, second, third, last with 1/4 each: (10, 3, 7, 11), (12, 2, 5, 9), (14, 2, 4, 7), (16, 2, 4, 6).
        ("B", "57/8"),
    ],
)
def test_random_order_by_enumeration(name: str, mean: str) -> None:
    assert exact_order_mean(CASES[name]) == Fraction(mean)


def test_random_order_draws_each_order_alike() -> None:
    """Its mean over seeds is the enumerated one, within three standard errors of the sample."""
    world, seeds = CASES["B"], 2000
    means = [float(run(world, RandomOrder(), seed=seed).mean) for seed in range(seeds)]
    assert abs(fmean(means) - float(exact_order_mean(world))) < 3 * stdev(means) / seeds**0.5


def test_a_random_order_stands_from_plan_to_plan() -> None:
    """Of requests, and of jobs: an order that each plan draws anew serves nobody to the end."""
    world = CASES["C"]
    for policy in (RandomOrder(), RandomJob()):
        first, *others = [policy.plan(view(world, world.demands, number)).queues for number in range(1, 9)]
        assert others == [first] * 7
        after = policy.plan(view(world, (0, *world.demands[1:]), 9)).queues
        assert after == (tuple(request for request in first[0] if request != 0),)


def test_the_next_request_of_a_job_draws_again_under_random_order_and_not_under_random_job() -> None:
    world = case("g", "G1 G1 G1 G1")
    seen = view(world, world.demands)
    later = seen.showing(*[one._replace(request=RequestId(one.request + 9)) for one in seen.requests])

    def jobs(policy: Policy, of: View) -> list[JobId]:
        names = {one.request: one.job for one in of.requests}
        return [names[request] for request in policy.plan(of).queues[0]]

    assert jobs(RandomJob(), seen) == jobs(RandomJob(), later)
    assert jobs(RandomOrder(), seen) != jobs(RandomOrder(), later)


@pytest.mark.parametrize("policy", [RandomOrder(), RandomJob()])
def test_random_orders_are_all_alike(policy: Policy) -> None:
    world = CASES["C"]
    orders = Counter(policy.plan(view(world, world.demands, seed=seed)).queues[0] for seed in range(6000))
    assert len(orders) == 6
    assert all(900 < times < 1100 for times in orders.values())
