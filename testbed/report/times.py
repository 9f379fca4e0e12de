"""The parts of the time of jobs, and why they waited: the first section of every page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.report.comparison import MEAN_COLLECT, MEAN_DELAY, MEAN_JCT, Comparison, PolicyResult
from testbed.report.figures.drawing import DELAY, colour_of_page, job_colours
from testbed.report.figures.jobs import look
from testbed.report.waits import LEAST_S, in_short, longest
from testbed.report.words import duration, percent
from testbed.report.words import policy as short
from testbed.runfolder.summary import JobFigures

MOST_JOBS = 12  # that a page tells one by one
DEVICES, RESPONSES, BETWEEN = "waiting for devices", "waiting for responses", "between attempts"
WAITING_LOOK = f"background: {colour_of_page(DELAY)}"
COLLECTING_LOOK = "background: var(--rule)"
BETWEEN_LOOK = "background: var(--paper)"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the time of a job."""

    text: str
    share: float  # of the whole
    amount: str  # the same, as a time
    look: str  # of its bar, as a style sheet has it


@dataclass(frozen=True, slots=True)
class Times:
    """The time of one job, or of the jobs under one policy in the mean."""

    name: str
    sentence: str
    parts: tuple[Part, ...]  # they add up to the whole


def job_times(jobs: Sequence[JobFigures]) -> list[Times]:
    """The times of jobs, by arrival; of many jobs, those that waited longest for devices."""
    chosen = {job.name for job in sorted(jobs, key=lambda job: -job.delay_s)[:MOST_JOBS]}
    colours = job_colours([job.name for job in jobs])
    return [_job(job, colours) for job in jobs if job.name in chosen]


def policy_times(comparison: Comparison) -> list[Times]:
    """A job under each policy, in the mean."""
    return [_policy(result) for result in comparison.policies]


def whole_sentence(jobs: Sequence[JobFigures]) -> str:
    """A sentence of how all jobs together spent their time, and of the largest reason why they waited."""
    parts = [sum(job.delay_s for job in jobs), sum(job.collect_s for job in jobs), sum(_gaps(job) for job in jobs)]
    whole = sum(parts)
    if not whole:
        return ""
    devices, responses, between = (percent(part / whole) for part in parts)
    said = f"Jobs spent {devices} of their time {DEVICES}, {responses} {RESPONSES} and {between} {BETWEEN}."
    reasons = in_short((wait for job in jobs for wait in job.waits), ())
    if not reasons or percent(reasons[0].seconds / whole) == percent(0.0):
        return said
    return f"{said} The largest reason, {percent(reasons[0].seconds / whole)} of the time: {reasons[0].text}."


def _job(job: JobFigures, colours: dict[str, str]) -> Times:
    whole = job.delay_s + job.collect_s + _gaps(job)
    parts = []
    for wait in longest(job.waits):
        colour, opacity = look(wait, colours)
        parts.append((wait.text, wait.seconds, f"background: {colour_of_page(colour)}; opacity: {opacity}"))
    known = sum(seconds for _, seconds, _ in parts)
    left = max(0.0, job.delay_s - known)
    parts.append((f"{DEVICES}, for other reasons" if parts else DEVICES, left, WAITING_LOOK))
    parts += [(RESPONSES, job.collect_s, COLLECTING_LOOK), (BETWEEN, _gaps(job), BETWEEN_LOOK)]
    waited = f"{duration(job.delay_s)} ({percent(job.delay_s / whole if whole else 0.0)}) {DEVICES}"
    said = f"{duration(whole)}, of which {waited}." if job.finished else f"Not finished: {waited} so far."
    return Times(job.name, said, _parts(parts, whole))


def _policy(result: PolicyResult) -> Times:
    jct, delay, collect = (result.measures[each].mean for each in (MEAN_JCT, MEAN_DELAY, MEAN_COLLECT))
    parts = [
        (DEVICES, delay, WAITING_LOOK),
        (RESPONSES, collect, COLLECTING_LOOK),
        (BETWEEN, max(0.0, jct - delay - collect), BETWEEN_LOOK),
    ]
    said = f"{duration(jct)}, of which {duration(delay)} ({percent(delay / jct)}) {DEVICES}."
    return Times(short(result.policy), said, _parts(parts, jct))


def _parts(parts: Iterable[tuple[str, float, str]], whole: float) -> tuple[Part, ...]:
    """The parts with their shares, without those that a page would show as 0.0 s."""
    return tuple(
        Part(text, seconds / whole, duration(seconds), look) for text, seconds, look in parts if seconds >= LEAST_S
    )


def _gaps(job: JobFigures) -> float:
    return job.gaps_s or 0.0
