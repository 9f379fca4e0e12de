"""Processes that stood still: for one moment, or again and again.

A stall is one turn of an event loop that came late by more than ``STALL_S``. One that stays alone moved no figure by
more than its length. Stalls that come again within seconds are what a busy machine looks like: then the work between
them is slower too, and nobody knows by how much.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.live.host import AGAIN, BUSY_FOR_S
from testbed.report.jsonlines import Row, number_pairs

Span = tuple[float, float]  # on the run's clock


@dataclass(frozen=True, slots=True)
class Stall:
    process: str
    at_s: float  # when it began, on the run's clock
    for_s: float
    jobs: tuple[str, ...] = ()  # whose figures it may have moved, by at most its length

    @property
    def end_s(self) -> float:
        return self.at_s + self.for_s


def stalls_in(process: str, rows: Iterable[Row], zero_unix_s: float, window: Span) -> list[Stall]:
    """Those that a process wrote down and that ended within a window."""
    found = []
    for row in rows:
        for end, late in number_pairs(row.get("stalls")):
            if window[0] <= end - zero_unix_s <= window[1]:
                found.append(Stall(process, end - zero_unix_s - late, late))
    return found


def again_and_again(stalls: Sequence[Stall]) -> Span | None:
    """From when to when ``AGAIN`` stalls came within ``BUSY_FOR_S``; None: never. They are of one process, in order."""
    close = [
        (first.at_s, last.end_s)
        for first, last in zip(stalls, stalls[AGAIN - 1 :], strict=False)
        if last.at_s - first.at_s <= BUSY_FOR_S
    ]
    return (close[0][0], close[-1][1]) if close else None


def touched(process: str, at: Span, jobs: Mapping[str, Span]) -> tuple[str, ...]:
    """The jobs that were open then, and of which the process has a part. A driver has one job; any other process may
    have kept a device or an answer from any of them.
    """
    kind, _, name = process.partition(" ")
    open_ = (job for job, (start, end) in jobs.items() if start < at[1] and at[0] < end)
    return tuple(job for job in open_ if kind != "job" or job == name)


def together_s(stalls: Iterable[Stall], span: Span) -> float:
    """Seconds of a span in which at least one of them went on."""
    total, reached = 0.0, span[0]
    for stall in sorted(stalls, key=lambda one: one.at_s):
        start, end = max(stall.at_s, reached), min(stall.end_s, span[1])
        total += max(0.0, end - start)
        reached = max(reached, end)
    return total
