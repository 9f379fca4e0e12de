"""``venn scenario``: look at scenario files without running them."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from testbed.scenario import Scenario, ScenarioError
from testbed.scenario.checks import drawn
from testbed.scenario.eligible import served_by
from testbed.scenario.packaged import named, packaged_scenarios
from testbed.scenario.schema import json_schema, markdown
from venn.wire.command import Context, command, execute
from venn.wire.errors import ExitCode
from venn.wire.exits import write_line
from venn.wire.notation import format_duration
from venn.wire.text import printable

app = typer.Typer(no_args_is_help=True, add_completion=False)

File = Annotated[str, typer.Argument(metavar="FILE", help="A scenario file, or the name of one that comes with us.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Give a key another value; may be repeated.")
]


@app.callback()
def scenario() -> None:
    """Scenario files."""


@app.command()
@command
def check(context: Context, *, file: File, set: Set = None) -> int:
    """Is it right, and can it be served? e.g.: venn scenario check three-jobs.yaml --set jobs.handwriting.demand=30"""
    try:
        loaded = Scenario.load(named(file), set or ())
    except ScenarioError as error:
        if context.json or len(error.problems) == 1:
            raise
        for problem in error.problems:
            write_line(sys.stderr, printable(str(problem), 2000))
        return ExitCode.USAGE
    if context.json:
        write_line(sys.stdout, json.dumps(_facts(loaded)))
    elif not context.quiet:
        write_line(sys.stdout, _table(loaded))
    return ExitCode.OK


@app.command()
@command
def expand(context: Context, *, file: File, set: Set = None) -> int:
    """Print it in full, with all that is inherited, e.g.: venn scenario expand three-jobs.yaml"""
    loaded = Scenario.load(named(file), set or ())
    text = json.dumps(loaded.model_dump(mode="json", exclude_none=True)) if context.json else loaded.dump().rstrip()
    write_line(sys.stdout, text)
    return ExitCode.OK


@app.command("list")
@command
def list_(context: Context) -> int:
    """The scenarios that come with the testbed, e.g.: venn scenario list"""
    about = {name: (path, _first_comment(path)) for name, path in packaged_scenarios().items()}
    if context.json:
        shape = {name: {"file": str(path), "about": text} for name, (path, text) in about.items()}
        write_line(sys.stdout, json.dumps({"scenarios": shape}))
    else:
        for name, (path, text) in about.items():
            write_line(sys.stdout, f"{name:14} {text}\n{'':14} {path}")
    return ExitCode.OK


@app.command()
@command
def schema(
    context: Context,
    *,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The reference for people.")] = False,
) -> int:
    """The JSON schema of scenario files, for editors, e.g.: venn scenario schema > scenario.schema.json"""
    text = json.dumps(json_schema(), indent=None if context.json else 2)
    write_line(sys.stdout, markdown().rstrip() if as_markdown and not context.json else text)
    return ExitCode.OK


def _facts(scenario: Scenario) -> dict[str, object]:
    devices = drawn(scenario)
    return {
        "name": scenario.name,
        "policy": scenario.policy,
        "backend": scenario.backend,
        "devices": scenario.devices,
        "fleets": [{"name": name, "count": fleet.count} for name, fleet in scenario.fleets.items()],
        "jobs": [
            {
                "name": name,
                "requirement": scenario.requirement_of(name)[1],
                "eligible": served_by(scenario.requirement_of(name)[1], devices),
                "demand": job.demand,
                "rounds": job.rounds,
                "max_rounds": job.max_rounds,
            }
            for name, job in scenario.jobs.items()
        ],
    }


def _table(scenario: Scenario) -> str:
    devices = drawn(scenario)
    of = f"{scenario.devices} devices in {len(scenario.fleets)} fleets"
    lines = [
        f"{scenario.name} is right: policy {scenario.policy}, {of}, {format_duration(scenario.duration)} at most",
        "",
        f"{'JOB':20} {'ROUNDS':>9} {'DEMAND':>6} {'ELIGIBLE':>8}  REQUIREMENT",
    ]
    for name, job in scenario.jobs.items():
        stated, text = scenario.requirement_of(name)
        eligible = served_by(text, devices)
        rounds = str(job.rounds) if job.rounds else f"at most {job.max_rounds}"
        told = text if stated == text else f"{stated}: {text}"
        lines.append(f"{name:20} {rounds:>9} {job.demand:>6} {'?' if eligible is None else eligible:>8}  {told}")
    return "\n".join(lines)


def _first_comment(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().strip("#\n ")


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn scenario")
