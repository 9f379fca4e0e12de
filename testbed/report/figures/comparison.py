"""Figures of a comparison: speed-up with intervals, completion times, the delay split, differences seed by seed."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report.comparison import MEAN_COLLECT, MEAN_DELAY, MEAN_JCT, Comparison
from testbed.report.comparison_table import Overview, interval, unit_of
from testbed.report.figures.drawing import (
    COLLECT,
    DELAY,
    INK,
    QUIET,
    RULE,
    WIDTH_IN,
    Drawing,
    Hovers,
    job_colours,
    legend_above,
)
from testbed.report.words import percent, slug
from testbed.report.words import policy as short


def speed_up(comparison: Comparison, name: str) -> Drawing | None:
    """Draws speed-ups over each policy of ``--over``: a dot for each seed, and the mean with its interval."""
    names = [result.policy for result in comparison.policies]
    if not any(comparison.pair(policy, base) for base in comparison.over for policy in names):
        return None
    figure = Figure(figsize=(WIDTH_IN, 0.9 + 0.4 * len(names)), layout="constrained")
    hovers = Hovers()
    panels = figure.subplots(1, len(comparison.over), squeeze=False, sharey=True)[0]
    rows: list[tuple[object, ...]] = []
    for axes, base in zip(panels, comparison.over, strict=True):
        for index, policy in enumerate(names):
            pair = comparison.pair(policy, base)
            if pair is None:
                continue
            seeds, found = pair.by_seed[MEAN_JCT], pair.speed_up
            look = {"linestyle": "", "marker": "o", "markersize": 4, "markeredgewidth": 0}
            (dots,) = axes.plot(list(seeds.values()), [index] * len(seeds), color=QUIET, alpha=0.8, **look)
            hovers.say(dots, [f"{short(policy)}, seed {seed}: {value:.2f}" for seed, value in seeds.items()])
            spread = [[found.mean - found.low], [found.high - found.mean]] if math.isfinite(found.high) else None
            axes.errorbar(found.mean, index, xerr=spread, color=COLLECT, marker="D", markersize=5, capsize=4)
            hovers.points(axes, [found.mean], [index], [f"{short(policy)}: {found.mean:.2f} ({interval(found)})"])
            label = f"{found.mean:.2f}"
            axes.annotate(label, (found.mean, index), (0, 6), textcoords="offset points", ha="center", color=INK)
            rows += [(policy, base, seed, value, found.mean, found.low, found.high) for seed, value in seeds.items()]
        axes.axvline(1, color=INK, linewidth=0.7)
        axes.set_xlabel(f"times shorter than {short(base)}")
    _policies(panels[0], comparison)
    for axes in panels[1:]:
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
    header = ("policy", "over", "seed", "speed_up", "mean", "low", "high")
    return Drawing(f"{name}-speed-up", "How many times shorter the mean JCT is", figure, header, rows, hovers)


def completion_times(comparison: Comparison, name: str) -> Drawing:
    """The share of jobs that are done after so many seconds, a line per policy, all seeds together."""
    colours = job_colours([result.policy for result in comparison.policies])
    unit = unit_of(comparison)
    figure = Figure(figsize=(WIDTH_IN, 2.8))
    axes = figure.add_subplot()
    hovers = Hovers()
    rows: list[tuple[object, ...]] = []
    for policy, colour in colours.items():
        jobs = [job for run in comparison.runs if run.policy == policy for job in run.jobs]
        done = sorted(job.jct_s for job in jobs if job.jct_s is not None)
        shares = [(place + 1) / len(jobs) for place in range(len(done))]
        times = [0.0, *(jct / unit.seconds for jct in done)]
        axes.step(times, [0, *shares], where="post", color=colour, label=short(policy), linewidth=1.4)
        texts = [
            f"{short(policy)}: {percent(share)} of the jobs in {unit.text(jct)} {unit.name}"
            for jct, share in zip(done, shares, strict=True)
        ]
        hovers.points(axes, times[1:], shares, texts)
        rows += [(policy, jct, share) for jct, share in zip(done, shares, strict=True)]
    axes.set_xlabel(f"job completion time, {unit.name}")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1.03)
    axes.set_xlim(0, None)
    axes.grid()
    axes.legend(loc="lower right")
    title = "The share of jobs done over time, by policy"
    return Drawing(f"{name}-jct", title, figure, ("policy", "jct_s", "share"), rows, hovers)


def delay_split(comparison: Comparison, name: str) -> Drawing:
    """Mean delay, collection and the rest of a job's completion time, a bar per policy."""
    unit = unit_of(comparison)
    figure = Figure(figsize=(WIDTH_IN, 0.8 + 0.4 * len(comparison.policies)))
    axes = figure.add_subplot()
    rows = []
    hovers = Hovers()
    for index, result in enumerate(comparison.policies):
        delay, collect = (result.measures[part].mean / unit.seconds for part in (MEAN_DELAY, MEAN_COLLECT))
        parts = (("scheduling delay", DELAY, 0.0, delay), ("response collection", COLLECT, delay, collect))
        for label, colour, left, value in parts:
            bars = axes.barh(index, value, left=left, color=colour, height=0.55, label="" if index else label)
            hovers.say(bars[0], f"{short(result.policy)}: {label} {unit.text(value * unit.seconds)} {unit.name}")
        rows.append((result.policy, delay * unit.seconds, collect * unit.seconds))
    _policies(axes, comparison)
    axes.set_xlabel(f"{unit.name} per job, mean")
    legend_above(axes)
    title = "Mean delay and collection of a job, by policy"
    return Drawing(f"{name}-split", title, figure, ("policy", "delay_s", "collect_s"), rows, hovers)


def workloads(found: Overview) -> Drawing:
    """The speed-up of every policy on every workload, and its mean, with intervals."""
    names = (*found.workloads, "geometric mean")
    colours = job_colours(found.policies)  # those of the other figures
    figure = Figure(figsize=(WIDTH_IN, 3.0), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / max(1, len(found.rows))
    hovers = Hovers()
    written: list[tuple[object, ...]] = []
    for place, row in enumerate(found.rows):
        label: str | None = short(row.policy)
        for index, one in enumerate((*row.speed_ups, row.means[MEAN_JCT])):
            if one is None:
                continue
            at = index + (place - (len(found.rows) - 1) / 2) * width
            bars = axes.bar(at, one.mean, width * 0.9, color=colours[row.policy], label=label)
            hovers.say(bars[0], f"{short(row.policy)} on {names[index]}: {one.mean:.2f} ({interval(one)})")
            label = None
            if math.isfinite(one.high):
                spread = [[one.mean - one.low], [one.high - one.mean]]
                axes.errorbar(at, one.mean, yerr=spread, color=INK, capsize=2, linewidth=0.9)
            written.append((names[index], row.policy, one.mean, one.low, one.high))
    axes.axhline(1, color=INK, linewidth=0.7)
    axes.axvline(len(names) - 1.5, color=RULE, linewidth=1)
    axes.set_xticks(range(len(names)), names)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(f"speed-up over {short(found.base)} (95 % CI)")
    axes.grid(axis="y")
    figure.legend(loc="outside upper left", ncols=min(4, max(1, len(found.rows))), handlelength=1, handleheight=1)
    header = ("workload", "policy", "speed_up", "low", "high")
    title = f"How many times shorter the mean JCT is than under {short(found.base)}"
    return Drawing(f"overview-speed-up-{slug(found.base)}", title, figure, header, written, hovers)


def _policies(axes: Axes, comparison: Comparison) -> None:
    axes.set_yticks(range(len(comparison.policies)), [short(result.policy) for result in comparison.policies])
    axes.set_ylim(len(comparison.policies) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
