"""The folder of a comparison.

``compare.json``: what a comparison is, what it was made on and with, and which file holds each of its runs.

What a comparison leaves for people: its page and figures, and what is printed; built from the files of its runs.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.compare.plan import Asked, Plan
from testbed.report.comparison import Comparison, RunResult, TraceFacts, compare, read_facts, read_run
from testbed.report.comparison_page import write_comparison
from testbed.report.comparison_table import (
    comparison_csv,
    comparison_json,
    comparison_table,
    intervals_csv,
    overview_json,
    overview_table,
    overviews,
)
from testbed.report.terminal import console
from testbed.runfolder.jsonlines import Row, read_object, text, texts
from testbed.runfolder.machine import commit, machine, versions
from venn.wire.command import Context
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import write_line
from venn.wire.files import file_error, write_atomic

MANIFEST = "compare.json"
SCENARIO = "scenario.yaml"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the comparison and the file with its figures."""

    asked: Asked
    file: Path
    world: Path | None = None  # the file with what is true of its world


def prepare(plan: Plan, command: Sequence[str], *, resume: bool) -> None:
    """Make the folder, or check that it is the same comparison's. Raises UsageError, or PeerError on a full disk.

    A simulated comparison may go on with other policies, seeds and scenarios: a cell is only taken for what it is.
    """
    path = plan.out / MANIFEST
    before = read_object(path)
    if plan.out.exists() and (not plan.out.is_dir() or any(plan.out.iterdir())):
        if not resume:
            fix = "add --resume to continue it, or name another with --out"
            raise UsageError("NOT_EMPTY", "exists already and is not an empty folder", where=str(plan.out), fix=fix)
        same = before.get("backend") == _backend(plan) if plan.simulated else before.get("plan") == _described(plan)
        if not same:
            message = "holds another comparison: other scenarios, policies or backend, or a scenario that has changed"
            raise UsageError("OTHER_COMPARISON", message, where=str(plan.out), fix="name another folder with --out")
    try:
        plan.out.mkdir(parents=True, exist_ok=True)
        for workload in plan.workloads:
            (plan.out / workload.name).mkdir(exist_ok=True)
            write_atomic(plan.out / workload.name / SCENARIO, workload.scenario.dump())
        write_manifest(plan, command, ())
    except OSError as error:
        raise file_error(error, plan.out) from error


def write_manifest(plan: Plan, command: Sequence[str], runs: Sequence[Run]) -> None:
    """Write compare.json, with the runs that are done."""
    about: Row = {
        "backend": _backend(plan),
        "command": list(command),
        "plan": _described(plan),
        "policies": list(plan.policies),
        "over": list(plan.over),
        "seeds": {
            workload.name: [workload.scenario.seed + turn for turn in range(plan.seeds)] for workload in plan.workloads
        },
        "overrides": list(plan.overrides),
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
        "runs": [_row(plan, run) for run in runs],
    }
    write_atomic(plan.out / MANIFEST, json.dumps(about, indent=2) + "\n")


def read_comparisons(folder: Path) -> tuple[Row, list[Comparison]]:
    """Read the manifest of a comparison's folder and its runs. Raises UsageError."""
    about = read_object(folder / MANIFEST)
    rows, policies = about.get("runs"), texts(about, "policies")
    if not isinstance(rows, list) or not rows or not policies:
        fix = "give the folder of a comparison or of a run; continue an interrupted one with venn compare --resume"
        raise UsageError("NO_COMPARISON", "has no comparison with a finished run", where=str(folder), fix=fix)
    over = texts(about, "over")
    return about, [_comparison(folder, name, policies, over, own) for name, own in _by_scenario(rows)]


def _comparison(
    folder: Path, name: str, policies: Sequence[str], over: Sequence[str], rows: Sequence[Row]
) -> Comparison:
    results: list[RunResult] = []
    facts: dict[int, TraceFacts] = {}
    for row in rows:
        file = folder / text(row, "file")
        said = read_object(file)
        if not said:
            fix = "venn compare --resume makes it again"
            raise UsageError("RUN_DAMAGED", "is not there any more, or damaged", where=str(file), fix=fix)
        result = read_run(said, text(row, "file"))
        results.append(result)
        world = read_object(folder / text(row, "world")) if text(row, "world") else {}
        if world:
            facts.setdefault(result.seed, read_facts(world))
    return compare(name, policies, results, [facts[seed] for seed in sorted(facts)], over)


def _by_scenario(rows: list[object]) -> Iterator[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if isinstance(row, dict):
            found.setdefault(text(row, "scenario"), []).append(row)
    yield from found.items()


def _row(plan: Plan, run: Run) -> Row:
    said = read_object(run.file)
    row: Row = {
        "scenario": run.asked.workload.name,
        "policy": run.asked.policy,
        "seed": run.asked.seed,
        "file": str(run.file.relative_to(plan.out)),
        "digest": text(said, "digest"),
    }
    return row | ({"world": str(run.world.relative_to(plan.out))} if run.world is not None else {})


def _backend(plan: Plan) -> str:
    return plan.workloads[0].scenario.backend


def _described(plan: Plan) -> Row:
    """The parts of a plan that must not change when live runs are resumed."""
    return {
        "scenarios": {str(each.path): each.digest for each in plan.workloads},
        "policies": list(plan.policies),
        "overrides": list(plan.overrides),
    }


INTERVALS = "intervals.csv"
LEAST_WIDTH = 240  # columns that the tables may take


@dataclass(frozen=True, slots=True)
class BuiltComparison:
    """A comparison that is read and whose page is built."""

    comparisons: Sequence[Comparison]
    policies: Sequence[str]
    page: Path

    @property
    def exit_code(self) -> int:
        """0 if every job of every run finished, on a host that can be trusted; else 1."""
        whole = all(one.trusted and one.complete for one in self.comparisons)
        return ExitCode.OK if whole else ExitCode.FAILED


def build_comparison(folder: Path) -> BuiltComparison:
    """Read the folder of a comparison and write its page, figures and intervals.csv. Raises UsageError."""
    about, comparisons = read_comparisons(folder)
    page = write_comparison(comparisons, folder, about)
    write_atomic(folder / INTERVALS, intervals_csv(comparisons).encode())
    return BuiltComparison(comparisons, texts(about, "policies"), page)


def print_comparison(built: BuiltComparison, context: Context, csv: Path | None = None) -> None:
    """Print a table for each workload and one for all, or one JSON object; write every job of every run into ``csv``.

    Raises UsageError where that cannot be written, and PeerError on a full disk.
    """
    found = built.comparisons
    if csv is not None:
        try:
            write_atomic(csv, comparison_csv(found).encode())
        except OSError as error:
            raise file_error(error, csv) from error
    if context.json:
        said: dict[str, object] = {"comparisons": [comparison_json(one) for one in found]}
        if len(found) > 1:
            said["overviews"] = [overview_json(one) for one in overviews(found, built.policies)]
        write_line(sys.stdout, json.dumps(said))
        return
    screen = console(context, least_width=LEAST_WIDTH)
    for one in found:
        screen.print(comparison_table(one), crop=False)
    if len(found) > 1:
        screen.print(overview_table(overviews(found, built.policies)), crop=False)
    screen.print(f"report  {built.page}", soft_wrap=True, markup=False, highlight=False)
