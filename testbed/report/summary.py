"""The summary of a run: the figures of its table, report and summary.json, and what its timeline did to devices."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coordinator.engine.ids import job_name
from coordinator.engine.model import AttemptStatus, LeaseEnd, LeaseSum, Repeat, sum_leases
from testbed.report.audit import audit
from testbed.report.explain import waits
from testbed.report.history import History, JobHistory, SessionHistory, read_history
from testbed.report.host import SIMULATED, judge_host, overhead_s, read_confined, read_emulation, task_times
from testbed.report.record import RunRecord
from testbed.runfolder.attempts import Attempts, JobFacts, SimulatedRecord, job_figures, mean_jct, simulated_of
from testbed.runfolder.journal import digest_of
from testbed.runfolder.jsonlines import Row, maybe, metrics, number, plain, text, texts
from testbed.runfolder.summary import (
    Audit,
    Emulation,
    Expected,
    HostSummary,
    Injected,
    JobFigures,
    Repeats,
    Staleness,
    Summary,
    Waited,
)
from testbed.scenario.expect import evaluate, is_simulated, parse_expectation, with_defaults
from testbed.world.timeline import Verb
from venn.wire.errors import UsageError
from venn.wire.requirements import Whom

ACCURACY = "accuracy"  # the metric that has a column of its own
_NO_HOST = HostSummary(None, None, None, {}, 0.0, stalls=(), stalled_s={}, saturated=False, reasons=(), too_small=())


def summarise(record: RunRecord, history: History | None = None) -> Summary:
    """Summarises a run. ``history`` saves reading it twice."""
    history = history or read_history(record.journal)
    simulated = simulated_of(record.about, record.folder / "run.json")
    checked = audit(record, simulated=simulated is not None)
    emulation = SIMULATED if simulated else _emulation(record, history)
    jobs = _jobs(record, history, emulation)
    ended = [session for session in history.sessions.values() if session.end is not None]
    lost = [session.end.value for session in ended if session.end and session.in_task]
    about = record.about
    window = history.window
    return _summary(
        about,
        record.folder,
        jobs,
        checked,
        name=text(about, "name") or record.journal.name,
        policy=text(about, "policy") or record.journal.settings.policy,
        seed=int(number(about, "seed", record.journal.settings.seed)),
        backend=text(about, "backend") or "process",
        devices=simulated.devices if simulated else len(record.population) or len(history.capabilities),
        duration_s=window[1] - window[0],
        interrupted=bool(about.get("interrupted", not record.journal.digest)),
        sessions=len(history.sessions),
        sessions_by_end=_sessions_by_end(history),
        devices_lost_in_task=len(lost),
        lost_in_task_by_end=dict(sorted(Counter(lost).items())),
        processes_killed=_processes_killed(record),
        injected=injected(
            record.churn,
            history,
            started_unix_s=record.journal.wall_ms / 1000,
            liveness_s=record.journal.settings.liveness_s,
        ),
        leases=_leases(history),
        emulation=emulation,
        host=judge_host(record, window, history.job_spans()),
        digest=record.journal.digest or digest_of(record.journal),
        simulated=simulated,
        cut_at_s=None if record.journal.digest else history.ended_s,
    )


def _summary(about: Row, folder: Path, jobs: tuple[JobFigures, ...], checked: Audit, **figures: Any) -> Summary:
    """Adds what follows from the jobs and the audit, and the expectations of a run.json beside what they came to.

    Raises UsageError if an expectation cannot be read.
    """
    summary = Summary(
        jobs=jobs,
        unfinished_jobs=count_unfinished(about, jobs),
        mean_jct_s=mean_jct(jobs),
        responses_acknowledged=checked.responses,
        responses_in_rounds=checked.in_rounds,
        responses_in_aborted=checked.in_aborted,
        responses_pending=checked.pending,
        responses_lost=checked.lost,
        responses_counted_twice=checked.counted_twice,
        expectations=(),
        audit=checked,
        **figures,
    )
    try:
        asked = with_defaults([parse_expectation(each) for each in texts(about, "expect")])
    except ValueError as error:
        raise UsageError("RUN_DAMAGED", f"an expectation {error}", where=str(folder / "run.json")) from None
    live = summary.simulated is None
    verdicts = zip(asked, evaluate(asked, to_json(summary)), strict=True)
    expected = (Expected(*verdict, judged=live or is_simulated(each)) for each, verdict in verdicts)
    return replace(summary, expectations=tuple(expected))


def to_json(summary: Summary) -> dict[str, object]:
    """The object of summary.json; what is not a finite number is null."""
    value = plain(summary)
    assert isinstance(value, dict)
    return value


def _jobs(record: RunRecord, history: History, emulation: Emulation) -> tuple[JobFigures, ...]:
    """The figures of all jobs, by arrival."""
    jobs = sorted(history.jobs.values(), key=lambda job: (job.arrived_at, job.name))
    rows = [
        (place, one.round, one.attempt, *one.times(history.ended_s), one.status is AttemptStatus.CLOSED, one.responses)
        for place, job in enumerate(jobs)
        for one in job.attempts
    ]
    facts = [
        JobFacts(
            job.name,
            job.spec.requirement_label,
            job.arrived_at,
            job.completed_at(),
            _wasted(job, history.ended_s),
            repeats=job.spec.repeat is Repeat.ALLOW,
        )
        for job in jobs
    ]
    waited = waits(history)
    return tuple(
        _job(record, history, job, figures, waited[job.name], emulation)
        for job, figures in zip(jobs, job_figures(facts, Attempts.of_rows(rows)), strict=True)
    )


def _job(
    record: RunRecord,
    history: History,
    job: JobHistory,
    figures: JobFigures,
    waited: tuple[Waited, ...],
    emulation: Emulation,
) -> JobFigures:
    last = _last_metrics(record, job.name)
    leases = [lease for attempt in job.attempts for lease in attempt.leases]
    measured = figures.jct_s is not None and emulation is not SIMULATED
    return replace(
        figures,
        finished=job.finished,
        aborts=len(job.aborted()),  # an attempt may still be open
        accuracy=last.get(ACCURACY),
        metrics=last,
        overhead_s=overhead_s(history, job, emulation.limited) if measured else None,
        leases=len(leases),
        stragglers=sum(lease.end is LeaseEnd.STRAGGLER for lease in leases),
        staleness=_staleness(job) if job.spec.asynchronous is not None else None,
        repeats=_repeats(job) if job.spec.repeat is Repeat.ALLOW else None,
        waits=waited,
        message=job.message if not job.finished else "",
    )


def _last_metrics(record: RunRecord, job: str) -> dict[str, float]:
    driver = record.drivers.get(job)
    closed = [row for row in driver.rounds if row.get("status") == AttemptStatus.CLOSED] if driver else []
    return metrics(closed[-1]) if closed else {}


def _staleness(job: JobHistory) -> Staleness:
    """The staleness of counted responses; 0 where no round has closed."""
    closed = {(attempt.round, attempt.attempt) for attempt in job.closed()}
    stale = [
        lease.counts_in[0] - lease.round
        for attempt in job.attempts
        for lease in attempt.leases
        if lease.counts_in in closed and lease.counts_in is not None and lease.end is LeaseEnd.COUNTED
    ]
    return Staleness(sum(stale) / len(stale), max(stale)) if stale else Staleness(0.0, 0)


def _repeats(job: JobHistory) -> Repeats:
    closed = {(attempt.round, attempt.attempt) for attempt in job.closed()}
    counted = [
        (lease.counts_in, lease.device)
        for attempt in job.attempts
        for lease in attempt.leases
        if lease.counts_in in closed and lease.end is LeaseEnd.COUNTED
    ]
    return Repeats(len(counted) - len(set(counted)))


def _wasted(job: JobHistory, until: float) -> float:
    """Device-seconds of leases that ended, or would end, in no closed round."""
    closed = {(attempt.round, attempt.attempt) for attempt in job.closed()}
    return sum(
        lease.device_seconds(until)
        for attempt in job.attempts
        for lease in attempt.leases
        if attempt.status is not AttemptStatus.OPEN
        and not (lease.end is LeaseEnd.COUNTED and lease.counts_in in closed)
    )


def count_unfinished(about: Row, jobs: tuple[JobFigures, ...]) -> int:
    """The number of jobs that were asked for and did not finish, those included that never arrived."""
    asked = set(texts(about, "jobs")) | {job.name for job in jobs}
    return len(asked) - sum(job.finished for job in jobs)


def _leases(history: History) -> LeaseSum:
    ends = Counter(lease.end for lease in history.leases.values() if lease.end is not None)
    return sum_leases(ends, granted=len(history.leases), live=len(history.leases) - ends.total())


def _sessions_by_end(history: History) -> dict[str, int]:
    return dict(
        sorted(Counter(session.end.value if session.end else "open" for session in history.sessions.values()).items())
    )


def _processes_killed(record: RunRecord) -> int:
    alone = record.alone()
    rows = (row for log in record.hosts.values() for row in log.sessions)
    return sum(row.get("event") == "end" and row.get("how") == "crash" and text(row, "device") in alone for row in rows)


def _emulation(record: RunRecord, history: History) -> Emulation:
    found = read_emulation(record.folder, devices=len(record.population), processes=len(record.alone()))
    confined = read_confined(record.folder)
    return replace(found, tasks=task_times(history, found.limited), confined=confined)


def summarise_outcome(record: SimulatedRecord) -> Summary:
    """Summarises a simulation without a journal. What only single leases and sessions tell is None or empty."""
    virtual_s = record.simulated.virtual_s
    attempts = record.attempts
    jobs = tuple(
        replace(figures, repeats=Repeats(None) if facts.repeats else None)
        for facts, figures in zip(record.jobs, job_figures(record.jobs, attempts), strict=True)
    )
    ends = {LeaseEnd(reason): count for reason, count in record.leases.items()}
    leases = sum_leases(ends, granted=sum(ends.values()) + record.live, live=record.live)
    in_rounds = int(attempts.counted[attempts.closed].sum())
    acknowledged = leases.responses + record.unheard
    in_aborted = int(attempts.counted[~attempts.closed].sum()) + record.unheard
    pending = acknowledged - in_rounds - in_aborted
    first = min((facts.arrived_s for facts in record.jobs), default=0.0)
    stops = [virtual_s if facts.ended_s is None else facts.ended_s for facts in record.jobs]
    return _summary(
        record.about,
        record.folder,
        jobs,
        Audit(leases, acknowledged, in_rounds, in_aborted, pending, 0, 0, ()),
        name=text(record.about, "name"),
        policy=text(record.about, "policy"),
        seed=int(number(record.about, "seed")),
        backend=text(record.about, "backend"),
        devices=record.simulated.devices,
        duration_s=max(stops, default=virtual_s) - first,
        interrupted=bool(record.about.get("interrupted")),
        sessions=record.simulated.check_ins,
        sessions_by_end={},
        devices_lost_in_task=None,
        lost_in_task_by_end={},
        injected=tuple(Injected(verb, actions, {}, None) for verb, actions in record.injected.items()),
        processes_killed=0,
        leases=leases,
        emulation=SIMULATED,
        host=_NO_HOST,
        digest=record.digest,
        simulated=record.simulated,
    )


AWAY = "not_connected"  # in no session with the coordinator at the time
UNSEEN = "nothing"  # its session went on
IN_FORCE = "in_force"  # a link that was changed: it was read back, or the run had ended
CHECKED_IN = "checked_in"
BEGIN = ("join", "reconnect")  # what begins a session, where the others end one

LONGEST_LIVENESS_S = 60.0  # a simulated device is never silent: what an action does, it does at once
_EARLY_S = 0.05  # the clock of an engine is not quite that of the wall
_LATE_S = 2.0  # more, on a busy machine


def injected(
    rows: Sequence[Row], history: History, *, started_unix_s: float, liveness_s: float
) -> tuple[Injected, ...]:
    """Makes a row for each verb of churn.jsonl, by first action. ``started_unix_s`` is engine time 0."""
    sessions: dict[str, list[SessionHistory]] = {}
    for session in history.sessions.values():
        sessions.setdefault(session.device, []).append(session)
    observer = _Observer(history, sessions, min(liveness_s, LONGEST_LIVENESS_S))
    kinds: dict[str, list[tuple[str, float | None]]] = {}
    for row in rows:
        until, verb = maybe(row.get("until_s")), text(row, "verb")
        lasts = None if until is None else until - number(row, "at_s")
        seen = observer.see(verb, text(row, "target"), number(row, "at") - started_unix_s, lasts)
        kinds.setdefault(verb, []).append(seen)
    return tuple(_row(verb, found) for verb, found in kinds.items())


def _row(verb: str, found: Sequence[tuple[str, float | None]]) -> Injected:
    times = [after for _, after in found if after is not None]
    counts = Counter(what for what, _ in found)
    return Injected(verb, len(found), dict(counts.most_common()), max(times) if times else None)


@dataclass(frozen=True, slots=True)
class _Observer:
    """Finds what followed an action."""

    history: History
    sessions: Mapping[str, Sequence[SessionHistory]]  # by device
    liveness_s: float

    def see(self, verb: str, target: str, at: float, lasts: float | None) -> tuple[str, float | None]:
        """The end that followed an action, and after how many seconds; None: nothing did."""
        if verb == Verb.LIMIT:
            return IN_FORCE, None
        word, _, job = target.partition(" ")
        if word == Whom.COORDINATOR:
            again = [when for when in self.history.restarts if verb == Verb.CRASH and when >= at]
            return ("restarted", again[0] - at) if again else (UNSEEN, None)
        if word == Whom.BROKER:
            return UNSEEN, None  # nobody of ours talks to it
        noticed_s = 2 * self.liveness_s  # at the latest: silence ends nothing while a coordinator is young
        limit = at + min(noticed_s, noticed_s if lasts is None else lasts) + _LATE_S
        if word == Whom.DRIVER:
            limit = at + _LATE_S if verb == Verb.CRASH else limit  # its connection ends at once
            lost = [when for when, whose in self.history.drivers_lost if job_name(whose) == job and at <= when <= limit]
            return ("driver_lost", lost[0] - at) if lost else (UNSEEN, None)
        return self._begun(target, at) if verb in BEGIN else self._ended(target, at, limit)

    def _begun(self, device: str, at: float) -> tuple[str, float | None]:
        starts = [one.started_at for one in self.sessions.get(device, ()) if at - _EARLY_S <= one.started_at]
        first = min(starts, default=None)
        return (UNSEEN, None) if first is None or first > at + self.liveness_s else (CHECKED_IN, max(0.0, first - at))

    def _ended(self, device: str, at: float, limit: float) -> tuple[str, float | None]:
        there = [
            one
            for one in self.sessions.get(device, ())
            if one.started_at <= at and (one.ended_at is None or one.ended_at >= at - _EARLY_S)
        ]
        if not there:
            return AWAY, None
        last = there[-1]
        if last.end is None or last.ended_at is None or last.ended_at > limit:
            return UNSEEN, None
        return last.end.value, max(0.0, last.ended_at - at)
