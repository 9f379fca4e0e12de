"""``venn run``: run a scenario on this machine."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from coordinator.policies.registry import absolute
from testbed.live.programs import kill_all
from testbed.live.run import Result, run_scenario
from testbed.report.summary import to_json
from testbed.report.table import print_summary
from testbed.scenario.model import Scenario
from testbed.scenario.packaged import named
from venn.wire.command import Context, command, execute, run_async
from venn.wire.errors import PeerError
from venn.wire.exits import shape, tell, write_line

NAME = "venn run"

app = typer.Typer(add_completion=False)

Policy = Annotated[str | None, typer.Option(help="In place of the scenario's: an installed one, or FILE.py:NAME.")]
Seed = Annotated[int | None, typer.Option(help="In place of the scenario's.")]
Out = Annotated[Path | None, typer.Option(help="The run folder; default: a new one below ./runs.")]


@app.command()
@command
def run(
    context: Context,
    scenario: Annotated[str, typer.Argument(help="A scenario file, or the name of a packaged one.")],
    policy: Policy = None,
    backend: Annotated[str | None, typer.Option(help="In place of the scenario's.")] = None,
    seed: Seed = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a key.")] = None,
    out: Out = None,
    validate: Annotated[bool, typer.Option("--validate", help="Check the invariants after every event.")] = False,
) -> int:
    """Run a scenario: all parts start, the jobs are watched, a report is written.

    For example: venn run examples/three-jobs.yaml --policy fifo --set jobs.handwriting.demand=10
    """
    settings = list(overrides or ())
    settings += [f"policy={absolute(policy)}"] if policy is not None else []
    settings += [f"backend={backend}"] if backend is not None else []
    settings += [f"seed={seed}"] if seed is not None else []
    return run_file(context, NAME, named(scenario), settings, out=out, validate=validate)


def run_file(
    context: Context, name: str, file: Path, settings: list[str], *, out: Path | None, validate: bool = False
) -> int:
    """Load, run, print, as the command ``name``: its exit code."""
    scenario = Scenario.load(file, settings)
    again = ["venn", "run", str(file), *(word for setting in settings for word in ("--set", setting))]
    results: list[Result] = []

    async def main() -> int:
        result = await run_scenario(
            scenario,
            out=out,
            validate=validate,
            quiet=context.quiet or context.json,
            color=context.color,
            command=again,
        )
        results.append(result)
        return result.exit_code

    code = run_async(main(), at_once=kill_all)
    if results:
        _tell(context, name, results[0], file)
    else:
        stopped = PeerError("STOPPED", "stopped before anything ran", fix="nothing of it is left")
        tell(stopped, name, as_json=context.json)
    return code


def _tell(context: Context, name: str, result: Result, file: Path) -> None:
    failures = result.ending.failures
    if context.json:
        summary = to_json(result.summary) | {"folder": str(result.folder.root)}
        summary |= {"error": shape(failures[0])} if failures else {}
        write_line(sys.stdout, json.dumps(summary))
        return
    console = Console(no_color=not context.color, highlight=False)
    following = "" if failures or result.ending.interrupted else _next(file)
    print_summary(result.summary, console, report=_relative(result.page), following=following)
    for failure in failures:
        tell(failure, name, as_json=False)


def _next(file: Path) -> str:
    return f"venn compare {shlex.quote(str(_relative(file)))} --policies random,fifo,srsf,venn"


def _relative(path: Path) -> Path:
    """As short as it can be named from here."""
    absolute = path.absolute()
    return Path(os.path.relpath(absolute)) if absolute.is_relative_to(Path.cwd()) else absolute


def main(argv: list[str]) -> int:
    return execute(app, argv, NAME)
