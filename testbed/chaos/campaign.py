"""Many worlds, one seed each, on several processes at once: until their hours are full, or a rule is broken."""

import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count, islice

from testbed.chaos import script, world
from testbed.chaos.outcome import FAULT, Outcome

SECONDS_PER_DAY = 86_400


@dataclass(slots=True)
class Campaign:
    """What came of the worlds so far."""

    first_seed: int
    seeds: int = 0
    virtual_s: float = 0.0
    took_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failed: Outcome | None = None  # the first that broke a rule

    @property
    def hours(self) -> float:
        return self.virtual_s / 3600

    @property
    def faults(self) -> int:
        return sum(times for kind, times in self.counts.items() if kind.startswith(FAULT))

    @property
    def hours_per_s(self) -> float:
        return self.hours / self.took_s if self.took_s > 0 else 0.0

    def add(self, outcome: Outcome) -> None:
        """Add a world."""
        self.seeds += 1
        self.virtual_s += outcome.virtual_s
        self.counts.update(outcome.counts)
        if outcome.violation is not None and self.failed is None:
            self.failed = outcome


def seed_of_today() -> int:
    """The first seed of a day, in UTC: other worlds every day, and the same all day."""
    return int(time.time()) // SECONDS_PER_DAY * 1_000_000


def run_seed(seed: int, hours: float) -> Outcome:
    """Live through the world of one seed, in a process of its own or in this one."""
    return world.run(script.generate(seed, hours))


def run_campaign(
    campaign: Campaign,
    *,
    each_hours: float,
    jobs: int,
    hours: float | None = None,
    seeds: int | None = None,
    seconds: float | None = None,
    progress: Callable[[Campaign], None] = lambda campaign: None,
) -> None:
    """Run worlds of consecutive seeds, ``jobs`` at once, until one of the bounds is reached or a rule is broken.

    ``hours``: virtual ones in all; ``seeds``: so many worlds; ``seconds``: of real time, after which no world begins.
    Worlds count in the order of their seeds, so the first failure is that of the smallest seed that has failed.
    """
    began = time.monotonic()

    def enough() -> bool:
        over = (hours is not None and campaign.hours >= hours) or (seconds is not None and campaign.took_s >= seconds)
        return over or campaign.failed is not None

    for outcome in _outcomes(islice(count(campaign.first_seed), seeds), each_hours, jobs, enough):
        campaign.add(outcome)
        campaign.took_s = time.monotonic() - began
        progress(campaign)


def _outcomes(seeds: Iterator[int], hours: float, jobs: int, enough: Callable[[], bool]) -> Iterator[Outcome]:
    """The outcomes in the order of the seeds, until there are enough; those that have begun then are still given."""
    if jobs == 1:
        for seed in seeds:
            yield run_seed(seed, hours)
            if enough():
                return
        return
    context = multiprocessing.get_context("spawn")  # a fork would take open connections and threads along
    with ProcessPoolExecutor(jobs, context, initializer=_ignore_interrupt) as pool:
        waiting: dict[int, Future[Outcome]] = {}
        try:
            for seed in islice(seeds, 2 * jobs):
                waiting[seed] = pool.submit(run_seed, seed, hours)
            while waiting:
                first = min(waiting)
                wait([waiting[first]], return_when=FIRST_COMPLETED)
                yield waiting.pop(first).result()
                if enough():
                    return
                for seed in islice(seeds, 1):
                    waiting[seed] = pool.submit(run_seed, seed, hours)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _ignore_interrupt() -> None:
    """Leave Ctrl-C to the process that gathers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
