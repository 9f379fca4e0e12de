"""The machine of a run: whether it was too busy for its figures to be trusted, and how it slowed devices down.

Only what happened while jobs were open is judged: what comes before or after, when parts start or are stopped, cannot
change a figure. A process that stalled for one moment touches the figures of the jobs that were open then, by at
most the length of that moment (a stall); they are trusted where that is at most ``TOUCHED_LIMIT`` of the JCT.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from coordinator.engine.effects import OpenSession
from coordinator.engine.events import TaskFinished
from device_agent.activity import LOAD_S
from device_agent.confine.inforce import CONFINED, read_in_force
from testbed.report.history import History, JobHistory, LeaseHistory
from testbed.report.record import RunRecord
from testbed.report.words import counted, gib, percent
from testbed.runfolder.jsonlines import Row, number, number_pairs, text, texts
from testbed.runfolder.summary import Emulation, HostSummary, Limit, Stall, Summary, TaskTimes
from testbed.world.limits import OF_A_CONTAINER
from testbed.world.timeline import Verb
from venn.wire.errors import UsageError
from venn.wire.jsontext import made, parse_json
from venn.wire.text import printable

SAMPLE_S = 1.0
BUSY_FRACTION = 0.85  # of all cores ...
BUSY_FOR_S = 5  # ... for so long
AGAIN = 3  # stalls of one process in ``BUSY_FOR_S``: it is no longer one moment
LONGEST_STALL_S = 1.0  # a third of a heartbeat: a longer one begins to let time-outs run out
TOUCHED_LIMIT = 0.01  # of a job's JCT may be stalls
LATE_LIMIT = 0.02  # of leases whose modelled time was over before their work was
OURSELVES = "venn run"
Span = tuple[float, float]  # on the run's clock


def stalls_in(process: str, rows: Iterable[Row], zero_unix_s: float, window: Span) -> list[Stall]:
    """The stalls that a process recorded and that ended within a window."""
    found = []
    for row in rows:
        for end, late in number_pairs(row.get("stalls")):
            if window[0] <= end - zero_unix_s <= window[1]:
                found.append(Stall(process, end - zero_unix_s - late, late))
    return found


def repeated_stalls(stalls: Sequence[Stall]) -> Span | None:
    """The time in which ``AGAIN`` stalls came within ``BUSY_FOR_S``; None: never. They are of one process, in order."""
    close = [
        (first.at_s, last.end_s)
        for first, last in zip(stalls, stalls[AGAIN - 1 :], strict=False)
        if last.at_s - first.at_s <= BUSY_FOR_S
    ]
    return (close[0][0], close[-1][1]) if close else None


def touched_jobs(process: str, at: Span, jobs: Mapping[str, Span]) -> tuple[str, ...]:
    """The jobs that were open then, and of which the process has a part. A driver has one job; any other process may
    have kept a device or an answer from any of them.
    """
    kind, _, name = process.partition(" ")
    open_ = (job for job, (start, end) in jobs.items() if start < at[1] and at[0] < end)
    return tuple(job for job in open_ if kind != "job" or job == name)


def union_s(stalls: Iterable[Stall], span: Span) -> float:
    """Seconds of a span in which at least one of them went on."""
    total, reached = 0.0, span[0]
    for stall in sorted(stalls, key=lambda one: one.at_s):
        start, end = max(stall.at_s, reached), min(stall.end_s, span[1])
        total += max(0.0, end - start)
        reached = max(reached, end)
    return total


SMALLER = "run fewer devices, give tasks more time (time_scale), or take a larger or quieter machine"
AGAIN_LATER = "run it again"


def judge_host(record: RunRecord, window: Span, jobs: Mapping[str, Span]) -> HostSummary:
    """Judges the machine. ``window``, and when each of ``jobs`` arrived and ended, are on the run's clock."""
    zero = record.journal.wall_ms / 1000
    start, end = window[0] + zero, window[1] + zero
    samples = _within(record.host_samples, start, end)
    cpu = [number(row, "cpu_fraction") for row in samples]
    still = suspended(record.churn)
    loads = {name: rows for name, rows in sorted(record.loads.items()) if _target(name) not in still}
    if any("lag_p99_s" in row for row in samples):
        loads[OURSELVES] = record.host_samples
    stalls = [
        replace(stall, jobs=touched_jobs(name, (stall.at_s, stall.end_s), jobs))
        for name, rows in loads.items()
        for stall in stalls_in(name, rows, zero, window)
    ]
    stalled = {name: union_s([stall for stall in stalls if name in stall.jobs], span) for name, span in jobs.items()}
    late = _late_fraction(record, still, window)
    reasons = (
        *_busy(samples, zero),
        *_stalling(stalls),
        *_touched(stalls, stalled, jobs),
        *_late(late),
        *_behind(record, start, still),
    )
    return HostSummary(
        cpu_max=max(cpu) if cpu else None,
        cpu_mean=sum(cpu) / len(cpu) if cpu else None,
        memory_max_bytes=int(max(number(row, "memory_used_bytes") for row in samples)) if samples else None,
        lag_p99_max_s={name: _worst_lag(_within(rows, start, end)) for name, rows in loads.items()},
        late_fraction=late,
        stalls=tuple(sorted(stalls, key=lambda stall: stall.at_s)),
        stalled_s={name: seconds for name, seconds in stalled.items() if seconds > 0},
        saturated=bool(reasons),
        reasons=reasons,
        too_small=tuple(texts(record.about, "too_small")),
    )


def _within(rows: Iterable[Row], start: float, end: float) -> list[Row]:
    return [row for row in rows if start <= number(row, "at") <= end]


def _worst_lag(rows: Sequence[Row]) -> float:
    return max((number(row, "lag_p99_s") for row in rows), default=0.0)


def suspended(churn: Iterable[Row]) -> frozenset[str]:
    """The targets that the timeline suspended: that they were late says nothing of the host."""
    return frozenset(text(row, "target") for row in churn if row.get("verb") == Verb.SUSPEND)


def _target(process: str) -> str:
    """The name that a timeline gives to a process of ``RunRecord.loads``."""
    kind, _, name = process.partition(" ")
    return {"devices": name, "job": f"driver {name}"}.get(kind, process)


def _late_fraction(record: RunRecord, still: frozenset[str], window: Span) -> float:
    opened = (effect for entry in record.journal.entries for effect in entry.effects if isinstance(effect, OpenSession))
    theirs = {effect.session for effect in opened if effect.device in still}
    finished = [
        entry.event
        for entry in record.journal.entries
        if isinstance(entry.event, TaskFinished)
        and entry.event.session not in theirs
        and window[0] <= entry.t <= window[1]
    ]
    return sum(event.late_s > 0 for event in finished) / len(finished) if finished else 0.0


def _busy(samples: Sequence[Row], zero: float) -> list[str]:
    """The reason if the processor was over its limit for so many samples in a row, one a second."""
    over = [number(row, "cpu_fraction") > BUSY_FRACTION for row in samples]
    found = {
        place
        for first in range(len(over) - BUSY_FOR_S + 1)
        if all(over[first : first + BUSY_FOR_S])
        for place in range(first, first + BUSY_FOR_S)
    }
    if not found:
        return []
    first, last = (number(samples[place], "at") - zero for place in (min(found), max(found)))
    when = f"for {len(found) * SAMPLE_S:.0f} s between {first - SAMPLE_S:.0f} s and {last:.0f} s"
    return [f"the processor was over {BUSY_FRACTION:.0%} busy {when} (the limit is {BUSY_FOR_S} s): {SMALLER}"]


def _stalling(stalls: Sequence[Stall]) -> list[str]:
    """Names processes that stalled again and again, or too long."""
    by_process: dict[str, list[Stall]] = {}
    for stall in stalls:
        by_process.setdefault(stall.process, []).append(stall)
    found = []
    for name, own in by_process.items():
        if (when := repeated_stalls(own)) is not None:
            total = sum(stall.for_s for stall in own if when[0] <= stall.at_s <= when[1])
            said = f"{name} stalled repeatedly between {when[0]:.1f} s and {when[1]:.1f} s, {total:.1f} s in all"
            found.append(f"{said}: {SMALLER}")
    longest = max(stalls, key=lambda stall: stall.for_s, default=None)
    if longest is not None and longest.for_s > LONGEST_STALL_S:
        said = f"{longest.process} stalled for {longest.for_s:.1f} s at {longest.at_s:.1f} s"
        found.append(f"{said} (the limit is {LONGEST_STALL_S:.0f} s: time-outs may have run out): {AGAIN_LATER}")
    return found


def _touched(stalls: Sequence[Stall], stalled: Mapping[str, float], jobs: Mapping[str, Span]) -> list[str]:
    """Names jobs whose figures a few stalls may have moved by too much."""
    found = []
    for name, (start, end) in jobs.items():
        if stalled[name] > TOUCHED_LIMIT * (end - start):
            worst = max((stall for stall in stalls if name in stall.jobs), key=lambda stall: stall.for_s)
            share = f"{stalled[name]:.1f} s of the {end - start:.1f} s of {name} (the limit is {TOUCHED_LIMIT:.0%})"
            where = f"the longest was {worst.process} at {worst.at_s:.1f} s for {worst.for_s:.2f} s"
            found.append(f"processes stalled for {share}; {where}: {AGAIN_LATER}, or make the job longer")
    return found


def _behind(record: RunRecord, start: float, still: frozenset[str]) -> list[str]:
    """The reason if programs with devices were not ready before the first job; they write a second after they are."""
    hosts = {name: rows for name, rows in record.loads.items() if name.startswith("devices ")}
    ready = {_target(name): number(rows[0], "at") - LOAD_S for name, rows in hosts.items()}
    behind = sorted((at - start, name) for name, at in ready.items() if at > start and name not in still)
    if not behind:
        return []
    last_s, name = behind[-1]
    last = f"{name} {last_s:.1f} s after it"
    said = f"{len(behind)} of {len(ready)} programs with devices were ready only after the first job had come"
    return [f"{said}, {last}: {SMALLER}"]


def _late(fraction: float) -> list[str]:
    if fraction <= LATE_LIMIT:
        return []
    return [
        f"{fraction:.1%} of the tasks took longer than their modelled time (the limit is {LATE_LIMIT:.0%}): {SMALLER}"
    ]


EMULATION_FILE = "emulation.json"
NOT_IN_FORCE = "not in force"


SIMULATED = Emulation(cpu="modelled", memory="not limited", link="modelled", processes=0)


def read_emulation(folder: Path, *, devices: int, processes: int) -> Emulation:
    """Reads the emulation of a live run. Raises UsageError if its file was damaged."""
    try:
        said = made(_Emulated, parse_json((folder / EMULATION_FILE).read_bytes()))
    except FileNotFoundError:
        return Emulation(cpu="modelled", memory="not limited", link="not limited", processes=processes)
    except (OSError, ValueError) as error:
        fix = "restore the file, or run again"
        message = f"cannot be read: {printable(str(error), 80)}"
        raise UsageError("RUN_DAMAGED", message, where=str(folder / EMULATION_FILE), fix=fix) from None
    limits = tuple(said.limits)
    counts = {fleet.fleet: fleet.count for fleet in said.fleets}
    return Emulation(
        cpu=_means_text(limits, {"cores"}, counts, devices, "modelled"),
        memory=_means_text(limits, {"memory_limit"}, counts, devices, "not limited"),
        link=_means_text(limits, {"up", "down", "delay", "jitter", "loss"}, counts, devices, "not limited"),
        processes=processes,
        limits=limits,
        degraded=tuple(said.degraded),
    )


@dataclass(frozen=True)
class _Fleet:
    """The devices of a limited fleet."""

    fleet: str
    count: int


@dataclass(frozen=True)
class _Emulated:
    """The file of an emulation, as far as it is read here."""

    limits: Sequence[Limit]
    degraded: Sequence[str]
    fleets: Sequence[_Fleet]


def read_confined(folder: Path) -> tuple[str, ...]:
    """What held job code in a live run, as the agents read it back: a text for each kind, most frequent first."""
    found = (read_in_force(path) for path in sorted((folder / "devices").glob(f"*/{CONFINED}")))
    kinds = Counter(held.means() if held.holds else f"{held.means()}, which is not enough" for held in found if held)
    return tuple(f"{means} ({counted(count, 'program')})" for means, count in kinds.most_common())


def is_limited_container(host_folder: Path) -> bool:
    """Whether a host of devices is a container with few cores: its session is as slow as its task, and says nothing of
    the machine."""
    try:
        return '"cores"' in (host_folder / OF_A_CONTAINER).read_text(encoding="utf-8")
    except OSError:
        return False


def _means_text(limits: tuple[Limit, ...], keys: set[str], counts: dict[str, int], devices: int, else_: str) -> str:
    """``tc and relay on 2 devices, else not limited``."""
    chosen = [limit for limit in limits if limit.key in keys]
    means = dict.fromkeys(limit.means or NOT_IN_FORCE for limit in chosen)
    held = sum(counts.get(fleet, 0) for fleet in {limit.fleet for limit in chosen})
    if not held:
        return else_
    others = f", else {else_}" if held < devices else ""
    return f"{' and '.join(means)} on {held} device{'s' if held > 1 else ''}{others}"


def task_times(history: History, limited: Collection[str]) -> tuple[TaskTimes, ...]:
    """Task times by fleet and job; ``limited`` are the fleets whose processor was limited."""
    found: defaultdict[tuple[str, str], list[LeaseHistory]] = defaultdict(list)
    for lease in history.leases.values():
        fleet = fleet_of(history, lease)
        if fleet in limited and lease.compute_s is not None:
            found[fleet, history.jobs[lease.job].name].append(lease)
    return tuple(_means(history, *key, leases) for key, leases in sorted(found.items()))


def overhead_s(history: History, job: JobHistory, limited: Collection[str]) -> float:
    """Seconds of a finished job's JCT that are neither tasks nor waiting for devices: gaps, and for each closed attempt
    from the moment at which its responses would be there, had each come as soon as its task was over.
    """
    completed = job.completed_at()
    assert completed is not None
    gaps = completed - job.arrived_at - sum(sum(attempt.split(history.ended_s)) for attempt in job.attempts)
    last: defaultdict[tuple[int, int], float] = defaultdict(float)  # by round and attempt: the end of its last task
    for lease in (lease for attempt in job.attempts for lease in attempt.leases):
        if lease.counts_in is not None:
            last[lease.counts_in] = max(last[lease.counts_in], lease.offered_at + _task_s(history, lease, limited))
    ends = ((attempt.ended_at or 0.0, last[attempt.round, attempt.attempt]) for attempt in job.closed())
    return gaps + sum(max(0.0, end - over) for end, over in ends)


def modelled_s(history: History, lease: LeaseHistory) -> float | None:
    """The seconds that a lease's task takes in a simulation. None: the job or the device does not say what it needs."""
    cpu = history.capabilities[lease.device].numbers.get("cpu", 0.0)
    compute_s = history.jobs[lease.job].spec.workload.compute_s
    return compute_s / cpu if cpu > 0 and compute_s > 0 else None


def fleet_of(history: History, lease: LeaseHistory) -> str:
    """The fleet of a lease's device; empty: the device names none."""
    return next(iter(history.capabilities[lease.device].labels.get("fleet", ())), "")


def _means(history: History, fleet: str, job: str, leases: list[LeaseHistory]) -> TaskTimes:
    modelled = [each for each in (modelled_s(history, lease) for lease in leases) if each is not None]
    return TaskTimes(
        fleet=fleet,
        job=job,
        tasks=len(leases),
        measured_s=fmean(lease.compute_s or 0.0 for lease in leases),
        modelled_s=fmean(modelled) if modelled else None,
        compute_cpu_s=fmean(lease.compute_cpu_s for lease in leases),
        held_back=fmean(lease.held_back for lease in leases),
    )


def _task_s(history: History, lease: LeaseHistory, limited: Collection[str]) -> float:
    measured = fleet_of(history, lease) in limited
    return (lease.compute_s if measured else modelled_s(history, lease)) or 0.0


def host_line(summary: Summary) -> str:
    """One line of how busy the machine was, and whether the figures can be trusted."""
    host = summary.host
    if host.cpu_max is None:
        return "was not watched, so its load is not known"
    lag = max(host.lag_p99_max_s.values(), default=0.0)
    short = host.cpu_max > BUSY_FRACTION and not any("processor" in reason for reason in host.reasons)
    moment = f" (over {percent(BUSY_FRACTION)} for less than {BUSY_FOR_S} s)" if short else ""
    busy = (
        f"{percent(host.cpu_max)} busy at most{moment}, {percent(host.cpu_mean)} on average, "
        f"{gib(host.memory_max_bytes)} GiB used, event loops late by {lag * 1000:.0f} ms at most"
    )
    if host.saturated:
        return f"{busy}: TOO BUSY, do not trust these figures"
    if summary.interrupted:
        return f"{busy}: not too busy, but the run was interrupted and its figures are partial"
    if summary.duration_s < BUSY_FOR_S:
        return f"{busy}: the run was too short to judge, under {BUSY_FOR_S} s"
    return f"{busy}: figures can be trusted"


def stall_line(host: HostSummary) -> str:
    """A sentence of what stalls touched_jobs, where they are no reason for distrust; empty: there were none."""
    if not host.stalls:
        return ""
    longest = max(host.stalls, key=lambda stall: stall.for_s)
    jobs = ", ".join(f"{name} by at most {seconds:.2f} s" for name, seconds in host.stalled_s.items()) or "no job"
    at = f"the longest {longest.process} at {longest.at_s:.1f} s for {longest.for_s * 1000:.0f} ms"
    return f"{counted(len(host.stalls), 'stall')} of our processes, {at}; touched: {jobs}"
