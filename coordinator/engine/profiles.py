"""Response profiles: how long the devices of a job take, from the grant of a lease to the record of its response.

Integer counts on the scale of ``scale``, one per tier of devices and one over all tiers. The tail is a percentile p:
the upper edge of the first bin at which the count reaches ceil(p n / 100). When the total n of one reaches FULL its
bins are all halved, rounded down, so that it follows its job.

- p is that of the response that closes a round, the K-th of C, and at most 95: what comes later is not waited for. (In
  Liu et al., MLSys 2025, it is 95 always, which promises more of a fast tier than a round that closes early can gain.)
- A response counts when its driver records it COUNTED or STRAGGLER while the lease is live.
- It counts for the tier that its device then has, if it has one. It counts over all tiers only if its attempt was never
  restricted to one: what a tier is held against would otherwise become that tier's own figure.
- A place that was given back without a response counts as well, apart from the others (``places``): it is leased again,
  so it takes what the lost lease took, and then once more what places take. Their quantiles are gone through in turn
  for that, so that a place that is lost twice, or three times, has its part in them.
- A tail of fewer than ENOUGH responses is not known. A tier whose tail is not known is taken to be as slow as all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from coordinator.engine.scale import BINS, EDGES, bin_of

FULL = 2_000
ENOUGH = 20  # fewer, and the percentile is their maximum
STRIDE, TURN = 377, 610  # Fibonacci numbers: any few multiples of their quotient lie evenly between whole numbers
MOST_PERCENT = 95  # beyond it single devices decide


class Counts(Protocol):
    """Times by bin: a list, or an array where this is compiled."""

    def __getitem__(self, at: int, /) -> int: ...


class Edges(Protocol):
    """Upper edges of bins, seconds: a tuple, or an array where this is compiled."""

    def __getitem__(self, at: int, /) -> float: ...


def bin_at(counts: Counts, wanted: int, at: int, upto: int) -> tuple[int, int]:
    """The first bin with which so many of the times are reached, and how many are; 0 < wanted <= all of them.

    Sought from bin ``at``, with which ``upto`` of them are.
    """
    while upto < wanted:
        at += 1
        upto += counts[at]
    while upto - counts[at] >= wanted:
        upto -= counts[at]
        at -= 1
    return at, upto


@dataclass(slots=True)
class Profile:
    """Times counted on the scale; who asks for a quantile begins at the last one, which is seldom far away."""

    counts: list[int] = field(default_factory=lambda: [0] * BINS)
    total: int = 0  # of all bins, < FULL
    at: int = field(default=0, compare=False)  # bin of the last quantile that was asked for
    upto: int = field(default=0, compare=False)  # the sum of the bins up to ``at``
    percent: int = MOST_PERCENT  # of the tail, in 1 .. MOST_PERCENT

    def add(self, bin_: int) -> None:
        self.counts[bin_] += 1
        self.total += 1
        if bin_ <= self.at:
            self.upto += 1
        if self.total == FULL:
            self.counts = [count // 2 for count in self.counts]
            self.total, self.upto = sum(self.counts), sum(self.counts[: self.at + 1])

    def quantile(self, part: int, whole: int) -> float:
        """The least edge that at least ``part / whole`` of the times did not exceed, seconds; 0 < part <= whole."""
        return EDGES[self._reach(-(-part * self.total // whole))]

    @property
    def tail_s(self) -> float:
        """The percentile of its times that closes a round, seconds; 0: not known."""
        return self.quantile(self.percent, 100) if self.total >= ENOUGH else 0.0

    def _reach(self, wanted: int) -> int:
        self.at, self.upto = bin_at(self.counts, wanted, self.at, self.upto)
        return self.at


class ResponseTimes:
    """What a policy sees of a job's profiles, as they are when it looks; None where fewer than ENOUGH are known."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[int], Profile] | None = None) -> None:
        """``read``: the profile over all tiers (0), of a tier (1 + tier), or of places (-1). None: no responses."""
        self._read = read

    def of_tier(self, tier: int = -1) -> Profile | None:
        """The profile of a tier; over all tiers for -1, and where the tier has too few responses."""
        if self._read is None:
            return None
        for row in (1 + tier, 0) if tier >= 0 else (0,):
            if (found := self._read(row)).total >= ENOUGH:
                return found
        return None

    def upto_tier(self, tier: int) -> Profile | None:
        """The times of a tier and of all faster ones."""
        if self._read is None:
            return None
        some = [self._read(1 + each) for each in range(tier + 1)]
        total = sum([one.total for one in some])
        counts = [sum(each) for each in zip(*[one.counts for one in some], strict=True)]
        return Profile(counts, total, upto=counts[0]) if total >= ENOUGH else None

    def until_response(self, tier: int) -> Profile | None:
        """How long a place takes to bring a response: losses included, but not for a tier with enough responses."""
        if self._read is None or self._read(0).total < ENOUGH:
            return None
        if tier >= 0 and (found := self._read(1 + tier)).total >= ENOUGH:
            return found
        return self._read(-1)


@dataclass(slots=True)
class Profiles:
    """The response times of one job."""

    everyone: Profile
    tiers: list[Profile]
    places: Profile  # until a place brings a response: as ``everyone``, and what was lost

    def add(self, seconds: float, tier: int, *, chosen: bool) -> None:
        """Count a response of a device of this tier, or NO_TIER; ``chosen``: its attempt was restricted, ever."""
        bin_ = bin_of(seconds)
        if tier >= 0:
            self.tiers[tier].add(bin_)
        if not chosen:
            self.everyone.add(bin_)
            self.places.add(bin_)

    def lose(self, seconds: float, *, chosen: bool) -> None:
        """Count a place given back without a response, so long after it was leased; not while few are known."""
        places = self.places
        if places.total >= ENOUGH and not chosen:
            places.add(bin_of(seconds + places.quantile(1 + places.total * STRIDE % TURN, TURN)))

    def times(self) -> ResponseTimes:
        return ResponseTimes(self._row)

    def _row(self, row: int) -> Profile:
        return self.places if row < 0 else self.tiers[row - 1] if row else self.everyone

    def tails(self) -> tuple[float, ...]:
        """The tails over all tiers, then of each tier, seconds; 0: not known."""
        everyone = self.everyone.tail_s
        return (everyone, *[tier.tail_s or everyone for tier in self.tiers])


def closing_percent(needed: int, places: int) -> int:
    """The percentile of the response that closes a round that takes ``needed`` of ``places``."""
    return min(-(-100 * needed // places), MOST_PERCENT)


def new_profiles(tiers: int, percent: int = MOST_PERCENT) -> Profiles:
    one = partial(Profile, percent=percent)
    return Profiles(one(), [one() for _ in range(tiers)], one())
