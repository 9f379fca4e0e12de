"""The history of a run by job, attempt, lease, session and device, from the events of the coordinator alone."""

from dataclasses import dataclass, field
from typing import assert_never

from coordinator.engine import effects as done
from coordinator.engine import events as past
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq, job_name
from coordinator.engine.model import (
    AttemptEndReason,
    AttemptStatus,
    FailureReason,
    JobEnd,
    JobSpec,
    LeaseEnd,
    Outcome,
    Phase,
    SessionEnd,
)
from coordinator.engine.requirements import Capabilities
from testbed.runfolder.journal import Entry, Journal


@dataclass(slots=True)
class LeaseHistory:
    """The history of one lease."""

    lease: LeaseSeq
    device: DeviceId
    session: SessionSeq  # the first it was held in
    job: JobId
    request: RequestId
    round: int
    attempt: int
    offered_at: float
    spans: list[tuple[float, float | None]] = field(default_factory=list)  # when it was RUNNING; open at the end: None
    done_at: float | None = None  # its device said that its task was over
    ended_at: float | None = None
    end: LeaseEnd | None = None  # None: live when the record ends
    phase: Phase | None = None
    failure: FailureReason | None = None
    message: str = ""
    counts_in: tuple[int, int] | None = None  # the round and attempt that its response is recorded to count in
    compute_s: float | None = None  # as its device measured
    late_s: float = 0.0  # beyond its modelled time
    compute_cpu_s: float = 0.0  # of it, processor time
    held_back: int = 0  # times that its device's processor limit was used up meanwhile

    def device_seconds(self, until: float) -> float:
        """Seconds that a device was leased for, up to ``until``: absences count, as in the engine's own sum."""
        return (until if self.ended_at is None else self.ended_at) - self.offered_at

    def stop(self, at: float) -> None:
        """Note that it is RUNNING no more."""
        if self.spans and self.spans[-1][1] is None:
            self.spans[-1] = (self.spans[-1][0], at)


@dataclass(slots=True)
class AttemptHistory:
    """The history of one attempt."""

    request: RequestId
    job: JobId
    round: int
    attempt: int
    opened_at: float  # of an asynchronous job from the second round on: when the round before closed
    deadline_at: float | None  # None: asynchronous
    responses_needed: int  # K
    places: int  # C
    filled_at: float | None = None
    ended_at: float | None = None
    status: AttemptStatus = AttemptStatus.OPEN
    reason: AttemptEndReason | None = None
    responses: int = 0  # counted, at its end
    leases: list[LeaseHistory] = field(default_factory=list)

    @property
    def asynchronous(self) -> bool:
        """Whether its job is asynchronous."""
        return self.deadline_at is None

    def finish(self, at: float, end: done.EndAttempt) -> None:
        """Record its end."""
        self.ended_at, self.status, self.reason, self.responses = at, end.status, end.reason, end.responses

    def split(self, until: float) -> tuple[float, float]:
        """Scheduling delay and response collection time, seconds; of an open attempt, up to ``until``.

        The delay ends when C was reached, or with the attempt if that came first. An asynchronous round has none: its
        devices are at work from one round to the next.
        """
        opened, filled, ended = self.times(until)
        return filled - opened, ended - filled

    def times(self, until: float) -> tuple[float, float, float]:
        """The times at which it opened, was filled and ended, as ``split`` counts them."""
        ended = until if self.ended_at is None else self.ended_at
        if self.asynchronous:
            return self.opened_at, self.opened_at, ended
        return self.opened_at, ended if self.filled_at is None else min(self.filled_at, ended), ended


@dataclass(slots=True)
class JobHistory:
    """The history of one job."""

    spec: JobSpec
    arrived_at: float
    attempts: list[AttemptHistory] = field(default_factory=list)
    pauses: list[tuple[float, float | None, str]] = field(default_factory=list)  # from, to, reason
    ended_at: float | None = None
    end: JobEnd | None = None
    message: str = ""

    @property
    def name(self) -> str:
        """The middle of its key, owner/name/run."""
        return job_name(self.spec.job)

    @property
    def finished(self) -> bool:
        """Whether the job finished."""
        return self.end is JobEnd.FINISHED

    def closed(self) -> list[AttemptHistory]:
        """The attempts that closed."""
        return [attempt for attempt in self.attempts if attempt.status is AttemptStatus.CLOSED]

    def aborted(self) -> list[AttemptHistory]:
        """The attempts that aborted."""
        return [attempt for attempt in self.attempts if attempt.status is AttemptStatus.ABORTED]

    def completed_at(self) -> float | None:
        """The engine time at which its last round closed; None if it did not finish."""
        ends = [attempt.ended_at for attempt in self.closed() if attempt.ended_at is not None]
        return max(ends) if self.finished and ends else None


@dataclass(slots=True)
class SessionHistory:
    """The history of one session."""

    session: SessionSeq
    device: DeviceId
    started_at: float
    ended_at: float | None = None
    end: SessionEnd | None = None
    in_task: bool = False  # a lease of it was RUNNING when it ended


@dataclass
class History:
    """The history of a run."""

    journal: Journal
    jobs: dict[JobId, JobHistory] = field(default_factory=dict)
    leases: dict[LeaseSeq, LeaseHistory] = field(default_factory=dict)
    sessions: dict[SessionSeq, SessionHistory] = field(default_factory=dict)
    capabilities: dict[DeviceId, Capabilities] = field(default_factory=dict)  # as last reported
    refused: list[tuple[float, DeviceId, SessionEnd]] = field(default_factory=list)  # check-ins that got no session
    policies: list[tuple[float, str]] = field(default_factory=list)  # changes while it ran
    drivers_lost: list[tuple[float, JobId]] = field(default_factory=list)

    @property
    def restarts(self) -> tuple[float, ...]:
        """The engine times at which the coordinator was started again."""
        return self.journal.restarts

    @property
    def ended_s(self) -> float:
        """The engine time of the last entry."""
        return self.journal.last_s

    def eligible(self, device: DeviceId, job: JobId) -> bool:
        """Whether a device may serve a job."""
        return self.jobs[job].spec.requirement.matches(device, self.capabilities[device])

    def job_spans(self) -> dict[str, tuple[float, float]]:
        """The time of each job, by name: from its arrival to its end, or that of the record."""
        ends = ((job, self.ended_s if job.ended_at is None else job.ended_at) for job in self.jobs.values())
        return {job.name: (job.arrived_at, end) for job, end in ends}

    @property
    def window(self) -> tuple[float, float]:
        """The time that the figures are about: from the first job's arrival to the end of the last."""
        if not self.jobs:
            return 0.0, self.ended_s
        starts, ends = zip(*self.job_spans().values(), strict=True)
        return min(starts), max(ends)


def read_history(journal: Journal) -> History:
    """The whole history of a journal."""
    reader = _Reader(journal)
    for entry in journal.entries:
        reader.add(entry)
    return reader.history


class _Reader:
    def __init__(self, journal: Journal) -> None:
        self.history = History(journal)
        self._attempts: dict[tuple[JobId, int, int], AttemptHistory] = {}  # by job, round, attempt
        self._flushed: dict[RequestId, float] = {}  # when a round of a request ended last
        self._early: dict[tuple[JobId, int, int], tuple[float | None, float, done.EndAttempt]] = {}
        # rounds that ended before their driver had begun them: when the one before ended, and when they did

    def add(self, entry: Entry) -> None:
        self._event(entry)
        for effect in entry.effects:
            match effect:
                case done.OpenSession() | done.CloseSession() | done.EndSession():
                    self._session_effect(entry.t, effect)
                case done.OfferLease() | done.RunLease() | done.MissLease() | done.ResumeLease() | done.EndLease():
                    self._lease_effect(entry.t, effect)
                case done.AcceptAttempt() | done.FillAttempt() | done.EndAttempt():
                    self._attempt_effect(entry.t, effect)
                case done.AcceptJob() | done.PauseJob() | done.ResumeJob() | done.EndJob():
                    self._job_effect(entry, effect)
                case (
                    done.RevokeLease() | done.SendAway() | done.RefuseJob() | done.AnswerResponses() | done.AdoptPlan()
                ):
                    pass  # if anything comes of it, other effects tell
                case _:
                    assert_never(effect)

    def _event(self, entry: Entry) -> None:
        match entry.event:
            case past.DeviceCheckedIn(device=device, capabilities=capabilities):
                self.history.capabilities[device] = capabilities
            case past.TaskFinished(lease=number) as task:
                if (lease := self.history.leases.get(number)) is not None:
                    lease.done_at = entry.t
                    lease.compute_s, lease.late_s = task.compute_s, task.late_s
                    lease.compute_cpu_s, lease.held_back = task.compute_cpu_s, task.held_back
            case past.ResponsesRecorded(round=round_, attempt=attempt, responses=responses):
                for number, outcome in responses:
                    lease = self.history.leases.get(number)
                    if lease is not None and outcome is Outcome.COUNTED and lease.counts_in is None:
                        lease.counts_in = (round_, attempt)
            case past.DriverLost(job=job):
                self.history.drivers_lost.append((entry.t, job))
            case past.PolicyChanged(policy=policy):
                self.history.policies.append((entry.t, policy))
            case (
                past.DeviceHeard()
                | past.LeaseAccepted()
                | past.LeaseDeclined()
                | past.TaskProgressed()
                | past.TaskFailed()
                | past.LeaseReleased()
                | past.SessionEnded()
                | past.JobSubmitted()
                | past.DriverFollowed()
                | past.AttemptOpened()
                | past.JobEnded()
                | past.CoordinatorRestarted()
                | past.JournalRotated()
                | past.DevicesDrained()
                | past.TimePassed()
                | past.TurnEnded()
            ):
                pass  # the effects of the others tell all
            case _:
                assert_never(entry.event)

    def _session_effect(self, t: float, effect: done.OpenSession | done.CloseSession | done.EndSession) -> None:
        history = self.history
        match effect:
            case done.OpenSession(session=number, device=device):
                history.sessions[number] = SessionHistory(number, device, t)
            case done.CloseSession(session=number, device=device, reason=reason):
                if number not in history.sessions:
                    history.refused.append((t, device, reason))
            case done.EndSession(session=number, reason=reason, in_task=in_task):
                if (session := history.sessions.get(number)) is not None:
                    session.ended_at, session.end, session.in_task = t, reason, in_task
            case _:
                assert_never(effect)

    def _lease_effect(
        self, t: float, effect: done.OfferLease | done.RunLease | done.MissLease | done.ResumeLease | done.EndLease
    ) -> None:
        leases = self.history.leases
        match effect:
            case done.OfferLease():
                lease = LeaseHistory(
                    effect.lease,
                    effect.device,
                    effect.session,
                    effect.job,
                    effect.request,
                    effect.round,
                    effect.attempt,
                    t,
                )
                leases[effect.lease] = lease
                if (attempt := self._attempts.get((effect.job, effect.round, effect.attempt))) is not None:
                    attempt.leases.append(lease)
            case done.RunLease(lease=number) | done.ResumeLease(lease=number):
                leases[number].spans.append((t, None))
            case done.MissLease(lease=number):
                leases[number].stop(t)
            case done.EndLease(lease=number):
                lease = leases[number]
                lease.stop(t)
                lease.ended_at, lease.end = t, effect.reason
                lease.phase, lease.failure, lease.message = effect.phase, effect.failure, effect.message
            case _:
                assert_never(effect)

    def _attempt_effect(self, t: float, effect: done.AcceptAttempt | done.FillAttempt | done.EndAttempt) -> None:
        match effect:
            case done.AcceptAttempt():
                if self._is_new(effect):
                    self._open(t, effect)
            case done.FillAttempt():
                self._attempts[effect.job, effect.round, effect.attempt].filled_at = t
            case done.EndAttempt():
                key = (effect.job, effect.round, effect.attempt)
                if (ended := self._attempts.get(key)) is not None:
                    ended.finish(t, effect)
                else:
                    self._early[key] = (self._flushed.get(effect.request), t, effect)
                self._flushed[effect.request] = t
            case _:
                assert_never(effect)

    def _is_new(self, effect: done.AcceptAttempt) -> bool:
        known = self._attempts.get((effect.job, effect.round, effect.attempt))
        return known is None or known.reason is AttemptEndReason.UNKNOWN

    def _open(self, t: float, effect: done.AcceptAttempt) -> None:
        key = (effect.job, effect.round, effect.attempt)
        began = self._flushed.get(effect.request, t)
        attempt = AttemptHistory(
            effect.request, *key, began, effect.deadline_at, effect.responses_needed, effect.places
        )
        self._attempts[key] = attempt
        self.history.jobs[effect.job].attempts.append(attempt)
        if (early := self._early.pop(key, None)) is not None:
            before, ended_at, end = early
            attempt.opened_at = ended_at if before is None else before
            attempt.finish(ended_at, end)

    def _job_effect(self, entry: Entry, effect: done.AcceptJob | done.PauseJob | done.ResumeJob | done.EndJob) -> None:
        t, jobs = entry.t, self.history.jobs
        match effect:
            case done.AcceptJob(job=key):
                if key not in jobs and isinstance(entry.event, past.JobSubmitted):
                    jobs[key] = JobHistory(entry.event.spec, t)
            case done.PauseJob(job=key, reason=why):
                jobs[key].pauses.append((t, None, why))
            case done.ResumeJob(job=key):
                if jobs[key].pauses and jobs[key].pauses[-1][1] is None:
                    start, _, why = jobs[key].pauses[-1]
                    jobs[key].pauses[-1] = (start, t, why)
            case done.EndJob(job=key, end=end, message=message):
                jobs[key].ended_at, jobs[key].end, jobs[key].message = t, end, message
            case _:
                assert_never(effect)
