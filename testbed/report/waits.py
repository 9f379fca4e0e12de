"""Why jobs waited: every second of scheduling delay, by what ended it or stood in its way.

A delay is cut at each lease that went to a device that the job could have used. A piece that ends with the job's own
lease was spent on *no eligible device free*; one that ends with another job's lease was spent *behind* that job;
a piece in a pause was spent on its reason. The pieces add up to the delay.
"""

from bisect import bisect_left
from collections import defaultdict

from coordinator.engine.ids import DeviceId, JobId
from testbed.report.regions import eligible
from testbed.report.story import AttemptStory, JobStory, LeaseStory, Story
from venn.wire.text import printable

NO_DEVICE = "no eligible device free"


def waits(story: Story) -> dict[str, dict[str, float]]:
    """Job name -> reason -> seconds of delay, the longest first."""
    leases = sorted(story.leases.values(), key=lambda lease: (lease.offered_at, lease.lease))
    times = [lease.offered_at for lease in leases]
    found = {}
    for key, job in story.jobs.items():
        useful = _Eligible(story, key)
        seconds: defaultdict[str, float] = defaultdict(float)
        for attempt in job.attempts:
            delay, _ = attempt.split(story.ended_s)
            filled = attempt.opened_at + delay
            between = leases[bisect_left(times, attempt.opened_at) : bisect_left(times, filled)]
            for start, end, reason in _pieces(story, attempt, [one for one in between if useful(one)], filled):
                _charge(seconds, job, start, end, reason)
        found[job.name] = {
            reason: seconds[reason] for reason in sorted(seconds, key=lambda one: -seconds[one]) if seconds[reason] > 0
        }
    return found


def said_by_plans(story: Story) -> list[tuple[str, str, float]]:
    """Job name, what a plan said of its waiting, and for how much of its delay that stood; the longest first."""
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    names = {key: job.name for key, job in story.jobs.items()}
    for place, (since, reasons) in enumerate(story.reasons):
        until = story.reasons[place + 1][0] if place + 1 < len(story.reasons) else story.ended_s
        for key, why in reasons.items():
            if key in story.jobs:
                seconds[names[key], _with_names(why, names)] += _delayed(story.jobs[key], since, until, story.ended_s)
    found = [(job, why, spent) for (job, why), spent in seconds.items() if spent > 0]
    return sorted(found, key=lambda entry: (-entry[2], entry[:2]))


def _delayed(job: JobStory, since: float, until: float, ended_s: float) -> float:
    """The part of a span in which an attempt of the job was filling."""
    fillings = ((attempt.opened_at, attempt.opened_at + attempt.split(ended_s)[0]) for attempt in job.attempts)
    return sum(max(0.0, min(until, end) - max(since, start)) for start, end in fillings)


def _with_names(why: str, names: dict[JobId, str]) -> str:
    """Jobs by their names, not their keys."""
    for key, name in names.items():
        why = why.replace(key, name)
    return printable(why)


def _pieces(
    story: Story, attempt: AttemptStory, leases: list[LeaseStory], filled: float
) -> list[tuple[float, float, str]]:
    pieces = []
    since = attempt.opened_at
    for lease in leases:
        reason = NO_DEVICE if lease.job == attempt.job else f"behind {story.jobs[lease.job].name}"
        pieces.append((since, lease.offered_at, reason))
        since = lease.offered_at
    pieces.append((since, filled, NO_DEVICE))
    return pieces


def _charge(seconds: dict[str, float], job: JobStory, start: float, end: float, reason: str) -> None:
    """Charge a piece to its reason, except where the job was paused."""
    spent: defaultdict[str, float] = defaultdict(float)
    for since, until, why in job.pauses:
        overlap = min(end, until if until is not None else end) - max(start, since)
        if overlap > 0:
            spent[f"paused: {why}"] += overlap
    spent[reason] += (end - start) - sum(spent.values())
    for name, one in spent.items():
        seconds[name] += one


class _Eligible:
    """Whether a lease went to a device that a job could have used; remembered per device."""

    def __init__(self, story: Story, job: JobId) -> None:
        self._story, self._job = story, job
        self._known: dict[DeviceId, bool] = {}

    def __call__(self, lease: LeaseStory) -> bool:
        if lease.device not in self._known:
            self._known[lease.device] = eligible(self._story, lease.device, self._job)
        return self._known[lease.device]
