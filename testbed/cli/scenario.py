"""``venn scenario``: look at scenario files without running them."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli import choices
from testbed.report.words import counted
from testbed.scenario import Scenario, ScenarioError, load
from testbed.scenario.checks import drawn
from testbed.scenario.packaged import named, packaged_scenarios
from testbed.scenario.requirements import served_by
from testbed.scenario.schema import json_schema, markdown, schema_text
from testbed.scenario.unfold import unfolded
from testbed.simulate.bound import contention
from testbed.simulate.build import build
from testbed.world.timeline import Action, Verb
from venn.wire.command import Context, application, command, execute
from venn.wire.errors import ExitCode
from venn.wire.exits import write_line
from venn.wire.notation import format_duration
from venn.wire.text import printable

MOST_PRINTED = 1000  # actions; no more in any scenario of fleets that comes with us

app = application(several=True)

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Scenario file, or the name of a packaged one.",
        autocompletion=choices.scenarios,
    ),
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a key; repeatable.")]


@app.callback()
def scenario() -> None:
    """Scenario files."""


@app.command(epilog="Example: venn scenario check three-jobs.yaml --set jobs.handwriting.demand=30")
@command
def check(context: Context, *, file: File, set: Set = None) -> int:
    """Check a scenario, and that devices can serve its jobs."""
    try:
        loaded = load(named(file), set or ())
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


@app.command(epilog="Example: venn scenario expand three-jobs.yaml")
@command
def expand(context: Context, *, file: File, set: Set = None) -> int:
    """Print a scenario in full, with inherited values and its timeline."""
    loaded = load(named(file), set or ())
    actions = build(loaded).actions if loaded.churn else ()
    if context.json:
        timeline = {"timeline": [action.to_json() for action in actions]} if actions else {}
        text = json.dumps(loaded.model_dump(mode="json", exclude_none=True) | timeline)
    else:
        text = "\n".join([loaded.dump().rstrip(), *_timeline(loaded, actions)])
    write_line(sys.stdout, text)
    return ExitCode.OK


@app.command("list", epilog="Example: venn scenario list")
@command
def list_(context: Context) -> int:
    """List the packaged scenarios."""
    about = {name: (path, _about(path)) for name, path in packaged_scenarios().items()}
    if context.json:
        shape = {name: {"file": str(path), "about": text} for name, (path, text) in about.items()}
        write_line(sys.stdout, json.dumps({"scenarios": shape}))
    else:
        for name, (path, text) in about.items():
            write_line(sys.stdout, f"{name:16} {text}\n{'':16} {path}")
    return ExitCode.OK


@app.command(epilog="Example: venn scenario schema > scenario.schema.json")
@command
def schema(
    context: Context,
    *,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference in Markdown.")] = False,
) -> int:
    """Print the JSON schema of scenario files, for editors."""
    text = json.dumps(json_schema()) if context.json else markdown().rstrip() if as_markdown else schema_text()
    write_line(sys.stdout, text)
    return ExitCode.OK


def _timeline(scenario: Scenario, actions: Sequence[Action]) -> list[str]:
    """As comments, so that what is printed is a scenario still."""
    if not actions:
        return []
    told = _each(scenario, actions) if len(actions) <= MOST_PRINTED else _sums(scenario, actions)
    return ["", f"# {counted(len(actions), 'action')}", *told]


def _each(scenario: Scenario, actions: Sequence[Action]) -> Iterator[str]:
    yield f"# {'AT':>9} {'UNTIL':>9}  {'ACTION':11} {'ON':24} ENTRY"
    for each in actions:
        until = "" if each.until_s is None else f"{each.until_s:.3f}"
        yield f"# {each.at_s:9.3f} {until:>9}  {each.verb:11} {each.target:24} {scenario.churn[each.entry]}"


def _sums(scenario: Scenario, actions: Sequence[Action]) -> Iterator[str]:
    """Too many to be read one by one: a line for what an entry comes to, and --json has each."""
    found: dict[tuple[int, Verb], list[Action]] = {}
    for each in actions:
        found.setdefault((each.entry, each.verb), []).append(each)
    yield f"# {'FIRST':>9} {'LAST':>9}  {'ACTION':11} {'TIMES':24} ENTRY"
    for (entry, verb), same in sorted(found.items()):
        first, last = same[0].at_s, same[-1].at_s
        yield f"# {first:9.3f} {last:9.3f}  {verb:11} {len(same):<24} {scenario.churn[entry]}"


def _facts(scenario: Scenario) -> dict[str, object]:
    whole = unfolded(scenario)
    told: dict[str, object] = {
        "name": scenario.name,
        "policy": scenario.policy,
        "backend": scenario.backend,
        "fleets": [{"name": name, "count": fleet.count} for name, fleet in whole.fleets.items()],
    }
    if scenario.population is None:
        devices = drawn(whole)
        eligible = {name: served_by(whole.requirement_of(name)[1], devices) for name in whole.jobs}
        return told | {"devices": whole.devices, "jobs": _jobs(whole, eligible)}
    simulation = build(scenario)
    groups = [asdict(each) | {"days": each.days} for each in contention(simulation)]
    return told | {"devices": simulation.devices, "jobs": _jobs(whole, {}), "groups": groups}


def _jobs(scenario: Scenario, eligible: Mapping[str, int | None]) -> list[dict[str, object]]:
    """All jobs, those that are drawn among them."""
    return [
        {
            "name": name,
            "requirement": scenario.requirement_of(name)[1],
            **({"eligible": eligible[name]} if eligible else {}),
            "demand": job.demand,
            "rounds": job.rounds,
            "max_rounds": job.max_rounds,
            "arrives_s": job.arrives,
        }
        for name, job in scenario.jobs.items()
    ]


def _table(scenario: Scenario) -> str:
    whole = unfolded(scenario)
    if scenario.population is not None:
        return _contention(scenario, whole)
    devices = drawn(whole)
    of = f"{whole.devices} devices in {len(whole.fleets)} fleets"
    lines = [*_right(scenario, of), f"{'JOB':20} {'ROUNDS':>9} {'DEMAND':>6} {'ELIGIBLE':>8}  REQUIREMENT"]
    for name, job in whole.jobs.items():
        stated, text = whole.requirement_of(name)
        eligible = served_by(text, devices)
        rounds = str(job.rounds) if job.rounds else f"at most {job.max_rounds}"
        told = text if stated == text else f"{stated}: {text}"
        lines.append(f"{name:20} {rounds:>9} {job.demand:>6} {'?' if eligible is None else eligible:>8}  {told}")
    return "\n".join(lines)


def _contention(scenario: Scenario, whole: Scenario) -> str:
    """Lines about a population: what is asked of all its devices together."""
    simulation = build(scenario)
    lines = _right(scenario, f"{simulation.devices} devices")
    head = f"{'JOBS':>5} {'ROUNDS':>9} {'DEVICES ASKED':>14} {'CHECK-INS A DAY':>16} {'DAYS OF THEM':>13}"
    lines.append(f"{'REQUIREMENT':20} {head}")
    lines += [
        f"{each.requirement:20} {each.jobs:>5} {each.rounds:>9} {each.demand:>14} {each.supply_per_day:>16.0f}"
        f" {each.days:>13.1f}"
        for each in contention(simulation)
    ]
    hours = max(job.arrives for job in whole.jobs.values()) / 3600
    return "\n".join([*lines, "", f"The last job comes after {hours:.1f} hours."])


def _right(scenario: Scenario, devices: str) -> list[str]:
    limit = format_duration(scenario.duration)
    return [f"{scenario.name} is right: policy {scenario.policy}, {devices}, {limit} at most", ""]


def _about(path: Path) -> str:
    """Its second line: the first one names the schema."""
    with path.open(encoding="utf-8") as file:
        file.readline()
        return file.readline().strip("#\n ")


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn scenario")
