"""Why jobs and devices of a recorded run waited.

A job's scheduling delay is attributed by ``coordinator.engine.explain``, in parts that add up. Each moment of it is
divided among the eligible devices that are present: one that is present for ``dt`` beside ``n - 1`` others stands for
``dt / n`` of the wait. The words of plans are in no journal, so its events go through a fresh engine again.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from coordinator.engine.effects import AdoptPlan
from coordinator.engine.engine import Engine
from coordinator.engine.events import PolicyChanged
from coordinator.engine.explain import Part, Why, attribute, holder
from coordinator.engine.ids import DeviceId, JobId, job_name
from coordinator.engine.model import AttemptStatus, SessionEnd
from coordinator.engine.plan import Policy
from coordinator.engine.requirements import Requirement
from coordinator.policies.registry import PolicyError, in_file, load_policy, split, summary
from testbed.report.history import AttemptHistory, History, JobHistory, LeaseHistory
from testbed.report.host import modelled_s
from testbed.report.words import counted, some, with_units
from testbed.runfolder.journal import Journal
from testbed.runfolder.summary import CLOCK, Waited
from venn.wire.errors import UsageError
from venn.wire.text import did_you_mean, printable

Span = tuple[float, float]  # engine seconds
OTHERS = JobId("other jobs")
MOST_NAMED = 4  # parts with a job's name, in a table
LEAST_S = 0.05  # a table would show less as 0.0


def longest(waited: Sequence[Waited]) -> list[Waited]:
    """The longest waits of one job, as many as a table has room for."""
    short = shortened(waited, [wait.text for wait in waited if wait.job][:MOST_NAMED])
    return [wait for wait in short if wait.seconds >= LEAST_S]


def rules(waited: Iterable[Waited]) -> dict[str, str]:
    """The rules by which policies gave devices to other jobs, by policy, where they are known."""
    found = {wait.rule: rule_of(wait.rule) for wait in waited if wait.why is Why.GIVEN}
    return {policy: rule for policy, rule in sorted(found.items()) if rule}


def shortened(waited: Iterable[Waited], named: Collection[str]) -> list[Waited]:
    """The waits summed by text, longest first; those that name a job and are not in ``named`` count as other jobs."""
    found: dict[str, Waited] = {}
    for wait in waited:
        others = wait.job and wait.text not in named
        job, text = ("", Part(wait.why, OTHERS, wait.rule).text) if others else (wait.job, wait.text)
        before = found[text].seconds if text in found else 0.0
        found[text] = Waited(wait.why, job, wait.rule, text, before + wait.seconds)
    return sorted(found.values(), key=lambda one: -one.seconds)


def waits(history: History) -> dict[str, tuple[Waited, ...]]:
    """The waits of each job by its name, longest first. They add up to the job's scheduling delay."""
    policies = [(0.0, history.journal.settings.policy), *history.policies]
    eligible: dict[Requirement, _EligibleDevices] = {}
    found = {}
    for job in history.jobs.values():
        need = job.spec.requirement
        devices = eligible.get(need) or eligible.setdefault(need, _EligibleDevices(history, need, policies))
        seconds: defaultdict[Part, float] = defaultdict(float)
        for attempt in job.attempts:
            for part, spent in devices.attributed(job, attempt).items():
                seconds[part] += spent
        ordered = sorted(seconds.items(), key=lambda one: -one[1])
        found[job.name] = tuple(_waited(part, spent) for part, spent in ordered)
    return found


def _waited(part: Part, seconds: float) -> Waited:
    name = "" if part.job is None else job_name(part.job)
    return Waited(part.why, name, part.rule, part.text, seconds)


class _EligibleDevices:
    """The devices that may serve a requirement: when they were present, and whom they worked for."""

    def __init__(self, history: History, need: Requirement, policies: list[tuple[float, str]]) -> None:
        able = {device for device, capabilities in history.capabilities.items() if need.matches(device, capabilities)}
        self._until = history.ended_s
        self._policies = policies
        self._presence = _Presence(_changes(history, able))
        leases = [lease for lease in history.leases.values() if lease.device in able]
        self._leases = sorted(leases, key=lambda lease: lease.offered_at)
        self._longest = max((self._freed(lease) - lease.offered_at for lease in leases), default=0.0)

    def attributed(self, job: JobHistory, attempt: AttemptHistory) -> dict[Part, float]:
        """The scheduling delay of an attempt, seconds by reason."""
        delay, _ = attempt.split(self._until)
        if not delay:
            return {}
        window = (attempt.opened_at, attempt.opened_at + delay)
        own, others = self._held_in(attempt, window)
        free = self._presence.within(window, own)
        absent, busy = 0.0, defaultdict[Part, float](float)
        for span in _without([(start, end_by(end, self._until)) for start, end, _ in job.pauses], window):
            absent += free.nobody(*span)
            for lease, held in others:
                rule = self._policy(lease.offered_at)
                part = holder(attempt.job, attempt.opened_at, job=lease.job, granted_at=lease.offered_at, rule=rule)
                busy[part] += free.share(*_cut(held, span))
        paused = {Part(Why.PAUSED, rule=why): spent for why, spent in _paused(job, window).items()}
        return attribute(delay, absent=absent, busy=busy, paused=paused)

    def _held_in(self, attempt: AttemptHistory, window: Span) -> tuple[list[Span], list[tuple[LeaseHistory, Span]]]:
        """The spans in which devices were busy that touch the window: for this attempt, and for what else."""
        first = bisect_left(self._leases, window[0] - self._longest, key=_offered_at)
        last = bisect_left(self._leases, window[1], key=_offered_at)
        held = [(lease, span) for lease in self._leases[first:last] for span in _held(lease, self._until)]
        mine = {lease.lease for lease in attempt.leases}
        own = [span for lease, span in held if lease.lease in mine]
        return own, [(lease, span) for lease, span in held if lease.lease not in mine]

    def _freed(self, lease: LeaseHistory) -> float:
        return max(end for _, end in _held(lease, self._until))

    def _policy(self, at: float) -> str:
        return self._policies[bisect_right(self._policies, at, key=lambda one: one[0]) - 1][1]


class _Presence:
    """How many devices were present, as two integrals over time: of 1 / n, and of whether nobody was."""

    def __init__(self, changes: Mapping[float, int]) -> None:
        """``changes`` of their number, by time."""
        self._changes = changes
        self._times = sorted(changes)
        self._present = list(accumulate(changes[at] for at in self._times))
        steps = [(after - before, n) for (before, after), n in zip(pairwise(self._times), self._present, strict=False)]
        self._shares = list(accumulate((long / n if n else 0.0 for long, n in steps), initial=0.0))

    def within(self, window: Span, own: Iterable[Span]) -> "_Presence":
        """The presence in a window, without spans that are somebody's own."""
        start, end = window
        changes = defaultdict[float, int](int, {start: self._number(start), end: 0})
        for at in self._times[bisect_right(self._times, start) : bisect_left(self._times, end)]:
            changes[at] += self._changes[at]
        for span in own:
            since, until = _cut(span, window)
            if until > since:
                changes[since] -= 1
                changes[until] += 1
        return _Presence(changes)

    def share(self, start: float, end: float) -> float:
        """The share of one that is present all the while, seconds."""
        return self._share_to(end) - self._share_to(start) if end > start else 0.0

    def nobody(self, start: float, end: float) -> float:
        """The seconds in which nobody was present."""
        cuts = [start, *self._times[bisect_right(self._times, start) : bisect_left(self._times, end)], end]
        return sum(after - before for before, after in pairwise(cuts) if not self._number(before))

    def _number(self, at: float) -> int:
        place = bisect_right(self._times, at) - 1
        return self._present[place] if place >= 0 else 0

    def _share_to(self, at: float) -> float:
        place = bisect_right(self._times, at) - 1
        if place < 0:
            return 0.0
        n = self._present[place]
        return self._shares[place] + ((at - self._times[place]) / n if n else 0.0)


def _offered_at(lease: LeaseHistory) -> float:
    return lease.offered_at


def _changes(history: History, able: set[DeviceId]) -> dict[float, int]:
    """The changes of the number of devices present, by time; two sessions of a device at a time are one."""
    changes: defaultdict[float, int] = defaultdict(int)
    until: dict[DeviceId, float] = {}
    for session in sorted(history.sessions.values(), key=lambda one: one.started_at):
        device, end = session.device, end_by(session.ended_at, history.ended_s)
        start = max(session.started_at, until.get(device, 0.0))
        if device in able and end > start:
            changes[start] += 1
            changes[end] -= 1
            until[device] = end
    return changes


def _held(lease: LeaseHistory, until: float) -> Iterator[Span]:
    """The spans in which its device was present and worked for it, or had its offer, until it was free again."""
    freed = min(end_by(lease.ended_at, until), end_by(lease.done_at, until))
    if not lease.spans:
        yield lease.offered_at, freed
    for place, (start, end) in enumerate(lease.spans):
        yield (start if place else lease.offered_at), min(end_by(end, until), freed)


def _paused(job: JobHistory, window: Span) -> dict[str, float]:
    """Seconds of pauses by reason; of pauses at the same time the first one counts."""
    spent: defaultdict[str, float] = defaultdict(float)
    before: list[Span] = []
    for start, end, why in job.pauses:
        span = _cut((start, end_by(end, window[1])), window)
        spent[why] += sum(to - since for since, to in _without(before, span))
        before.append(span)
    return spent


def _without(holes: list[Span], window: Span) -> Iterator[Span]:
    """The parts of a span that are in none of ``holes``."""
    at = window[0]
    for start, end in sorted(holes):
        if start > at and at < window[1]:
            yield at, min(start, window[1])
        at = max(at, end)
    if at < window[1]:
        yield at, window[1]


def _cut(span: Span, window: Span) -> Span:
    return max(span[0], window[0]), min(span[1], window[1])


def end_by(end: float | None, until: float) -> float:
    """The end of a span; ``until`` where it is still open."""
    return until if end is None else end


Told = tuple[float, Mapping[JobId, str]]  # engine seconds, job -> why its request waits


def plan_reasons(journal: Journal) -> list[Told]:
    """The reasons that plans gave, each unless the one before gave the same.

    It breaks off at a policy that is not installed here, or is in a file: a report runs no code that a run names.
    """
    if not journal.lives:
        return list(_reasons_of(journal, 0.0))
    return [
        one
        for life, part in zip(journal.lives, journal.parts, strict=True)
        for one in _reasons_of(part, life.started_s - part.started_s)
    ]


def _reasons_of(journal: Journal, shift_s: float) -> Iterator[Told]:
    """The reasons of plans in one life of the coordinator; ``shift_s`` is added to its times."""
    before: Mapping[JobId, str] = {}
    policy = _installed(journal.settings.policy)
    if policy is None:
        return
    engine = Engine(journal.settings, policy)
    for entry in journal.entries:
        if isinstance(entry.event, PolicyChanged):
            policy = _installed(entry.event.policy)
            if policy is None:
                return
            engine.set_policy(policy)
        effects = engine.handle(entry.event, entry.t)
        if any(isinstance(effect, AdoptPlan) for effect in effects) and engine.plan.reasons != before:
            before = engine.plan.reasons
            yield entry.t + shift_s, before


def rule_of(policy: str) -> str:
    """The one-line description of a policy; empty if it is not installed here, or is in a file."""
    return "" if _installed(policy) is None else summary(policy)


def _installed(name: str) -> Policy | None:
    file, _ = in_file(split(name)[0])
    try:
        return None if file is not None else load_policy(name)
    except PolicyError:
        return None


MOST_LINES = 200


@dataclass(frozen=True, slots=True)
class Line:
    """An event in the history of a job or a device."""

    at_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job or a device waits, and its history."""

    subject: str
    state: str
    reasons: tuple[str, ...]
    history: tuple[Line, ...]  # oldest first; of a long one, the latest lines
    clock: str = CLOCK  # what ``at_s`` counts


def explain(history: History, subject: str) -> Explanation:
    """Explains a job, by its name or key, or a device, by its id. Raises UsageError if the run knows neither."""
    for key, job in history.jobs.items():
        if subject in (key, job.name):
            return _job(history, key, job)
    if subject in history.capabilities:
        return _device(history, DeviceId(subject))
    jobs, devices = [job.name for job in history.jobs.values()], list(history.capabilities)
    message = f"no job and no device is called {printable(subject, 128)!r}"
    all_known = f"known are {some('job', jobs)} and {some('device', devices)}"
    raise UsageError("UNKNOWN_SUBJECT", message, fix=did_you_mean(subject, [*jobs, *devices]) or all_known)


def _job(history: History, key: JobId, job: JobHistory) -> Explanation:
    waited = waits(history)[job.name]
    reasons = [f"{wait.seconds:.1f} s of its delay: {wait.text}" for wait in longest(waited)]
    reasons += [f"the rule of {policy}: {rule}" for policy, rule in rules(waited).items()]
    able = sum(history.eligible(device, key) for device in history.capabilities)
    reasons.append(f"{counted(able, 'device')} of {len(history.capabilities)} could serve it")
    reasons_of_plans = plan_reasons(history.journal) if job.end is None else []
    if reasons_of_plans and (last := reasons_of_plans[-1][1].get(key)):
        reasons.append(f"the last plan said: {printable(last)}")
    lines = [
        Line(
            job.arrived_at,
            "ARRIVED",
            f"asks for {job.spec.demand} devices a round: {with_units(str(job.spec.requirement))}",
        )
    ]
    for attempt in job.attempts:
        what = f"round {attempt.round}, attempt {attempt.attempt}"
        lines.append(Line(attempt.opened_at, "OPEN", what))
        if attempt.filled_at is not None:
            lines.append(Line(attempt.filled_at, "FILLED", f"{what}: {attempt.places} places"))
        if attempt.ended_at is not None:
            kind = "CLOSED" if attempt.status is AttemptStatus.CLOSED else "ABORT"
            why = str(attempt.reason).replace("_", " ")
            said = f"{what}: {attempt.responses} of {attempt.responses_needed} responses ({why})"
            lines.append(Line(attempt.ended_at, kind, said))
    for since, until, why in job.pauses:
        lines.append(Line(since, "PAUSED", why))
        if until is not None:
            lines.append(Line(until, "RESUMED", ""))
    if job.ended_at is not None:
        lines.append(Line(job.ended_at, "ENDED", f"{job.end}{': ' + printable(job.message) if job.message else ''}"))
    return Explanation(job.name, str(job.end or "unfinished"), tuple(reasons), _ordered(lines))


def _device(history: History, device: DeviceId) -> Explanation:
    sessions = [one for one in history.sessions.values() if one.device == device]
    leases = [one for one in history.leases.values() if one.device == device]
    jobs = [job.name for key, job in history.jobs.items() if history.eligible(device, key)]
    ends = Counter(str(lease.end or "live") for lease in leases)
    held = " + ".join(f"{count} {end}" for end, count in ends.most_common())
    reasons = [
        f"it could serve {', '.join(jobs) or 'no job'}",
        f"{counted(len(sessions), 'session')}, {counted(len(leases), 'lease')}{' = ' + held if held else ''}",
    ]
    from coordinator.service.event_log import GONE  # what a summary does not need, with all of a coordinator's service

    lines = []
    for session in sessions:
        lines.append(Line(session.started_at, "CHECK-IN", f"session {session.session}"))
        if session.ended_at is not None and session.end is not None:
            kind = "LEFT" if session.end.startswith("goodbye") or session.end is SessionEnd.SENT_AWAY else "LOST"
            lines.append(
                Line(session.ended_at, kind, f"{GONE[session.end]}{', in mid-task' if session.in_task else ''}")
            )
    for lease in leases:
        what = f"lease {lease.lease} of {history.jobs[lease.job].name} round {lease.round}"
        lines.append(Line(lease.offered_at, "LEASE", what))
        if lease.ended_at is not None:
            why = f": {printable(lease.message)}" if lease.message else ""
            lines.append(Line(lease.ended_at, "END", f"{what}: {lease.end}{why}{_task_text(history, lease)}"))
    lines += [Line(t, "REFUSED", GONE[reason]) for t, refused, reason in history.refused if refused == device]
    open_now = any(session.end is None for session in sessions)
    return Explanation(device, "in session" if open_now else "gone", tuple(reasons), _ordered(lines))


def _task_text(history: History, lease: LeaseHistory) -> str:
    """``, task 2.31 s of 2.40 s modelled, 0.58 s of the processor, held back 41 times``"""
    if lease.compute_s is None:
        return ""
    modelled = modelled_s(history, lease)
    parts = [f"task {lease.compute_s:.2f} s" + (f" of {modelled:.2f} s modelled" if modelled is not None else "")]
    parts += [f"late by {lease.late_s:.2f} s"] if lease.late_s > 0 else []
    parts += [f"{lease.compute_cpu_s:.2f} s of the processor"]
    parts += [f"held back {counted(lease.held_back, 'time')}"] if lease.held_back else []
    return f", {', '.join(parts)}"


def _ordered(lines: list[Line]) -> tuple[Line, ...]:
    return tuple(sorted(lines, key=lambda line: line.at_s)[-MOST_LINES:])
