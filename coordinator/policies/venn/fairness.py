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
from collections.abc import Callable, Sequence

from coordinator.engine.plan import RequestView, View
from coordinator.policies.order import left_of_job

LEAST, MOST = 0.01, 100.0
MOST_EXPONENT = 50.0  # beyond it powers of the ratios are no longer numbers


class FairShares:
    """How far the jobs of one view are with their fair shares."""

    def __init__(self, view: View, exponent: float, left: Callable[[RequestView], int] = left_of_job) -> None:
        """``left``: what is left to do of a request, or of its job."""
        self._view = view
        self._left = left
        self._exponent = exponent
        self._supply = {group.group: sum(view.supply.get(one, 0) for one in group.regions) for group in view.groups}
        self._times = {request.job: self._time(request) for request in view.requests}

    def demand(self, request: RequestView) -> float:
        """The demand by which a request is ordered in its group."""
        return self._left(request) / power(share(*self._times[request.job]), self._exponent)

    def weight(self, queue: Sequence[RequestView]) -> float:
        """The weight of each of its requests, held against those of another queue."""
        waited = fair = 0.0
        for request in queue:  # from left to right: ``sum`` rounds otherwise on newer Pythons
            times = self._times[request.job]
            waited, fair = waited + times[0], fair + times[1]
        return power(share(waited, fair), self._exponent)

    def _time(self, request: RequestView) -> tuple[float, float]:
        """Since it arrived, and its fair one; infinite where no device for it was seen."""
        view, job = self._view, self._view.jobs[request.job]
        supply, tail_s = self._supply[request.group], job.tails_s[0] if job.tails_s else 0.0
        return view.now - job.arrival, fair_s(
            len(view.jobs), job.rounds, job.places, view.supply_span_s, supply, tail_s
        )


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
