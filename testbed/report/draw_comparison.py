"""Figures of a comparison: speed-up, completion times, delay, supply and demand, tiers, the price of fairness."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.report.comparison import HOURS, JAIN, MEAN_COLLECT, MEAN_DELAY, MEAN_JCT, Comparison, PolicyResult
from testbed.report.comparison_table import Overview, interval, unit_of
from testbed.report.drawing import (
    COLLECT,
    DELAY,
    GAPS,
    INK,
    PAPER,
    QUIET,
    RULE,
    WIDTH_IN,
    Drawing,
    Hovers,
    canvas,
    job_colours,
    lanes,
    legend_above,
)
from testbed.report.words import percent, seconds, slug
from testbed.report.words import policy as short


def speed_up(comparison: Comparison, name: str, width_in: float = WIDTH_IN) -> Drawing | None:
    """Draws speed-ups over each policy of ``--over``: a dot for each seed, and the mean with its interval."""
    names = [result.policy for result in comparison.policies]
    if not any(comparison.pair(policy, base) for base in comparison.over for policy in names):
        return None
    bases = len(comparison.over)
    across, down = (bases, 1) if width_in == WIDTH_IN else (1, bases)
    figure = Figure(figsize=(width_in, (0.9 + 0.4 * len(names)) * down), layout="constrained")
    hovers = Hovers()
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
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
    lanes(panels[0], [short(name) for name in names], f"times shorter than {short(comparison.over[0])}")
    for axes in panels[1:]:
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
    header = ("policy", "over", "seed", "speed_up", "mean", "low", "high")
    return Drawing(f"{name}-speed-up", "How many times shorter the mean JCT is", figure, header, rows, hovers)


def completion_times(comparison: Comparison, name: str, width_in: float = WIDTH_IN) -> Drawing:
    """Draws the share of jobs that are done after so many seconds, a line per policy, all seeds together."""
    colours = job_colours([result.policy for result in comparison.policies])
    unit = unit_of(comparison)
    figure = canvas(width_in, 2.8)
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


def delay_split(comparison: Comparison, name: str, width_in: float = WIDTH_IN) -> Drawing:
    """Draws mean delay, collection and the rest of a job's completion time, a bar per policy."""
    unit = unit_of(comparison)
    figure = canvas(width_in, 0.8 + 0.4 * len(comparison.policies))
    axes = figure.add_subplot()
    rows = []
    hovers = Hovers()
    for index, result in enumerate(comparison.policies):
        delay, collect = (result.measures[part].mean / unit.seconds for part in (MEAN_DELAY, MEAN_COLLECT))
        gaps = max(0.0, result.mean_jct_s.mean / unit.seconds - delay - collect)
        parts = (
            ("waiting for devices", DELAY, 0.0, delay),
            ("waiting for responses", COLLECT, delay, collect),
            ("between attempts", GAPS, delay + collect, gaps),
        )
        for label, colour, left, value in parts:
            bars = axes.barh(index, value, left=left, color=colour, height=0.55, label="" if index else label)
            hovers.say(bars[0], f"{short(result.policy)}: {label} {unit.text(value * unit.seconds)} {unit.name}")
        rows.append((result.policy, *(part * unit.seconds for part in (delay, collect, gaps))))
    lanes(axes, [short(result.policy) for result in comparison.policies], f"{unit.name} per job, mean")
    legend_above(axes)
    title = "Mean delay, collection and gaps of a job, by policy"
    return Drawing(f"{name}-split", title, figure, ("policy", "delay_s", "collect_s", "gaps_s"), rows, hovers)


def workloads(found: Overview) -> Drawing:
    """Draws the speed-up of every policy on every workload, and its mean, with intervals."""
    names = (*found.workloads, "geometric mean")
    colours = job_colours(found.policies)  # those of the other figures
    figure = Figure(figsize=(WIDTH_IN, 3.0), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / max(1, len(found.rows))
    hovers = Hovers()
    rows: list[tuple[object, ...]] = []
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
            rows.append((names[index], row.policy, one.mean, one.low, one.high))
    axes.axhline(1, color=INK, linewidth=0.7)
    axes.axvline(len(names) - 1.5, color=RULE, linewidth=1)
    axes.set_xticks(range(len(names)), names)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(f"speed-up over {short(found.base)} (95 % CI)")
    axes.grid(axis="y")
    figure.legend(loc="outside upper left", ncols=min(4, max(1, len(found.rows))), handlelength=1, handleheight=1)
    header = ("workload", "policy", "speed_up", "low", "high")
    title = f"How many times shorter the mean JCT is than under {short(found.base)}"
    return Drawing(f"overview-speed-up-{slug(found.base)}", title, figure, header, rows, hovers)


ACROSS = 2
MOST_GROUPS = 6  # that are drawn
_PARAMETERS = re.compile(r"^(?P<base>.*?)\((?P<parameters>.*)\)$")
FAIRNESS = "fairness"


def supply_and_demand(comparison: Comparison, name: str, width_in: float = WIDTH_IN) -> Drawing | None:
    """Draws, by requirement and hour of the day until the last run ends, devices that check in (left axis), and devices
    that unfilled requests ask for (right axis). None without simulated runs.
    """
    if not comparison.facts or not comparison.facts[0].groups:
        return None
    groups = comparison.facts[0].groups[:MOST_GROUPS]
    across = min(ACROSS if width_in == WIDTH_IN else 1, len(groups))
    down = math.ceil(len(groups) / across)
    figure = Figure(figsize=(width_in, 2.3 * down + 0.4), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharex=True).ravel()
    end = _end_h(comparison)
    colours = job_colours([result.policy for result in comparison.policies])
    hovers = Hovers()
    rows: list[tuple[object, ...]] = []
    for axes, group in zip(grid, groups, strict=False):
        days = [each.per_hour for facts in comparison.facts for each in facts.groups if each.name == group.name]
        per_hour = _mean_hours(days)[: math.ceil(end)]
        _day(axes, per_hour, GAPS, "check-ins an hour", fill=True)
        texts = [
            f"{group.name}, {hour:02d}:00\ncheck-ins an hour: {_figure(value)}" for hour, value in enumerate(per_hour)
        ]
        rows += [(group.name, "check-ins an hour", hour, value) for hour, value in enumerate(per_hour)]
        right = axes.twinx()
        for policy, colour in colours.items():
            runs = [run.wanted.get(group.name, ()) for run in comparison.runs if run.policy == policy]
            wanted = _mean_hours([each for each in runs if each])[: math.ceil(end)]
            _day(right, wanted, colour, f"wanted under {policy}", fill=False)
            texts = [
                f"{said}\nwanted under {short(policy)}: {_figure(value)}"
                for said, value in zip(texts, wanted, strict=True)
            ]
            rows += [(group.name, policy, hour, value) for hour, value in enumerate(wanted)]
        middle = [0.5 * max(value or 0.0 for value in per_hour)] * len(texts)
        hovers.points(axes, [(hour + min(hour + 1, end)) / 2 for hour in range(len(texts))], middle, texts)
        axes.set_title(group.name)
        axes.set_xlim(0, end)
        ticks = range(0, HOURS + 1, 6) if end == HOURS else [end * part / 3 for part in range(4)]
        axes.set_xticks(ticks, [_time_of_day(tick, end) for tick in ticks])
        axes.set_ylim(0, None)
        right.set_ylim(0, None)
        right.spines["right"].set_visible(True)
        right.tick_params(axis="y", labelcolor=INK)
        axes.set_ylabel("check-ins an hour")
        right.set_ylabel("devices wanted")
        handles, labels = (
            [*mine, *other]
            for mine, other in zip(axes.get_legend_handles_labels(), right.get_legend_handles_labels(), strict=True)
        )
    for axes in grid[len(groups) :]:
        axes.set_axis_off()
    figure.legend(handles, labels, loc="outside upper left", ncols=min(4 if width_in == WIDTH_IN else 1, len(labels)))
    header = ("requirement", "what", "hour", "devices")
    return Drawing(f"{name}-supply", "Supply and demand over the day", figure, header, rows, hovers)


def _end_h(comparison: Comparison) -> float:
    """When the last job of all runs ended, hours from the first midnight on; at most a day."""
    ends = [job.arrived_s + job.jct_s for run in comparison.runs for job in run.jobs if job.jct_s is not None]
    if any(not job.finished for run in comparison.runs for job in run.jobs):
        return HOURS
    return min(HOURS, max(ends, default=0.0) / 3600) or HOURS


def _time_of_day(hours: float, end_h: float) -> str:
    """``06:00``; with its seconds where all of the time is less than ten minutes."""
    whole = round(3600 * hours)
    said = f"{whole // 3600:02d}:{whole // 60 % 60:02d}"
    return said if end_h >= 1 / 6 else f"{said}:{whole % 60:02d}"


def tier_times(comparison: Comparison, name: str, width_in: float = WIDTH_IN) -> Drawing | None:
    """Draws how long a task takes on each quarter of the devices, by speed: from the 5th to the 95th percentile.

    None without simulated runs.
    """
    if not comparison.facts or not comparison.facts[0].tiers:
        return None
    tiers = comparison.facts[0].tiers
    figure = canvas(width_in, 0.8 + 0.4 * len(tiers))
    axes = figure.add_subplot()
    hovers = Hovers()
    for index, tier in enumerate(tiers):
        axes.plot([tier.p5_s, tier.p95_s], [index, index], color=COLLECT, linewidth=1.2, solid_capstyle="butt")
        bars = axes.barh(index, tier.p75_s - tier.p25_s, left=tier.p25_s, height=0.5, color=COLLECT)
        hovers.say(
            bars[0],
            f"tier {tier.tier}: median {seconds(tier.p50_s)} s, p5 {seconds(tier.p5_s)} s, p95 {seconds(tier.p95_s)} s",
        )
        axes.plot([tier.p50_s] * 2, [index - 0.25, index + 0.25], color=PAPER, linewidth=1.6)
        axes.annotate(f"p95 {tier.p95_s:.0f} s", (tier.p95_s, index), (6, 0), textcoords="offset points", va="center")
    labels = {0: f"tier {tiers[0].tier} (fastest)", len(tiers) - 1: f"tier {tiers[-1].tier} (slowest)"}
    names = [labels.get(index, f"tier {tier.tier}") for index, tier in enumerate(tiers)]
    lanes(
        axes, names, "response time, seconds" + (" (median, middle half, 5 % to 95 %)" if width_in == WIDTH_IN else "")
    )
    axes.set_xlim(0, (1.12 if width_in == WIDTH_IN else 1.4) * max(tier.p95_s for tier in tiers))
    rows = [(tier.tier, tier.p5_s, tier.p25_s, tier.p50_s, tier.p75_s, tier.p95_s) for tier in tiers]
    header = ("tier", "p5_s", "p25_s", "p50_s", "p75_s", "p95_s")
    return Drawing(f"{name}-tiers", "Response times by tier", figure, header, rows, hovers)


def fairness_curve(comparison: Comparison, name: str, width_in: float = WIDTH_IN) -> Drawing | None:
    """Draws Jain's index and mean JCT against the fairness knob, for policies that were compared with several values.

    None if none was.
    """
    curves = knobs(comparison.policies)
    if not curves:
        return None
    unit = unit_of(comparison)
    narrow = width_in < WIDTH_IN
    figure = Figure(figsize=(width_in, 5.6 if narrow else 2.8), layout="constrained")
    left, right = figure.subplots(*((2, 1) if narrow else (1, 2)))
    colours = job_colours(list(curves))
    hovers = Hovers()
    rows: list[tuple[object, ...]] = []
    for base, points in curves.items():
        knob = [value for value, _ in points]
        for axes, measure, scale in ((left, JAIN, 1.0), (right, MEAN_JCT, unit.seconds)):
            means = [result.measures[measure] for _, result in points]
            axes.errorbar(
                knob,
                [mean.mean / scale for mean in means],
                yerr=[(mean.high - mean.mean) / scale if math.isfinite(mean.high) else 0.0 for mean in means],
                fmt="o-",
                color=colours[base],
                label=short(base),
                markersize=4,
                capsize=3,
                linewidth=1.4,
            )
            texts = [
                f"{short(base)}, fairness {value:g}: {mean.mean / scale:.2f}"
                for value, mean in zip(knob, means, strict=True)
            ]
            hovers.points(axes, knob, [mean.mean / scale for mean in means], texts)
        rows += [(base, value, *(result.measures[each].mean for each in (JAIN, MEAN_JCT))) for value, result in points]
    left.set_ylabel("Jain's index of JCT over fair JCT (95 % CI)")
    right.set_ylabel(f"mean JCT, {unit.name} (95 % CI)")
    for axes in (left, right):
        axes.set_xlabel("fairness knob")
        axes.grid(axis="y")
    left.legend()
    header = ("policy", "fairness", "jain", "mean_jct_s")
    return Drawing(f"{name}-fairness", "Fairness and its price", figure, header, rows, hovers)


def knobs(results: Sequence[PolicyResult]) -> dict[str, list[tuple[float, PolicyResult]]]:
    """Policies that differ in their fairness knob alone, by what they have in common; a policy without it has 0."""
    found: dict[str, list[tuple[float, PolicyResult]]] = defaultdict(list)
    for result in results:
        base, value = knob_of(result.policy)
        found[base].append((value, result))
    return {base: sorted(points, key=lambda point: point[0]) for base, points in found.items() if len(points) > 1}


def knob_of(policy: str) -> tuple[str, float]:
    """``venn(fairness=2; tiers=1)`` -> ``venn(tiers=1)``, 2."""
    match = _PARAMETERS.match(policy)
    if match is None:
        return policy, 0.0
    value, others = 0.0, []
    for part in match["parameters"].split(";"):
        key, _, stated = part.partition("=")
        if key.strip() == FAIRNESS:
            try:
                value = float(stated)
            except ValueError:
                return policy, 0.0
        else:
            others.append(part.strip())
    base = match["base"].strip()
    return (f"{base}({'; '.join(others)})" if others else base), value


def _day(axes: Axes, values: Sequence[float | None], colour: str, label: str, *, fill: bool) -> None:
    """Draw a step for each hour."""
    edges, heights = list(range(len(values) + 1)), [math.nan if value is None else value for value in values]
    if fill:
        axes.stairs(heights, edges, fill=True, color=colour, alpha=0.55, label=label)
    else:
        axes.stairs(heights, edges, color=colour, linewidth=1.4, label=label)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _mean_hours(days: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The mean by hour of the day, over the days that have it."""
    found: list[float | None] = []
    for hour in range(HOURS):
        values = [value for day in days if hour < len(day) and (value := day[hour]) is not None]
        found.append(math.fsum(values) / len(values) if values else None)
    return found
