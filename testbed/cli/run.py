"""``venn run``: run a scenario on this machine, or simulate it."""

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from coordinator.policies.registry import absolute
from testbed.cli import choices
from testbed.live.processes.programs import kill_all
from testbed.live.run import run_scenario
from testbed.report.build import Result
from testbed.report.summary import to_json
from testbed.report.table import print_summary
from testbed.scenario import load
from testbed.scenario.loader import as_words
from testbed.scenario.model import Scenario
from testbed.scenario.packaged import named
from testbed.simulate.scenario import run_simulated
from venn.wire.command import Context, application, command, execute, run_async
from venn.wire.errors import PeerError
from venn.wire.exits import shape, tell, write_line

NAME = "venn run"

app = application()

Policy = Annotated[
    str | None,
    typer.Option(
        help="Policy, in place of the scenario's: an installed one, or FILE.py:NAME.",
        autocompletion=choices.policies,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed, in place of the scenario's.")]
Scale = Annotated[float | None, typer.Option(help="Set `scale`: 0.1 is a tenth of the devices and demands.")]
RoundsScale = Annotated[float | None, typer.Option(help="Set `rounds_scale`: 0.1 is a tenth of the rounds.")]
Out = Annotated[Path | None, typer.Option(help="Run folder; default: a new one below ./runs.")]

AllowDegraded = Annotated[
    bool, typer.Option("--allow-degraded", help="Run even if a limit cannot be enforced; report it.")
]


@app.command(epilog="Example: venn run examples/three-jobs.yaml --policy fifo --set jobs.handwriting.demand=10")
@command
def run(
    context: Context,
    scenario: Annotated[
        str, typer.Argument(help="Scenario file, or the name of a packaged one.", autocompletion=choices.scenarios)
    ],
    policy: Policy = None,
    backend: Annotated[str | None, typer.Option(help="Backend, in place of the scenario's.")] = None,
    seed: Seed = None,
    scale: Scale = None,
    rounds_scale: RoundsScale = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a key; repeatable.")
    ] = None,
    out: Out = None,
    validate: Annotated[bool, typer.Option("--validate", help="Check the invariants after every event.")] = False,
    allow_degraded: AllowDegraded = False,
) -> int:
    """Run a scenario: start all parts, watch the jobs, write a report."""
    settings = list(overrides or ())
    flags = {"backend": backend, "seed": seed, "scale": scale, "rounds_scale": rounds_scale}
    flags["policy"] = absolute(policy) if policy is not None else None
    settings += [f"--{key.replace('_', '-')}={value}" for key, value in flags.items() if value is not None]
    return run_file(context, NAME, named(scenario), settings, out=out, validate=validate, allow_degraded=allow_degraded)


def run_file(
    context: Context,
    name: str,
    file: Path,
    settings: list[str],
    *,
    out: Path | None,
    validate: bool = False,
    allow_degraded: bool = False,
) -> int:
    """Load, run, print, as the command ``name``: its exit code."""
    scenario = load(file, settings)
    again = ["venn", "run", str(file), *as_words(settings)]
    asked = _Asked(scenario, out, validate, allow_degraded, context.quiet or context.json, context.color, again)
    result, code = asked.simulated() if scenario.backend_spec.simulated else asked.live()
    if result is not None:
        _tell(context, name, result, file)
    else:
        stopped = PeerError("STOPPED", "stopped before the run began", fix="nothing is left behind")
        tell(stopped, name, as_json=context.json)
    return code


@dataclass(frozen=True, slots=True)
class _Asked:
    """A run as it was asked for. Each way to run it gives its result, None if it never began, and the exit code."""

    scenario: Scenario
    out: Path | None
    validate: bool
    allow_degraded: bool
    quiet: bool
    color: bool
    command: list[str]

    def simulated(self) -> tuple[Result | None, int]:
        result, signal = run_simulated(
            self.scenario,
            out=self.out,
            validate=self.validate,
            quiet=self.quiet,
            color=self.color,
            command=self.command,
        )
        return result, 128 + signal if signal else result.exit_code

    def live(self) -> tuple[Result | None, int]:
        results: list[Result] = []

        async def main() -> int:
            result = await run_scenario(
                self.scenario,
                out=self.out,
                validate=self.validate,
                quiet=self.quiet,
                allow_degraded=self.allow_degraded,
                color=self.color,
                command=self.command,
            )
            results.append(result)
            return result.exit_code

        code = run_async(main(), at_once=kill_all)
        return (results[0] if results else None), code


def _tell(context: Context, name: str, result: Result, file: Path) -> None:
    failures = result.ending.failures
    if context.json:
        summary = to_json(result.summary) | {"folder": str(result.folder.root)}
        summary |= {"error": shape(failures[0])} if failures else {}
        write_line(sys.stdout, json.dumps(summary))
        return
    console = Console(no_color=not context.color, highlight=False)
    following = "" if failures or result.ending.interrupted else _next(file, result.summary.backend)
    print_summary(result.summary, console, report=_report(result), following=following)
    for failure in failures:
        tell(failure, name, as_json=False)


def _report(result: Result) -> str:
    """Where it is, or the command that draws it."""
    if result.page is not None:
        return str(_relative(result.page))
    return f"venn report {shlex.quote(str(_relative(result.folder.root)))}"


def _next(file: Path, backend: str) -> str:
    simulated = " --backend sim" if backend == "sim" else ""
    return f"venn compare {shlex.quote(str(_relative(file)))} --policies random,fifo,srsf,venn{simulated}"


def _relative(path: Path) -> Path:
    """As short as it can be named from here."""
    absolute = path.absolute()
    return Path(os.path.relpath(absolute)) if absolute.is_relative_to(Path.cwd()) else absolute


def main(argv: list[str]) -> int:
    return execute(app, argv, NAME)
