"""Figures of a simulation that kept no journal: how its jobs' completion times lie, and its attempts over time."""

import numpy as np
from matplotlib.figure import Figure

from testbed.report.figures.drawing import COLLECT, DELAY, QUIET, WIDTH_IN, Drawing, Hovers, legend_above
from testbed.report.words import percent, seconds, span
from testbed.runfolder.attempts import Attempts
from testbed.runfolder.summary import CLOCK, Summary

_HOUR_S = 3600.0
_SPANS = 120  # that the time is cut into


def completed(summary: Summary) -> Drawing:
    """The share of jobs that had completed so long after they arrived."""
    times = sorted(job.jct_s for job in summary.jobs if job.jct_s is not None)
    shares = [(place + 1) / len(summary.jobs) for place in range(len(times))]
    figure = Figure(figsize=(WIDTH_IN, 2.6))
    axes = figure.add_subplot()
    axes.step([0.0, *(time / _HOUR_S for time in times)], [0.0, *shares], where="post", color=COLLECT)
    hovers = Hovers()
    said = [f"{percent(share)} of the jobs in {span(time)}" for time, share in zip(times, shares, strict=True)]
    hovers.points(axes, [time / _HOUR_S for time in times], shares, said)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.set_xlabel("job completion time, hours")
    axes.set_ylabel("share of jobs that are done")
    axes.grid()
    rows = list(zip(times, shares, strict=True))
    return Drawing("completed", "The share of jobs done over time", figure, ("jct_s", "share"), rows, hovers)


def attempts_over_time(attempts: Attempts) -> Drawing:
    """Mean delay and collection of the attempts that ended in each span of time, and how many aborted."""
    ended = attempts.ended_s
    delay, collect = attempts.filled_s - attempts.opened_s, ended - attempts.filled_s
    aborted = (~attempts.closed).astype(np.float64)
    edges = np.linspace(0.0, ended.max() if len(ended) else 1.0, _SPANS + 1)
    place = np.clip(np.searchsorted(edges, ended, side="left") - 1, 0, _SPANS - 1)
    counts = np.bincount(place, minlength=_SPANS)
    have = np.flatnonzero(counts)
    means = [np.bincount(place, weights=each, minlength=_SPANS)[have] / counts[have] for each in (delay, collect)]
    lost = np.bincount(place, weights=aborted, minlength=_SPANS)[have]
    hours = edges[have + 1] / _HOUR_S
    figure = Figure(figsize=(WIDTH_IN, 3.6))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.stackplot(hours, means, colors=(DELAY, COLLECT), labels=("scheduling delay", "response collection"))
    above.set_ylabel("mean seconds")
    legend_above(above)
    below.step(hours, counts[have], where="pre", color=QUIET, label="attempts")
    below.step(hours, lost, where="pre", color=DELAY, label="aborted")
    below.set_ylabel("attempts ended")
    below.set_xlabel(CLOCK.replace("seconds", "hours"))
    below.legend(ncols=2, loc="upper right")
    hovers = Hovers()
    texts = [
        f"until {span(until)}: {int(count)} attempts, {int(gone)} aborted, "
        f"delay {seconds(waited)} s, collection {seconds(worked)} s"
        for until, waited, worked, count, gone in zip(edges[have + 1], *means, counts[have], lost, strict=True)
    ]
    for axes, heights in ((above, (means[0] + means[1]) / 2), (below, counts[have])):
        hovers.points(axes, hours.tolist(), heights.tolist(), texts)
    rows = list(zip(edges[have + 1], *means, counts[have], lost, strict=True))
    header = ("until_s", "mean_delay_s", "mean_collect_s", "attempts", "aborted")
    return Drawing("attempts", "Delay and collection of attempts over time", figure, header, rows, hovers)
