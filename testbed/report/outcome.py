"""The summary of a simulated run that kept no journal, from its attempts and sums."""

from dataclasses import replace

from coordinator.engine.lease_sum import sum_leases
from coordinator.engine.model import LeaseEnd
from testbed.report.emulation import SIMULATED
from testbed.report.job_figures import AttemptSums, job_figures, mean_jct, sum_attempts
from testbed.report.summary import count_unfinished, judged
from testbed.runfolder.attempts import SimulatedJobFacts, SimulatedRecord
from testbed.runfolder.jsonlines import number, text
from testbed.runfolder.summary import Audit, HostSummary, Injected, JobFigures, Repeats, Summary

_NO_HOST = HostSummary(None, None, None, {}, 0.0, stalls=(), stalled_s={}, saturated=False, reasons=(), too_small=())


def summarise_outcome(record: SimulatedRecord) -> Summary:
    """The figures of such a run. What only single leases and sessions would tell is None or empty."""
    virtual_s = record.simulated.virtual_s
    jobs, attempts = _jobs(record), record.attempts
    ends = {LeaseEnd(reason): count for reason, count in record.leases.items()}
    leases = sum_leases(ends, granted=sum(ends.values()) + record.live, live=record.live)
    in_rounds = int(attempts.counted[attempts.closed].sum())
    acknowledged = leases.responses + record.unheard
    in_aborted = int(attempts.counted[~attempts.closed].sum()) + record.unheard
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
        mean_jct_s=mean_jct(jobs),
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


def _jobs(record: SimulatedRecord) -> tuple[JobFigures, ...]:
    attempts = record.attempts
    sums = sum_attempts(
        len(record.jobs),
        attempts.job,
        opened_s=attempts.opened_s,
        filled_s=attempts.filled_s,
        ended_s=attempts.ended_s,
        closed=attempts.closed,
        aborted=~attempts.closed,
    )
    return tuple(_job(facts, of_job) for facts, of_job in zip(record.jobs, sums, strict=True))


def _job(facts: SimulatedJobFacts, sums: AttemptSums) -> JobFigures:
    figures = job_figures(
        facts.name,
        facts.requirement,
        sums,
        arrived_s=facts.arrived_s,
        completed_s=facts.ended_s,
        wasted_device_s=facts.wasted_device_s,
    )
    return replace(figures, repeats=Repeats(None) if facts.repeats else None)
