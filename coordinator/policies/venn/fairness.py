"""The fairness knob: jobs that are past their fair share of time move forward.

With M jobs unfinished, a job's fair time is T = M x sd, where sd is the time that it would take alone: for each of its
rounds, its places / the supply of all that its group can use, plus the tail of its response times over all tiers (0
until it is known). Rounds are all of them, done or not; where their number is not known, those begun so far, so that
the fair time grows with what the job has had. With t the time since it arrived, r = t / T says how far it is: above 1
it is past its share.

For a knob e >= 0, what orders a request in its group is its remaining demand x r^-e, and a group's queue counts for its
length x (sum of t / sum of T)^e over the jobs queued there. Ratios are kept within [0.01, 100]. e = 0 is Venn as it
is; the greater e, the more r alone decides.
"""

import math
from collections.abc import Sequence

import numpy as np

from coordinator.engine.plan import Integers, Reals, View
from coordinator.policies.venn.tiers import total

LEAST, MOST = 0.01, 100.0
MOST_EXPONENT = 50.0  # beyond it powers of the ratios are no longer numbers


class FairShares:
    """How far the jobs of one view are with their fair shares."""

    def __init__(self, view: View, exponent: float) -> None:
        self._exponent = exponent
        supply = [total(view.supply, group.regions) for group in view.groups]
        # Of each request: since its job arrived, and its fair time; infinite where no device for it was seen.
        self._times = [
            (
                view.now - job.arrival,
                fair_s(
                    len(view.jobs),
                    job.rounds,
                    job.places,
                    view.supply_span_s,
                    supply[group],
                    job.tails_s[0] if job.tails_s else 0.0,
                ),
            )
            for job, group in zip(
                map(view.jobs.__getitem__, view.requests.jobs), view.requests.group.tolist(), strict=True
            )
        ]

    def demands(self, left: Integers) -> Reals:
        """The demands by which requests are ordered in their groups. ``left``: what each has left to do."""
        powers = [power(share(*times), self._exponent) for times in self._times]
        return left / np.array(powers, np.float64)

    def weight(self, queue: Sequence[int]) -> float:
        """The weight of each request of a queue, held against those of another. ``queue``: places in the view."""
        waited = fair = 0.0
        for place in queue:  # from left to right: ``sum`` rounds otherwise on newer Pythons
            times = self._times[place]
            waited, fair = waited + times[0], fair + times[1]
        return power(share(waited, fair), self._exponent)


# The simulator compiles the functions below.


def fair_s(jobs: int, rounds: int, places: int, span_s: float, supply: float, tail_s: float) -> float:
    """The fair time of a job among so many; ``supply``: check-ins of devices for it in ``span_s`` seconds."""
    return jobs * (rounds * (places * span_s / supply + tail_s)) if supply > 0 else math.inf


def share(waited: float, fair: float) -> float:
    """Compute how far a job, or a queue, is with its fair share of time."""
    return min(max(waited / fair, LEAST), MOST) if fair > 0.0 else LEAST


def power(base: float, exponent: float) -> float:
    """``base`` > 0 to the power of 0 to MOST_EXPONENT, by products and square roots alone.

    Those are rounded alike by every machine, library and compiler, which powers are not: so this is the one function
    for all of them.
    """
    whole = int(exponent)
    part, root, result, factor = exponent - whole, base, 1.0, base
    while whole > 0:
        if whole % 2 == 1:
            result *= factor
        factor *= factor
        whole //= 2
    while part > 0.0:
        root, part = math.sqrt(root), part * 2.0
        if part >= 1.0:
            result, part = result * root, part - 1.0
    return result
