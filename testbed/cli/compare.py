"""``venn compare``: the same scenarios under several policies, and what may be claimed of the difference."""

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from coordinator.policies.registry import absolute
from testbed.cli.shared import POLICIES, AllowDegraded, Backend, RoundsScale, Scale, Set, overrides
from testbed.cli.shared import scenarios as scenario_names
from testbed.compare.folder import build_comparison, prepare, print_comparison, write_manifest
from testbed.compare.plan import Plan, Workload, check_policies, workload
from testbed.compare.runs import Progress, finished_cells, run_cells, run_live
from testbed.report.terminal import console
from testbed.scenario import load
from testbed.scenario.packaged import named
from venn.wire.command import Context, application, command, run_async
from venn.wire.errors import UsageError
from venn.wire.exits import write_line

app = application()


@app.command(epilog="Example: venn compare even small --scale 0.1 --policies random,fifo,venn --seeds 5")
@command
def compare(
    context: Context,
    scenarios: Annotated[
        list[str],
        typer.Argument(
            help="Scenario files, or names of packaged scenarios.",
            metavar="SCENARIO...",
            autocompletion=scenario_names,
        ),
    ],
    policies: Annotated[str, typer.Option(help="Policies, separated by commas.")] = POLICIES,
    over: Annotated[str, typer.Option(help="Policies to compare with; default: the first.")] = "",
    seeds: Annotated[int, typer.Option(help="How many runs of each policy; a claim needs 3.", min=1, max=1000)] = 3,
    backend: Backend = None,
    scale: Scale = None,
    rounds_scale: RoundsScale = None,
    set: Set = None,
    jobs: Annotated[int, typer.Option(help="Simulations at once; 0: one for each core.", min=0, max=1024)] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted comparison.")] = False,
    allow_degraded: AllowDegraded = False,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write a line for each job and run here.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the comparison; default: one below ./runs.")] = None,
) -> int:
    """Run scenarios under several policies. Simulated runs use all cores."""
    names, bases = _names(policies), _names(over)
    check_policies(names, bases)
    settings = overrides(set, backend=backend, scale=scale, rounds_scale=rounds_scale)
    loaded = _load(list(dict.fromkeys(scenarios)), settings)
    folder = out or Path("runs") / ("compare-" + "-".join(each.name for each in loaded))
    plan = Plan(loaded, names, seeds, folder.absolute(), tuple(settings), jobs or _cores(), allow_degraded, bases)
    again = ["venn", "compare", *(str(each.path) for each in loaded), "--policies", ",".join(names)]
    again += [*(["--over", ",".join(bases)] if bases else []), "--seeds", str(seeds), *plan.flags]
    _check_simulated(plan)
    prepare(plan, again, resume=resume)
    return run_async(_main(plan, context, again, csv))


def _names(policies: str) -> tuple[str, ...]:
    """The policies, as they were listed; files are named in full."""
    return tuple(absolute(name.strip()) for name in policies.split(",") if name.strip())


def _check_simulated(plan: Plan) -> None:
    """Check that nothing is asked for that has no effect in simulations. Raises UsageError."""
    if plan.simulated and plan.allow_degraded:
        fix = "leave it out, or give --backend process"
        raise UsageError("USAGE", "has no effect in a simulation", where="--allow-degraded", fix=fix)


def _load(scenarios: list[str], settings: list[str]) -> tuple[Workload, ...]:
    """Load the scenarios. Raises ScenarioError, or UsageError where they do not go together."""
    loaded = tuple(workload(path, load(path, settings)) for path in (named(each).absolute() for each in scenarios))
    if len({each.name for each in loaded}) < len(loaded):
        raise UsageError("SAME_NAME", "two scenarios have the same name", fix="give each its own `name`")
    if len({each.scenario.backend for each in loaded}) > 1:
        fix = "compare them one by one, or give --backend"
        raise UsageError("OTHER_BACKEND", "the scenarios have different backends", fix=fix)
    return loaded


async def _main(plan: Plan, context: Context, command: list[str], csv: Path | None) -> int:
    progress = _progress(plan, context)
    try:
        with progress:
            runs = await (run_cells if plan.simulated else run_live)(plan, progress)
    except BaseException as error:
        if plan.simulated:
            write_manifest(plan, command, finished_cells(plan))  # venn report shows what there is
        if isinstance(error, asyncio.CancelledError):
            _stopped(plan, context, progress)
        raise
    write_manifest(plan, command, runs)
    built = build_comparison(plan.out)
    print_comparison(built, context, csv)
    return built.exit_code


def _progress(plan: Plan, context: Context) -> Progress:
    def say(line: str) -> None:
        if not context.quiet:
            write_line(sys.stderr, line)

    screen = console(context, errors=True)
    bar = screen if screen.is_terminal and not screen.is_dumb_terminal and not context.quiet else None
    return Progress(len(list(plan.runs())), plan.processes if plan.simulated else 1, say, bar)


def _stopped(plan: Plan, context: Context, progress: Progress) -> None:
    """Say how to go on."""
    if not context.quiet:
        folder = shlex.quote(str(plan.out))
        look = f"; venn report {folder} shows what there is" if plan.simulated and progress.done else ""
        write_line(sys.stderr, f"stopped after {progress.done} of {progress.total} runs; continue with --resume{look}")


def _cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
