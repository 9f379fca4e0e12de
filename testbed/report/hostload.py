"""Whether the machine that ran it all was too busy for its figures to be trusted.

Only what happened while jobs were open is judged: what comes before or after cannot change a figure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordinator.engine.effects import OpenSession
from coordinator.engine.events import TaskFinished
from device_agent.journal import LOAD_S
from testbed.churn.timeline import Verb
from testbed.live.host import BUSY_FOR_S, BUSY_FRACTION, LAG_LIMIT_S, LATE_LIMIT, OURSELVES
from testbed.report.jsonlines import Row, number, text, texts
from testbed.report.record import RunRecord


@dataclass(frozen=True, slots=True)
class HostSummary:
    cpu_max: float | None  # fraction of all cores, the busiest second; None: not sampled
    cpu_mean: float | None
    memory_max_bytes: int | None
    lag_p99_max_s: dict[str, float]  # by process: how late its event loop was at worst
    late_fraction: float  # of finished tasks: their work took longer than their modelled time
    saturated: bool
    reasons: tuple[str, ...]  # why saturated
    too_small: tuple[str, ...]  # what it lacked for the fleet, as estimated before the start


def judge_host(record: RunRecord, window: tuple[float, float]) -> HostSummary:
    """``window`` is in engine seconds."""
    offset = record.journal.wall_ms / 1000
    start, end = window[0] + offset, window[1] + offset
    samples = _within(record.host_samples, start, end)
    cpu = [number(row, "cpu_fraction") for row in samples]
    still = suspended(record.churn)
    lags = {
        name: _worst_lag(_within(rows, start, end))
        for name, rows in sorted(record.loads.items())
        if _target(name) not in still
    }
    if any("lag_p99_s" in row for row in samples):
        lags[OURSELVES] = _worst_lag(samples)
    late = _late_fraction(record, still)
    reasons = (*_busy(cpu), *_lagging(lags), *_late(late), *_behind(record, start, still))
    return HostSummary(
        cpu_max=max(cpu) if cpu else None,
        cpu_mean=sum(cpu) / len(cpu) if cpu else None,
        memory_max_bytes=int(max(number(row, "memory_used_bytes") for row in samples)) if samples else None,
        lag_p99_max_s=lags,
        late_fraction=late,
        saturated=bool(reasons),
        reasons=reasons,
        too_small=tuple(texts(record.about, "too_small")),
    )


def _within(rows: Iterable[Row], start: float, end: float) -> list[Row]:
    return [row for row in rows if start <= number(row, "at") <= end]


def _worst_lag(rows: Sequence[Row]) -> float:
    return max((number(row, "lag_p99_s") for row in rows), default=0.0)


def suspended(churn: Iterable[Row]) -> frozenset[str]:
    """What the timeline let stand still: that it was late says nothing of the host."""
    return frozenset(text(row, "target") for row in churn if row.get("verb") == Verb.SUSPEND)


def _target(process: str) -> str:
    """What a timeline calls a process of ``RunRecord.loads``."""
    kind, _, name = process.partition(" ")
    return {"devices": name, "job": f"driver {name}"}.get(kind, process)


def _late_fraction(record: RunRecord, still: frozenset[str]) -> float:
    opened = (effect for entry in record.journal.entries for effect in entry.effects if isinstance(effect, OpenSession))
    theirs = {effect.session for effect in opened if effect.device in still}
    finished = [
        entry.event
        for entry in record.journal.entries
        if isinstance(entry.event, TaskFinished) and entry.event.session not in theirs
    ]
    return sum(event.late_s > 0 for event in finished) / len(finished) if finished else 0.0


def _busy(cpu: list[float]) -> list[str]:
    """A sample a second: busy if so many in a row are over the limit."""
    for first in range(len(cpu) - BUSY_FOR_S + 1):
        if min(cpu[first : first + BUSY_FOR_S]) > BUSY_FRACTION:
            return [f"the processor was over {BUSY_FRACTION:.0%} busy for {BUSY_FOR_S} s and more"]
    return []


def _lagging(lags: dict[str, float]) -> list[str]:
    late = sorted((lag, name) for name, lag in lags.items() if lag > LAG_LIMIT_S)
    if not late:
        return []
    worst, name = late[-1]
    others = f", and {len(late) - 1} more of our processes," if len(late) > 1 else ""
    limit = f"the limit is {LAG_LIMIT_S * 1000:.0f} ms"
    return [f"the event loop of {name}{others} was late by {worst * 1000:.0f} ms (p99; {limit})"]


def _behind(record: RunRecord, start: float, still: frozenset[str]) -> list[str]:
    """Who hosts devices is there before the first job; its first line comes a second later."""
    hosts = {name: rows for name, rows in record.loads.items() if name.startswith("devices ")}
    ready = {_target(name): number(rows[0], "at") - LOAD_S for name, rows in hosts.items()}
    behind = sorted((at - start, name) for name, at in ready.items() if at > start and name not in still)
    if not behind:
        return []
    last_s, name = behind[-1]
    last = f"{name} {last_s:.1f} s after it"
    return [f"{len(behind)} of {len(ready)} programs with devices were ready only after the first job had come, {last}"]


def _late(fraction: float) -> list[str]:
    if fraction <= LATE_LIMIT:
        return []
    return [f"{fraction:.1%} of the tasks took longer than their modelled time (the limit is {LATE_LIMIT:.0%})"]
