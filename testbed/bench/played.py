"""An instance played on the real engine: its regions, its measured supply, its plans, its matching.

Before the requests open, devices come and go in the instance's own cycle for two supply windows of one cycle each. So
what the engine has measured is the true supply, and each further window measures the same again.
"""

from fractions import Fraction
from itertools import count

from coordinator.engine.effects import Effect, FillAttempt, OfferLease
from coordinator.engine.engine import Engine
from coordinator.engine.events import (
    AttemptOpened,
    DeviceCheckedIn,
    DriverFollowed,
    Event,
    JobSubmitted,
    LeaseAccepted,
    SessionEnded,
    TimePassed,
    TurnEnded,
)
from coordinator.engine.ids import DeviceId, JobId, SessionSeq
from coordinator.engine.model import EngineSettings, JobSpec, SessionEnd
from coordinator.engine.plan import Policy
from coordinator.engine.requirements import Any, Capabilities, Comparison
from testbed.bench.instances import Instance

LONG_S = 1e9
BEFORE_TICK_S = 0.75  # a device comes so long before a whole second, so never at the moment of a tick


def fills(instance: Instance, policy: Policy, seed: int = 0) -> list[int]:
    """Seconds from the opening at which each request has all its devices. They keep them."""
    return _Game(instance, policy, seed).play()


class _Game:
    def __init__(self, instance: Instance, policy: Policy, seed: int) -> None:
        self._instance = instance
        self._cycle_s = len(instance.cycle)
        self._sessions = 0
        self._engine = Engine(
            EngineSettings(
                seed=seed,
                policy=policy.name,
                supply_window_s=float(self._cycle_s),
                supply_buckets=1,
                liveness_s=LONG_S,
                accept_timeout_s=LONG_S,
            ),
            policy,
        )

    def play(self) -> list[int]:
        warm = 2 * self._cycle_s
        for second in range(1, warm + 1):
            self._device(second)
            self._leaves()
        opening = warm - BEFORE_TICK_S
        jobs = self._open(opening)
        found: dict[JobId, int] = {}
        for second in count(1):
            effects = self._device(warm + second)
            found |= {effect.job: second for effect in effects if isinstance(effect, FillAttempt)}
            offers = [effect for effect in effects if isinstance(effect, OfferLease)]
            for offer in offers:
                self._handle(LeaseAccepted(offer.session, offer.lease), warm + second - BEFORE_TICK_S)
            if not offers:
                self._leaves()
            if len(found) == len(jobs):
                break
        return [found[job] for job in jobs]

    def _open(self, now: float) -> list[JobId]:
        jobs = [JobId(f"bench/{number:02}/1") for number in range(len(self._instance.demands))]
        for job, demand, regions in zip(jobs, self._instance.demands, self._instance.eligible, strict=True):
            self._handle(JobSubmitted(_spec(job, demand, regions), 1), now)
            self._handle(DriverFollowed(job, 1), now)
        for job in jobs:
            self._handle(AttemptOpened(job, 1, 1, 1, None), now)
        return jobs

    def _device(self, second: int) -> list[Effect]:
        """The device of that second since the start of all."""
        now = second - BEFORE_TICK_S
        while (due := self._engine.next_deadline()) is not None and due < now:
            self._handle(TimePassed(), due)
        self._sessions += 1
        session, device = SessionSeq(self._sessions), DeviceId(f"device-{self._sessions}")
        region = frozenset({str(self._instance.region(second))})
        return self._handle(DeviceCheckedIn(session, device, "", 1, Capabilities(labels={"region": region})), now)

    def _leaves(self) -> None:
        """The device that came last."""
        now = self._sessions - BEFORE_TICK_S
        self._handle(SessionEnded(SessionSeq(self._sessions), SessionEnd.GOODBYE_SESSION_OVER), now)

    def _handle(self, event: Event, now: float) -> list[Effect]:
        """In a turn of its own."""
        effects = self._engine.handle(event, now)
        if self._engine.unsettled:
            effects += self._engine.handle(TurnEnded(), now)
        return effects


def _spec(job: JobId, demand: int, regions: frozenset[int]) -> JobSpec:
    """Requests that can use the same regions are of one group."""
    return JobSpec(
        job=job,
        requirement=Any(tuple(Comparison("region", "=", str(region)) for region in sorted(regions))),
        requirement_name="".join(str(region) for region in sorted(regions)),
        rounds=None,
        demand=demand,
        min_response=Fraction(1),
        over_commit=Fraction(0),
        deadline_s=LONG_S,
        lease_s=LONG_S,
    )
