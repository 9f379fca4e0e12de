"""``venn compare``: the same scenario under several policies, and what may be claimed of the difference."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from coordinator.policies.registry import absolute
from testbed.cli.terminal import console
from testbed.report.compare import Plan, check_policies, prepare, run_all
from testbed.report.comparison_page import write_comparison
from testbed.report.comparison_table import comparison_csv, comparison_json, comparison_table
from testbed.scenario import load
from venn.wire.command import Context, command, execute, run_async
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import write_line
from venn.wire.files import write_atomic

WIDTH = 124  # columns of the table

app = typer.Typer(add_completion=False)


@app.command()
@command
def compare(
    context: Context,
    scenarios: Annotated[list[Path], typer.Argument(help="Scenario files.", metavar="SCENARIO...")],
    policies: Annotated[str, typer.Option(help="By name, the baseline first.")] = "random,fifo,srsf,venn",
    seeds: Annotated[int, typer.Option(help="Runs of each policy; a claim needs 3.", min=1, max=1000)] = 3,
    backend: Annotated[str, typer.Option(help="Instead of the scenario's.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted comparison.")] = False,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write every job of every run there.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the runs go.")] = None,
) -> int:
    """Run scenarios under several policies: venn compare three-jobs.yaml --policies random,venn --seeds 5"""
    names = tuple(absolute(name.strip()) for name in policies.split(",") if name.strip())
    check_policies(names)
    loaded = tuple((path.absolute(), load(path)) for path in dict.fromkeys(scenarios))
    if len({scenario.name for _, scenario in loaded}) < len(loaded):
        raise UsageError("SAME_NAME", "two scenarios have the same name", fix="give each its own `name`")
    folder = out or Path("runs") / ("compare-" + "-".join(scenario.name for _, scenario in loaded))
    plan = Plan(loaded, names, seeds, folder.absolute(), backend)
    prepare(plan, resume=resume)
    return run_async(_main(plan, context, csv))


async def _main(plan: Plan, context: Context, csv: Path | None) -> int:
    def say(line: str) -> None:
        if not context.quiet:
            write_line(sys.stderr, line)

    found = await run_all(plan, say)
    page = write_comparison(found, plan.out)
    if csv is not None:
        write_atomic(csv, comparison_csv(found).encode())
    if context.json:
        write_line(sys.stdout, json.dumps({"comparisons": [comparison_json(one) for one in found]}))
    else:
        screen = console(context, least_width=WIDTH)
        for one in found:
            screen.print(comparison_table(one), crop=False)
            screen.print()
        screen.print(f"report  {page}", soft_wrap=True, markup=False, highlight=False)
    whole = all(one.trusted and one.complete for one in found)
    return ExitCode.OK if whole else ExitCode.FAILED


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn compare")
