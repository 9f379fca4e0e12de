"""Re-planning, opening and matching on the real engine, with 1,000 open jobs in 100 groups over 4,096 regions.

Under Venn and, as the baseline, under srsf, which has one order for all devices. A re-plan is everything from the
event that asks for it to its last effect: the view, the policy, the adoption; the first one after a tick of the supply
has more to do, and is a figure of its own. A look-up is what the engine does for a
device that checks in: from its session to the request that gets it. It is timed from a fresh plan on, so that what is
put off until a region's first device is in it.

With even queues each group has as many jobs as the others. With skewed ones the n-th most abundant group has 1/n as
many as the first, which makes Venn move the most regions between groups.

Beside ``srsf`` everything is held against plain Python in the same run: a re-plan against one ``sorted`` of as many
requests, openings of 10,000 requests in one turn of the coordinator's loop against 1,000. Workloads make a plan every
few dozen check-ins: so look-ups are timed with a plan for each 50 as well, and what a plan puts off until the first
device of a region is in that. Times are the processor's, which others who use the machine lengthen less.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, islice

import numpy as np

from coordinator.engine.effects import AdoptPlan, Effect, OfferLease
from coordinator.engine.engine import Engine
from coordinator.engine.events import (
    AttemptOpened,
    DeviceCheckedIn,
    DriverFollowed,
    Event,
    JobSubmitted,
    LeaseAccepted,
    PolicyChanged,
    ResponsesRecorded,
    SessionEnded,
    TimePassed,
    TurnEnded,
)
from coordinator.engine.ids import DeviceId, JobId, SessionSeq
from coordinator.engine.model import EngineSettings, JobSpec, Outcome, SessionEnd
from coordinator.engine.plan import Plan, View
from coordinator.engine.requirements import Capabilities, Comparison
from coordinator.engine.state import Session
from coordinator.policies.registry import load_policy
from testbed.bench.figures import Measured, Say
from testbed.testing.engine import spec
from venn.wire.process import collecting_seldom

JOBS = 1000
GROUPS = 100
REGIONS = 4096
MOST_CHECK_INS = 5  # of a region, over the window
RE_PLANS = 1100  # of which the first eleventh warms up
TICKS = 20
LOOKUPS = 1_000_000
PARTS = 5  # of them, each right after a plan; the median counts
DENSE = 50  # look-ups of a plan where plans are dense
DENSE_LOOKUPS = 20_000
OPENINGS = (1_000, 10_000)  # requests in one turn
SORTED = 200  # times
OPENED = 3  # times; the median counts
OPENING_REGIONS = 256
LONG_S = 1e9
SEED = 1


class _Nobody:
    """a policy that gives no device to anybody, while the world is set up"""

    name = "nobody"

    def plan(self, view: View) -> Plan:
        return Plan()


@dataclass(slots=True)
class Host:
    """An engine between two events, and its clock."""

    engine: Engine
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))
    step_s: float = 1e-3  # of the clock, for each event
    now: float = 0.0
    sessions: int = 0

    def handle(self, event: Event) -> list[Effect]:
        """The effects of an event in a turn of its own."""
        self.now += self.step_s
        effects = self.engine.handle(event, self.now)
        if self.engine.unsettled:
            effects += self.engine.handle(TurnEnded(), self.now)
        return effects

    def check_in(self, device: DeviceId, capabilities: Capabilities) -> list[Effect]:
        """The effects of a check-in, in an availability interval of its own."""
        self.sessions += 1
        return self.handle(DeviceCheckedIn(SessionSeq(self.sessions), device, "", self.sessions, capabilities))

    def leave(self) -> None:
        """The device that checked in last goes."""
        self.handle(SessionEnded(SessionSeq(self.sessions), SessionEnd.GOODBYE_SESSION_OVER))


def _world(skewed: bool, jobs: int, regions: int) -> Host:
    """A world in which all jobs and supply are there, and no request is open."""
    settings = EngineSettings(seed=SEED, policy="", supply_window_s=LONG_S, liveness_s=LONG_S, accept_timeout_s=LONG_S)
    world = Host(Engine(settings, _Nobody()))
    for number, group in enumerate(_group_of_each_job(skewed, jobs)):
        # A round closes at its first response, so that one device makes two re-plans: a close and an opening.
        demand, first = int(world.rng.integers(1, 500)), Fraction(1, 1000)
        made = spec_of(JobId(f"bench/{number:04}/1"), f"{group:02}", demand, min_response=first)
        world.handle(JobSubmitted(made, 1))
        world.handle(DriverFollowed(made.job, 1))
    # The greater its number the more regions a group can use; the last one can use all.
    eligible = world.rng.random((regions, GROUPS)) < np.linspace(0.05, 1.0, GROUPS)
    for region, check_ins in enumerate(world.rng.integers(1, MOST_CHECK_INS, regions, endpoint=True)):
        groups = frozenset(f"{group:02}" for group in np.flatnonzero(eligible[region]))
        for _ in range(check_ins):
            world.check_in(DeviceId(f"device-{region}"), Capabilities(labels={"serves": groups}))
            world.leave()
    while world.engine.supply.published == {}:
        world.now = world.engine.supply.next_tick
        world.handle(TimePassed())
    return world


def _group_of_each_job(skewed: bool, number: int) -> list[int]:
    if not skewed:
        return [job % GROUPS for job in range(number)]
    share = np.array([1 / (GROUPS - group) for group in range(GROUPS)])
    jobs = 1 + np.floor(share / share.sum() * (number - GROUPS)).astype(int)  # none without a job
    jobs[-1] += number - jobs.sum()
    return [int(group) for group in np.repeat(np.arange(GROUPS), jobs)]


def spec_of(job: JobId, group: str, demand: int, **changes: object) -> JobSpec:
    """A job for the devices that serve ``group``."""
    serves = Comparison("serves", "=", group)
    return replace(
        spec(job=job, requirement=serves, requirement_name=group, demand=demand, deadline_s=LONG_S, lease_s=LONG_S),
        **changes,  # type: ignore[arg-type]
    )


def _under(world: Host, policy: str) -> None:
    """Open a request of every job that has none, and let the policy plan."""
    for job in list(world.engine.jobs.values()):
        if job.request is None:
            world.handle(AttemptOpened(job.id, 1, 1, 1, None))
    world.engine.set_policy(load_policy(policy))
    world.handle(PolicyChanged(policy))


def _re_plans(world: Host) -> Iterator[float]:
    """Seconds of each re-plan, at a close and at an opening in turn."""
    devices = list(world.engine.devices.values())
    while True:
        device = devices[int(world.rng.integers(len(devices)))]
        (offer,) = (one for one in world.check_in(device.id, device.capabilities) if isinstance(one, OfferLease))
        world.handle(LeaseAccepted(offer.session, offer.lease))
        records = ((offer.lease, Outcome.COUNTED),)
        yield from _timed(world, ResponsesRecorded(offer.job, 1, offer.round, offer.attempt, records))
        yield from _timed(world, AttemptOpened(offer.job, 1, offer.round + 1, 1, None))
        world.leave()


def _re_plans_after_ticks(world: Host) -> Iterator[float]:
    """Seconds of each re-plan that is the first to see other supply."""
    re_plans = _re_plans(world)
    while True:
        next(re_plans)  # devices have checked in
        world.now = world.engine.supply.next_tick
        yield next(chain(_timed(world, TimePassed()), re_plans))


def _timed(world: Host, event: Event) -> Iterator[float]:
    """Seconds that the event took, if it made a plan."""
    started = time.process_time()
    effects = world.handle(event)
    seconds = time.process_time() - started
    if any(isinstance(effect, AdoptPlan) for effect in effects):
        yield seconds


def _lookups_per_s(world: Host, lookups: int, of_a_plan: int) -> float:
    """Lookups per second for devices of all regions, in a random order; the median over ``PARTS`` parts of them."""
    devices = list(world.engine.devices.values())
    sessions = [
        Session(SessionSeq(number), device, world.now, world.now) for number, device in enumerate(devices, 10**9)
    ]
    queue = [sessions[index] for index in world.rng.integers(len(sessions), size=lookups)]
    parts = [queue[first : first + lookups // PARTS] for first in range(0, lookups, lookups // PARTS)]
    return float(np.median([len(part) / _seconds_to_look_up(world, part, of_a_plan) for part in parts]))


def _seconds_to_look_up(world: Host, queue: list[Session], of_a_plan: int) -> float:
    """Seconds of the lookups alone, without the plans, of which each is for so many."""
    choose, seconds = world.engine.matcher.choose, 0.0
    for first in range(0, len(queue), of_a_plan):
        world.handle(PolicyChanged(""))
        some = queue[first : first + of_a_plan]
        started = time.process_time()
        for session in some:
            choose(session)
        seconds += time.process_time() - started
    return seconds


def opening_s(requests: int, policy: str) -> float:
    """Seconds in which so many requests open in one turn. The same supply is there before, and no device waits."""
    world = _world(skewed=False, jobs=requests, regions=OPENING_REGIONS)
    world.engine.set_policy(load_policy(policy))
    world.handle(PolicyChanged(policy))
    started = time.process_time()
    for job in world.engine.jobs:
        world.engine.handle(AttemptOpened(job, 1, 1, 1, None), world.now)
    world.engine.handle(TurnEnded(), world.now)
    return time.process_time() - started


def _sorting_ms(world: Host) -> float:
    """One ``sorted`` of as many requests as are open, by what ``srsf`` orders them by; the median of 200."""
    requests = list(world.engine.world.open_requests.values())
    times = []
    for _ in range(SORTED):
        started = time.process_time()
        sorted(requests, key=lambda request: request.unmet)
        times.append(time.process_time() - started)
    return 1000 * float(np.median(times))


def _figures(policy: str, worlds: tuple[Host, Host]) -> dict[str, float]:
    figures = {}
    for name, world in zip(("replan", "replan_skewed"), worlds, strict=True):
        _under(world, policy)
        times = list(islice(_re_plans(world), RE_PLANS // 11, RE_PLANS))
        figures[f"{name}_median_ms"] = 1000 * float(np.median(times))
        figures[f"{name}_p99_ms"] = 1000 * float(np.quantile(times, 0.99))
    after_ticks = list(islice(_re_plans_after_ticks(worlds[0]), TICKS))
    figures["replan_new_supply_median_ms"] = 1000 * float(np.median(after_ticks))
    figures["lookups_per_s"] = _lookups_per_s(worlds[0], LOOKUPS, LOOKUPS)
    figures["lookups_at_dense_plans_per_s"] = _lookups_per_s(worlds[0], DENSE_LOOKUPS, DENSE)
    figures["sorting_ms"] = sorting = _sorting_ms(worlds[0])
    figures["replan_median_sorts"] = figures["replan_median_ms"] / sorting
    figures["replan_p99_medians"] = figures["replan_p99_ms"] / figures["replan_median_ms"]
    figures["dense_lookups_ratio"] = figures["lookups_at_dense_plans_per_s"] / figures["lookups_per_s"]
    return figures


def _openings(policy: str) -> dict[str, float]:
    """Medians, the sizes in turn."""
    times = [[opening_s(size, policy) for size in OPENINGS] for _ in range(OPENED)]
    few, many = (float(np.median(column)) for column in zip(*times, strict=True))
    return {"open_1000_ms": 1000 * few, "open_10000_ms": 1000 * many, "open_ratio": many / few}


def run(say: Say) -> Measured:
    """Measure; about 20 seconds. Garbage is collected as in a coordinator."""
    with collecting_seldom():
        say(f"setting up {JOBS:,} jobs in {GROUPS} groups over {REGIONS:,} regions, with even and with skewed queues")
        worlds = (_world(skewed=False, jobs=JOBS, regions=REGIONS), _world(skewed=True, jobs=JOBS, regions=REGIONS))
        say("baseline: srsf")
        baseline = _figures("srsf", worlds)
        say("venn")
        figures = _figures("venn", worlds)
        say(f"opening {OPENINGS[0]:,} and {OPENINGS[1]:,} requests in one turn")
        figures |= _openings("venn")
        baseline |= _openings("srsf")
    return Measured("scheduler", figures, baseline, figures["lookups_per_s"] / baseline["lookups_per_s"])
