"""Why a job or a device waited, and its story: of a recorded run, or asked of a running coordinator."""

from collections import Counter
from dataclasses import dataclass

import grpc

from coordinator.engine.ids import DeviceId, JobId
from coordinator.engine.model import AttemptStatus, SessionEnd
from testbed.report.emulation import modelled_s
from testbed.report.history import History, JobHistory, LeaseHistory
from testbed.report.regions import eligible
from testbed.report.view import admin_of
from testbed.report.waits import longest, rules, waits
from testbed.report.words import counted
from testbed.runfolder.summary import CLOCK
from venn.v1 import admin_pb2
from venn.wire.channel import open_channel
from venn.wire.errors import UsageError
from venn.wire.status import peer_error
from venn.wire.text import did_you_mean, printable

MOST_LINES = 200


@dataclass(frozen=True, slots=True)
class Line:
    at_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    subject: str
    state: str
    reasons: tuple[str, ...]
    story: tuple[Line, ...]  # oldest first; of a long one, the latest lines
    clock: str = CLOCK  # what ``at_s`` counts


def explain(history: History, subject: str) -> Explanation:
    """``subject`` is a job's name or key, or a device's id. Raises UsageError if the run knows neither."""
    for key, job in history.jobs.items():
        if subject in (key, job.name):
            return _job(history, key, job)
    if subject in history.capabilities:
        return _device(history, DeviceId(subject))
    known = [job.name for job in history.jobs.values()] + list(history.capabilities)
    message = f"no job and no device is called {printable(subject, 128)!r}"
    raise UsageError("UNKNOWN_SUBJECT", message, fix=did_you_mean(subject, known))


def _job(history: History, key: JobId, job: JobHistory) -> Explanation:
    waited = waits(history)[job.name]
    reasons = [f"{wait.seconds:.1f} s of its delay: {wait.text}" for wait in longest(waited)]
    reasons += [f"the rule of {policy}: {rule}" for policy, rule in rules(waited).items()]
    able = sum(eligible(history, device, key) for device in history.capabilities)
    reasons.append(f"{counted(able, 'device')} of {len(history.capabilities)} could serve it")
    if job.end is None and (last := history.reasons[-1][1].get(key) if history.reasons else None):
        reasons.append(f"the last plan said: {printable(last)}")
    lines = [Line(job.arrived_at, "ARRIVED", f"asks for {job.spec.demand} devices a round: {job.spec.requirement}")]
    for attempt in job.attempts:
        what = f"round {attempt.round}, attempt {attempt.attempt}"
        lines.append(Line(attempt.opened_at, "OPEN", what))
        if attempt.filled_at is not None:
            lines.append(Line(attempt.filled_at, "FILLED", f"{what}: {attempt.places} places"))
        if attempt.ended_at is not None:
            kind = "CLOSED" if attempt.status is AttemptStatus.CLOSED else "ABORT"
            said = f"{what}: {attempt.responses} of {attempt.responses_needed} responses ({attempt.reason})"
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
    jobs = [job.name for key, job in history.jobs.items() if eligible(history, device, key)]
    ends = Counter(str(lease.end or "live") for lease in leases)
    held = " + ".join(f"{count} {end}" for end, count in ends.most_common())
    reasons = [
        f"it could serve {', '.join(jobs) or 'no job'}",
        f"{counted(len(sessions), 'session')}, {counted(len(leases), 'lease')}{' = ' + held if held else ''}",
    ]
    lines = []
    for session in sessions:
        lines.append(Line(session.started_at, "CHECK-IN", f"session {session.session}"))
        if session.ended_at is not None and session.end is not None:
            kind = "LEFT" if session.end.startswith("goodbye") or session.end is SessionEnd.SENT_AWAY else "LOST"
            lines.append(Line(session.ended_at, kind, f"{session.end}{' in mid-task' if session.in_task else ''}"))
    for lease in leases:
        what = f"lease {lease.lease} of {history.jobs[lease.job].name} round {lease.round}"
        lines.append(Line(lease.offered_at, "LEASE", what))
        if lease.ended_at is not None:
            why = f": {printable(lease.message)}" if lease.message else ""
            lines.append(Line(lease.ended_at, "END", f"{what}: {lease.end}{why}{_took(history, lease)}"))
    lines += [Line(t, "REFUSED", str(reason)) for t, refused, reason in history.refused if refused == device]
    open_now = any(session.end is None for session in sessions)
    return Explanation(device, "in session" if open_now else "gone", tuple(reasons), _ordered(lines))


def _took(history: History, lease: LeaseHistory) -> str:
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


TIMEOUT_S = 10


async def ask(address: str, token: str, subject: str) -> Explanation:
    """Raises UsageError if it knows no such job or device, PeerError if it is not there or refuses."""
    async with open_channel(address, token=token) as channel:
        try:
            answer = await admin_of(channel).Explain(admin_pb2.ExplainRequest(subject=subject), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            failure = peer_error(error, where=f"coordinator {address}")
            if failure.reason == "UNKNOWN_SUBJECT":  # the caller's mistake, not the coordinator's
                raise UsageError(failure.reason, failure.message, where=failure.where, fix=failure.fix) from None
            raise failure from None
    history = tuple(Line(entry.at.ToTimedelta().total_seconds(), entry.kind, entry.text) for entry in answer.story)
    return Explanation(answer.subject, answer.state, tuple(answer.reasons), history)
