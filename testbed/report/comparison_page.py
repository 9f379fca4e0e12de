"""The page of a comparison: one HTML file that opens offline, with every figure beside it."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from markupsafe import Markup

from testbed.report.comparison import MEAN_COLLECT, MEAN_DELAY, MEAN_JCT, Comparison, Pair, PolicyResult, believed
from testbed.report.comparison_table import headline, overview_sheets, overviews, problems, sheets
from testbed.report.draw_comparison import (
    completion_times,
    delay_split,
    fairness_curve,
    speed_up,
    supply_and_demand,
    tier_times,
    workloads,
)
from testbed.report.drawing import NARROW_IN, WIDTH_IN, Drawing, save, styled
from testbed.report.explain import LEAST_S, shortened
from testbed.report.page import (
    BETWEEN,
    FOR_DEVICES,
    FOR_RESPONSES,
    REPRODUCE,
    WAITS,
    Section,
    Times,
    environment,
    facts,
    time_parts,
)
from testbed.report.words import counted, duration, percent, policy
from testbed.runfolder.jsonlines import Row, texts
from testbed.runfolder.summary import Waited
from venn.wire.files import write_atomic

PAGE = "comparison.html"
FIGURES = "figures"

DRAWN: tuple[tuple[str, str, Callable[[Comparison, str, float], Drawing | None]], ...] = (
    ("Mean JCT, seed by seed", "A dot for each seed; the mean with its 95 % interval.", speed_up),
    ("Job completion times", "", completion_times),
    (
        "Fairness and its price",
        "As the knob grows, jobs come closer to the same multiple of what they would take alone.",
        fairness_curve,
    ),
    (
        "Supply and demand over the day",
        "Grey, left axis: eligible devices that check in, an hour. Lines, right axis: devices that requests ask for "
        "which are not filled yet, in the mean.",
        supply_and_demand,
    ),
    (
        "Response times by tier",
        "A task of the jobs' mean workload on each quarter of the sessions, by speed, without noise: the median, the "
        "middle half, and from 5 % to 95 %.",
        tier_times,
    ),
)


def write_comparison(comparisons: Sequence[Comparison], folder: Path, about: Row) -> Path:
    """Write comparison.html and figures/ into a folder; returns the page's path. ``about`` is the manifest."""
    shown = [_shown(one, folder / FIGURES) for one in comparisons]
    whole = overviews(comparisons, texts(about, "policies")) if len(comparisons) > 1 else []
    sections = [
        WAITS,
        *([Section("overview", "Overview")] if whole else []),
        *(Section(f"workload-{place}", one.name) for place, one in enumerate(comparisons, start=1)),
        REPRODUCE,
    ]
    page = (
        environment()
        .get_template("comparison.html.j2")
        .render(
            sections=sections,
            lead=_lead(comparisons, texts(about, "policies")),
            shown=shown,
            overview=[sheet for one in whole for sheet in overview_sheets(one)],
            overview_figures=[_saved(partial(workloads, one), folder / FIGURES) for one in whole],
            short=policy,
            command=shlex.join(texts(about, "command")),
            facts=facts(about, {}),
        )
    )
    path = folder / PAGE
    write_atomic(path, page.encode())
    return path


def _lead(comparisons: Sequence[Comparison], policies: Sequence[str]) -> str:
    """A sentence of what was compared, and of the best policy of each workload."""
    best = [f"{policy(result.policy)} on {one.name}" for one in comparisons for result in one.policies if result.best]
    ahead = (
        f"The policy with a shorter mean JCT than every other one: {', '.join(best)}."
        if best
        else "No policy can be said to have a shorter mean JCT than every other one."
    )
    counts = (counted(len(policies), "policy", "policies"), counted(len(comparisons), "workload"))
    return f"{' on '.join(counts)}, {counted(len(comparisons[0].seeds), 'seed')}. {ahead}"


def _shown(comparison: Comparison, folder: Path) -> dict[str, object]:
    """What a page shows of one workload."""
    with styled():
        drawings = [
            (title, note, drawing, draw(comparison, comparison.name, NARROW_IN))
            for title, note, draw in DRAWN
            if comparison.policies and (drawing := draw(comparison, comparison.name, WIDTH_IN)) is not None
        ]
        split = [
            delay_split(comparison, comparison.name, each) for each in (WIDTH_IN, NARROW_IN) if comparison.policies
        ]
    return {
        "comparison": comparison,
        "headline": headline(comparison).split("   ")[:-1],
        "same": headline(comparison).split("   ")[-1],
        "times": policy_times(comparison),
        "sheets": sheets(comparison),
        "problems": problems(comparison),
        "matrix": _matrix(comparison),
        "split": save(split[0], folder, split[1]) if split else "",
        "against": _against(comparison),
        "reasons": any(job.waits for run in comparison.runs for job in run.jobs),
        "figures": [
            {"title": title, "note": note, "svg": save(drawing, folder, narrow)}
            for title, note, drawing, narrow in drawings
        ],
        "whys": list(dict.fromkeys(run.why for run in comparison.runs if run.why)),  # not simulated in bulk
    }


def _matrix(comparison: Comparison) -> list[tuple[str, list[tuple[str, str]]]]:
    """The speed-up of each row's policy over each column's, each with a class of the style sheet: may it be claimed?"""
    names = [result.policy for result in comparison.policies]
    return [(policy(row), [_cell(comparison.pair(row, column)) for column in names]) for row in names]


def _cell(pair: Pair | None) -> tuple[str, str]:
    if pair is None:
        return "", ""
    return f"{pair.speed_up.mean:.2f}", {pair.policy: "ok", pair.against: "bad"}.get(pair.ahead, "")


def _saved(draw: Callable[[], Drawing], folder: Path) -> Markup:
    with styled():
        drawing = draw()
    return save(drawing, folder)


def policy_times(comparison: Comparison) -> list[Times]:
    """The time of a job under each policy, in the mean, with the reasons of its waits where all runs know them."""
    return [_policy(comparison, result) for result in comparison.policies]


def _policy(comparison: Comparison, result: PolicyResult) -> Times:
    jct, delay, collect, gaps = _split(result)
    said = f"{duration(jct)}, of which {duration(delay)} ({percent(delay / jct)}) {FOR_DEVICES}."
    return Times(policy(result.policy), said, time_parts(_reasons(comparison, result.policy), delay, collect, gaps, {}))


def _split(result: PolicyResult) -> tuple[float, float, float, float]:
    """The mean JCT and its parts: delay, collection, gaps; seconds."""
    jct, delay, collect = (result.measures[each].mean for each in (MEAN_JCT, MEAN_DELAY, MEAN_COLLECT))
    return jct, delay, collect, max(0.0, jct - delay - collect)


def _reasons(comparison: Comparison, name: str) -> list[Waited]:
    """Why a job waited for devices under a policy, in the mean over the jobs of a run and over runs, longest first."""
    own = [run for run in comparison.runs if run.policy == name and run.mean_jct_s]
    runs = list(believed(own).values())
    if not all(job.waits for run in runs for job in run.jobs if job.delay_s >= LEAST_S):
        return []
    shares = [
        replace(wait, seconds=wait.seconds / len(run.jobs) / len(runs))
        for run in runs
        for job in run.jobs
        for wait in job.waits
    ]
    return [wait for wait in shortened(shares, ()) if wait.seconds >= LEAST_S]


def _against(comparison: Comparison) -> list[str]:
    """A sentence for each policy: how its mean JCT, and each part of it, differs from that of the first policy."""
    if not comparison.policies:
        return []
    base, *others = comparison.policies
    found = []
    for result in others:
        jct, *parts = (own - before for own, before in zip(_split(result), _split(base), strict=True))
        named = zip((FOR_DEVICES, FOR_RESPONSES, BETWEEN), parts, strict=True)
        said = ", ".join(f"{_change(part)} {name}" for name, part in named if abs(part) >= LEAST_S)
        less = f"{_change(jct)} than" if abs(jct) >= LEAST_S else "as long as"
        parted = f": {said}" if said else ""
        found.append(f"Under {policy(result.policy)} a job takes {less} under {policy(base.policy)}{parted}.")
    return found


def _change(seconds: float) -> str:
    return f"{duration(abs(seconds))} {'less' if seconds < 0 else 'more'}"
