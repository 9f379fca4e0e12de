"""Figures of a comparison: speed-up with intervals, completion times, the delay split, and differences seed by seed."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report.comparison import Comparison
from testbed.report.figures.drawing import COLLECT, DELAY, INK, QUIET, WIDTH_IN, Drawing, job_colours


def speed_up(comparison: Comparison, name: str) -> Drawing:
    """A bar per policy, with the interval of its speed-up over the first."""
    results = comparison.policies
    figure = Figure(figsize=(WIDTH_IN, 0.7 + 0.4 * len(results)))
    axes = figure.add_subplot()
    rows = []
    for index, result in enumerate(results):
        found = result.speed_up
        mean = found.mean if found else 1.0
        axes.barh(index, mean, color=COLLECT if found else QUIET, height=0.55)
        edge = mean
        if found and math.isfinite(found.high):
            axes.errorbar(
                mean, index, xerr=[[mean - found.low], [found.high - mean]], color=INK, capsize=3, linewidth=1
            )
            edge = found.high
        axes.annotate(f"{mean:.2f}", (edge, index), (6, 0), textcoords="offset points", va="center", fontweight="bold")
        rows.append((result.policy, mean, found.low if found else 1.0, found.high if found else 1.0))
    axes.axvline(1, color=INK, linewidth=0.7)
    _policies(axes, comparison)
    axes.set_xlabel(f"speed-up over {results[0].policy} (mean JCT, seed by seed; 95 % CI)" if results else "")
    return Drawing(f"{name}-speed-up", figure, ("policy", "speed_up", "low", "high"), rows)


def completion_times(comparison: Comparison, name: str) -> Drawing:
    """The share of jobs that are done after so many seconds, a line per policy, all seeds together."""
    colours = job_colours([result.policy for result in comparison.policies])
    figure = Figure(figsize=(WIDTH_IN, 2.8))
    axes = figure.add_subplot()
    rows: list[tuple[object, ...]] = []
    for policy, colour in colours.items():
        jobs = [job for run in comparison.runs if run.policy == policy for job in run.jobs]
        done = sorted(job.jct_s for job in jobs if job.jct_s is not None)
        shares = [(place + 1) / len(jobs) for place in range(len(done))]
        axes.step([0, *done], [0, *shares], where="post", color=colour, label=policy, linewidth=1.4)
        rows += [(policy, jct, share) for jct, share in zip(done, shares, strict=True)]
    axes.set_xlabel("job completion time, seconds")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1.03)
    axes.set_xlim(0, None)
    axes.grid()
    axes.legend(loc="lower right")
    return Drawing(f"{name}-jct", figure, ("policy", "jct_s", "share"), rows)


def delay_split(comparison: Comparison, name: str) -> Drawing:
    """Mean delay, collection and the rest of a job's completion time, a bar per policy."""
    figure = Figure(figsize=(WIDTH_IN, 0.8 + 0.4 * len(comparison.policies)))
    axes = figure.add_subplot()
    rows = []
    for index, result in enumerate(comparison.policies):
        axes.barh(index, result.delay_s, color=DELAY, height=0.55, label="scheduling delay" if index == 0 else None)
        label = "response collection" if index == 0 else None
        axes.barh(index, result.collect_s, left=result.delay_s, color=COLLECT, height=0.55, label=label)
        rows.append((result.policy, result.delay_s, result.collect_s))
    _policies(axes, comparison)
    axes.set_xlabel("seconds per job, mean")
    axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, handlelength=1, handleheight=1)
    return Drawing(f"{name}-split", figure, ("policy", "delay_s", "collect_s"), rows)


def differences(comparison: Comparison, name: str) -> Drawing:
    """How much shorter the mean JCT was than under the first policy: a dot per seed, and the mean with its interval."""
    figure = Figure(figsize=(WIDTH_IN, 0.7 + 0.4 * max(1, len(comparison.policies) - 1)))
    axes = figure.add_subplot()
    rows: list[tuple[object, ...]] = []
    base = _mean_jcts(comparison, comparison.policies[0].policy) if comparison.policies else {}
    others = comparison.policies[1:]
    for index, result in enumerate(others):
        own = _mean_jcts(comparison, result.policy)
        points = [(seed, base[seed] - own[seed]) for seed in sorted(own.keys() & base.keys())]
        axes.scatter([value for _, value in points], [index] * len(points), s=14, color=QUIET, alpha=0.8, linewidths=0)
        found = result.shorter_s
        if found is not None and math.isfinite(found.low):
            axes.errorbar(
                found.mean, index, xerr=found.high - found.mean, color=COLLECT, marker="D", markersize=5, capsize=4
            )
        rows += [(result.policy, seed, value) for seed, value in points]
    axes.axvline(0, color=INK, linewidth=0.7)
    axes.set_yticks(range(len(others)), [result.policy for result in others])
    axes.set_ylim(len(others) - 0.5, -0.5)
    axes.grid(axis="x")
    axes.set_xlabel("mean JCT shorter by, seconds (left of 0: longer)")
    return Drawing(f"{name}-differences", figure, ("policy", "seed", "shorter_s"), rows)


def _mean_jcts(comparison: Comparison, policy: str) -> dict[int, float]:
    runs = [run for run in comparison.runs if run.policy == policy]
    return {run.seed: run.mean_jct_s for run in runs if run.mean_jct_s is not None}


def _policies(axes: Axes, comparison: Comparison) -> None:
    axes.set_yticks(range(len(comparison.policies)), [result.policy for result in comparison.policies])
    axes.set_ylim(len(comparison.policies) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
