"""Figures of a comparison: speed-up with intervals, completion times, the delay split, differences seed by seed."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report.comparison import Comparison, unit_of
from testbed.report.figures.drawing import COLLECT, DELAY, INK, QUIET, RULE, WIDTH_IN, Drawing, job_colours
from testbed.report.overview import Overview
from testbed.report.words import policy as short


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
    axes.set_xlabel(f"speed-up over {short(results[0].policy)} (mean JCT, seed by seed; 95 % CI)" if results else "")
    return Drawing(f"{name}-speed-up", figure, ("policy", "speed_up", "low", "high"), rows)


def completion_times(comparison: Comparison, name: str) -> Drawing:
    """The share of jobs that are done after so many seconds, a line per policy, all seeds together."""
    colours = job_colours([result.policy for result in comparison.policies])
    unit = unit_of(comparison)
    figure = Figure(figsize=(WIDTH_IN, 2.8))
    axes = figure.add_subplot()
    rows: list[tuple[object, ...]] = []
    for policy, colour in colours.items():
        jobs = [job for run in comparison.runs if run.policy == policy for job in run.jobs]
        done = sorted(job.jct_s for job in jobs if job.jct_s is not None)
        shares = [(place + 1) / len(jobs) for place in range(len(done))]
        times = [0.0, *(jct / unit.seconds for jct in done)]
        axes.step(times, [0, *shares], where="post", color=colour, label=short(policy), linewidth=1.4)
        rows += [(policy, jct, share) for jct, share in zip(done, shares, strict=True)]
    axes.set_xlabel(f"job completion time, {unit.name}")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1.03)
    axes.set_xlim(0, None)
    axes.grid()
    axes.legend(loc="lower right")
    return Drawing(f"{name}-jct", figure, ("policy", "jct_s", "share"), rows)


def delay_split(comparison: Comparison, name: str) -> Drawing:
    """Mean delay, collection and the rest of a job's completion time, a bar per policy."""
    unit = unit_of(comparison)
    figure = Figure(figsize=(WIDTH_IN, 0.8 + 0.4 * len(comparison.policies)))
    axes = figure.add_subplot()
    rows = []
    for index, result in enumerate(comparison.policies):
        delay, collect = result.delay_s / unit.seconds, result.collect_s / unit.seconds
        axes.barh(index, delay, color=DELAY, height=0.55, label="scheduling delay" if index == 0 else None)
        label = "response collection" if index == 0 else None
        axes.barh(index, collect, left=delay, color=COLLECT, height=0.55, label=label)
        rows.append((result.policy, result.delay_s, result.collect_s))
    _policies(axes, comparison)
    axes.set_xlabel(f"{unit.name} per job, mean")
    axes.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, handlelength=1, handleheight=1)
    return Drawing(f"{name}-split", figure, ("policy", "delay_s", "collect_s"), rows)


def differences(comparison: Comparison, name: str) -> Drawing:
    """How much shorter the mean JCT was than under the first policy: a dot per seed, and the mean with its interval."""
    unit = unit_of(comparison)
    figure = Figure(figsize=(WIDTH_IN, 0.7 + 0.4 * max(1, len(comparison.policies) - 1)))
    axes = figure.add_subplot()
    rows: list[tuple[object, ...]] = []
    base = _mean_jcts(comparison, comparison.policies[0].policy) if comparison.policies else {}
    others = comparison.policies[1:]
    for index, result in enumerate(others):
        own = _mean_jcts(comparison, result.policy)
        points = [(seed, base[seed] - own[seed]) for seed in sorted(own.keys() & base.keys())]
        times = [value / unit.seconds for _, value in points]
        axes.scatter(times, [index] * len(points), s=14, color=QUIET, alpha=0.8, linewidths=0)
        found = result.shorter_s
        if found is not None and math.isfinite(found.low):
            half = (found.high - found.mean) / unit.seconds
            mean = found.mean / unit.seconds
            axes.errorbar(mean, index, xerr=half, color=COLLECT, marker="D", markersize=5, capsize=4)
        rows += [(result.policy, seed, value) for seed, value in points]
    axes.axvline(0, color=INK, linewidth=0.7)
    axes.set_yticks(range(len(others)), [short(result.policy) for result in others])
    axes.set_ylim(len(others) - 0.5, -0.5)
    axes.grid(axis="x")
    axes.set_xlabel(f"mean JCT shorter by, {unit.name} (left of 0: longer)")
    return Drawing(f"{name}-differences", figure, ("policy", "seed", "shorter_s"), rows)


def workloads(found: Overview) -> Drawing:
    """The speed-up of every policy on every workload, and its mean, with intervals."""
    rows = (*found.rows, found.mean)
    colours = job_colours((found.base, *found.policies))  # those of the other figures
    figure = Figure(figsize=(WIDTH_IN, 3.0), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / max(1, len(found.policies))
    written: list[tuple[object, ...]] = []
    for place, policy in enumerate(found.policies):
        for index, row in enumerate(rows):
            one = row.speed_ups[place]
            if one is None:
                continue
            at = index + (place - (len(found.policies) - 1) / 2) * width
            axes.bar(at, one.mean, width * 0.9, color=colours[policy], label=short(policy) if index == 0 else None)
            if math.isfinite(one.high):
                spread = [[one.mean - one.low], [one.high - one.mean]]
                axes.errorbar(at, one.mean, yerr=spread, color=INK, capsize=2, linewidth=0.9)
            written.append((row.workload, policy, one.mean, one.low, one.high))
    axes.axhline(1, color=INK, linewidth=0.7)
    axes.axvline(len(rows) - 1.5, color=RULE, linewidth=1)
    axes.set_xticks(range(len(rows)), [row.workload for row in rows])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(f"speed-up over {short(found.base)} (95 % CI)")
    axes.grid(axis="y")
    figure.legend(loc="outside upper left", ncols=min(6, len(found.policies)), handlelength=1, handleheight=1)
    return Drawing("overview-speed-up", figure, ("workload", "policy", "speed_up", "low", "high"), written)


def _mean_jcts(comparison: Comparison, policy: str) -> dict[int, float]:
    runs = [run for run in comparison.runs if run.policy == policy]
    return {run.seed: run.mean_jct_s for run in runs if run.mean_jct_s is not None}


def _policies(axes: Axes, comparison: Comparison) -> None:
    axes.set_yticks(range(len(comparison.policies)), [short(result.policy) for result in comparison.policies])
    axes.set_ylim(len(comparison.policies) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
