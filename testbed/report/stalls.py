"""Processes that stood still: for one moment, or again and again.

A stall is one turn of an event loop that came late by more than ``STALL_S``. One that stays alone moved no figure by
more than its length. Stalls that come again within seconds are what a busy machine looks like: then the work between
them is slower too, and nobody knows by how much.
"""

from collections.abc import Iterable, Mapping, Sequence

from testbed.runfolder.jsonlines import Row, number_pairs
from testbed.runfolder.summary import Stall

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
