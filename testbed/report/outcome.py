"""The summary of a simulated run that kept no journal, from its attempts and sums."""

from collections import defaultdict

from coordinator.engine.lease_sum import sum_leases
from coordinator.engine.model import LeaseEnd
from testbed.report.emulation import SIMULATED
from testbed.report.summary import count_unfinished, judged
from testbed.runfolder.attempts import EndedAttempt, SimulatedJobFacts, SimulatedRecord
from testbed.runfolder.jsonlines import number, text
from testbed.runfolder.summary import Audit, HostSummary, Injected, JobSummary, Repeats, Summary

_NO_HOST = HostSummary(None, None, None, {}, 0.0, stalls=(), stalled_s={}, saturated=False, reasons=(), too_small=())


def summarise_outcome(record: SimulatedRecord) -> Summary:
    """The figures of such a run. What only single leases and sessions would tell is None or empty."""
    by_job: defaultdict[str, list[EndedAttempt]] = defaultdict(list)
    for attempt in record.attempts:
        by_job[attempt.job].append(attempt)
    virtual_s = record.simulated.virtual_s
    jobs = tuple(_job(facts, by_job[facts.name]) for facts in record.jobs)
    jcts = [job.jct_s for job in jobs if job.jct_s is not None]
    ends = {LeaseEnd(reason): count for reason, count in record.leases.items()}
    leases = sum_leases(ends, granted=sum(ends.values()) + record.live, live=record.live)
    in_rounds = sum(attempt.responses for attempt in record.attempts if attempt.closed)
    acknowledged = leases.responses + record.unheard
    in_aborted = sum(attempt.responses for attempt in record.attempts if not attempt.closed) + record.unheard
    pending = acknowledged - in_rounds - in_aborted
    first = min((facts.arrived_s for facts in record.jobs), default=0.0)
    stops = [virtual_s if facts.ended_s is None else facts.ended_s for facts in record.jobs]
    summary = Summary(
        name=text(record.about, "name"),
        policy=text(record.about, "policy"),
        seed=int(number(record.about, "seed")),
        backend=text(record.about, "backend"),
        devices=record.simulated.devices,
        duration_s=max(stops, default=virtual_s) - first,
        interrupted=bool(record.about.get("interrupted")),
        jobs=jobs,
        unfinished_jobs=count_unfinished(record.about, jobs),
        mean_jct_s=sum(jcts) / len(jcts) if jcts else None,
        sessions=record.simulated.check_ins,
        sessions_by_end={},
        devices_lost_in_task=None,
        lost_in_task_by_end={},
        injected=tuple(Injected(verb, actions, {}, None) for verb, actions in record.injected.items()),
        processes_killed=0,
        leases=leases,
        responses_acknowledged=acknowledged,
        responses_in_rounds=in_rounds,
        responses_in_aborted=in_aborted,
        responses_pending=pending,
        responses_lost=0,
        responses_counted_twice=0,
        emulation=SIMULATED,
        host=_NO_HOST,
        expectations=(),
        digest=record.digest,
        audit=Audit(leases, acknowledged, in_rounds, in_aborted, pending, 0, 0, ()),
        simulated=record.simulated,
    )
    return judged(summary, record.about, record.folder)


def _job(facts: SimulatedJobFacts, attempts: list[EndedAttempt]) -> JobSummary:
    delay = sum(attempt.filled_s - attempt.opened_s for attempt in attempts)
    collect = sum(attempt.ended_s - attempt.filled_s for attempt in attempts)
    jct = None if facts.ended_s is None else facts.ended_s - facts.arrived_s
    closed = sum(attempt.closed for attempt in attempts)
    return JobSummary(
        name=facts.name,
        requirement=facts.requirement,
        finished=jct is not None,
        rounds=closed,
        aborts=len(attempts) - closed,
        accuracy=None,
        metrics={},
        arrived_s=facts.arrived_s,
        jct_s=jct,
        delay_s=delay,
        collect_s=collect,
        gaps_s=None if jct is None else jct - delay - collect,
        overhead_s=None,
        leases=None,
        stragglers=None,
        staleness=None,
        repeats=Repeats(None) if facts.repeats else None,
        wasted_device_s=facts.wasted_device_s,
        waits=(),
        message="",
    )
