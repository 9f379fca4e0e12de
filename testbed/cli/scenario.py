"""``venn scenario``: look at scenario files without running them; and ``venn new``, which writes one to start from."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.shared import ScenarioFile, Set, answer
from testbed.report.words import counted
from testbed.scenario import Scenario, ScenarioError, load
from testbed.scenario.packaged import named, packaged_scenarios
from testbed.scenario.requirements import served_by
from testbed.scenario.schema import json_schema, markdown, schema_text
from testbed.scenario.unfold import unfolded
from testbed.world.timeline import Action, Verb
from venn.wire.command import Context, application, command
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import write_line
from venn.wire.files import out_of_space
from venn.wire.notation import format_duration
from venn.wire.text import printable

if TYPE_CHECKING:
    from testbed.simulate.model import Simulation

MOST_PRINTED = 1000  # actions; no more in any scenario of fleets that comes with us

app = application()
scenario = application("Scenario files.", several=True)
app.add_typer(scenario, name="scenario")

STARTER = Path(__file__).parents[1] / "scenario" / "starter"
FILES = ("scenario.yaml", "job.py")
SCHEMA = "scenario.schema.json"  # the first line of scenario.yaml names it, for editors


@scenario.command(epilog="Example: venn scenario check three-jobs.yaml --set jobs.handwriting.demand=30")
@command
def check(context: Context, *, file: ScenarioFile, set: Set = None) -> int:
    """Check a scenario, and that devices can serve its jobs."""
    try:
        loaded = load(named(file), set or ())
    except ScenarioError as error:
        if context.json or len(error.problems) == 1:
            raise
        for problem in error.problems:
            write_line(sys.stderr, printable(str(problem), 2000))
        return ExitCode.USAGE
    answer(context, _facts(loaded) if context.json else None, _table(loaded), unless_quiet=True)
    return ExitCode.OK


@scenario.command(epilog="Example: venn scenario expand three-jobs.yaml")
@command
def expand(context: Context, *, file: ScenarioFile, set: Set = None) -> int:
    """Print a scenario in full, with inherited values and its timeline."""
    loaded = load(named(file), set or ())
    actions = _simulation(loaded).actions if loaded.churn else ()
    timeline = {"timeline": [action.to_json() for action in actions]} if actions else {}
    text = "\n".join([loaded.dump().rstrip(), *_timeline(loaded, actions)])
    answer(context, loaded.model_dump(mode="json", exclude_none=True) | timeline, [text])
    return ExitCode.OK


@scenario.command("list", epilog="Example: venn scenario list")
@command
def list_(context: Context) -> int:
    """List the packaged scenarios."""
    about = {name: (path, _about(path)) for name, path in packaged_scenarios().items()}
    shape = {name: {"file": str(path), "about": text} for name, (path, text) in about.items()}
    lines = (f"{name:16} {text}\n{'':16} {path}" for name, (path, text) in about.items())
    answer(context, {"scenarios": shape}, lines)
    return ExitCode.OK


@scenario.command(epilog="Example: venn scenario schema > scenario.schema.json")
@command
def schema(
    context: Context,
    *,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference in Markdown.")] = False,
) -> int:
    """Print the JSON schema of scenario files, for editors."""
    answer(context, json_schema(), [markdown().rstrip() if as_markdown else schema_text()])
    return ExitCode.OK


@app.command(epilog="Example: venn new my-jobs")
@command
def new(
    context: Context,
    *,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write to; made if absent.")] = Path(),
) -> int:
    """Write scenario.yaml and job.py to start from, and the schema that editors check scenario.yaml against."""
    paths = write_starter(folder)
    told = f"wrote {paths[0]}, {paths[1]} and {paths[2]}\nnext  venn run {paths[0]}        (half a minute)"
    answer(context, {"files": [str(path) for path in paths]}, [told], unless_quiet=True)
    return ExitCode.OK


def write_starter(folder: Path) -> list[Path]:
    """Writes the files to start from. Raises UsageError rather than overwrite one; then nothing is written."""
    paths = [folder / name for name in (*FILES, SCHEMA)]
    for path in paths:
        if path.exists() or path.is_symlink():
            raise UsageError("EXISTS", "exists already", where=str(path), fix="name another folder: venn new DIR")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            with path.open("xb") as file:
                file.write(
                    (schema_text() + "\n").encode() if path.name == SCHEMA else (STARTER / path.name).read_bytes()
                )
    except OSError as error:
        unusable = UsageError("NO_FOLDER", f"cannot be written to: {error.strerror}", where=str(folder))
        raise out_of_space(error, folder) or unusable from None
    return paths


def _simulation(scenario: Scenario) -> "Simulation":
    from testbed.simulate.build import build  # takes as long to import as all else, and few commands need it

    return build(scenario)


def _timeline(scenario: Scenario, actions: Sequence[Action]) -> Iterator[str]:
    """Comments, so that what is printed is a scenario still."""
    if actions:
        yield from ("", f"# {counted(len(actions), 'action')}")
        yield from _each(scenario, actions) if len(actions) <= MOST_PRINTED else _sums(scenario, actions)


def _each(scenario: Scenario, actions: Sequence[Action]) -> Iterator[str]:
    yield f"# {'AT':>9} {'UNTIL':>9}  {'ACTION':11} {'ON':24} ENTRY"
    for each in actions:
        until = "" if each.until_s is None else f"{each.until_s:.3f}"
        yield f"# {each.at_s:9.3f} {until:>9}  {each.verb:11} {each.target:24} {scenario.churn[each.entry]}"


def _sums(scenario: Scenario, actions: Sequence[Action]) -> Iterator[str]:
    """A line for what an entry comes to, where actions are too many to be read one by one; --json has each."""
    found: dict[tuple[int, Verb], list[Action]] = {}
    for each in actions:
        found.setdefault((each.entry, each.verb), []).append(each)
    yield f"# {'FIRST':>9} {'LAST':>9}  {'ACTION':11} {'TIMES':24} ENTRY"
    for (entry, verb), same in sorted(found.items()):
        first, last = same[0].at_s, same[-1].at_s
        yield f"# {first:9.3f} {last:9.3f}  {verb:11} {len(same):<24} {scenario.churn[entry]}"


def _facts(scenario: Scenario) -> dict[str, object]:
    """What ``venn scenario check --json`` prints, with the jobs that are drawn."""
    whole = unfolded(scenario)
    told: dict[str, object] = {"name": scenario.name, "policy": scenario.policy, "backend": scenario.backend}
    told["fleets"] = [{"name": name, "count": fleet.count} for name, fleet in whole.fleets.items()]
    jobs: dict[str, dict[str, object]] = {
        name: {
            "name": name,
            "requirement": whole.requirement_of(name)[1],
            "demand": job.demand,
            "rounds": job.rounds,
            "max_rounds": job.max_rounds,
            "arrives_s": job.arrives,
        }
        for name, job in whole.jobs.items()
    }
    told |= {"devices": whole.devices, "jobs": list(jobs.values())}
    if scenario.population is None:
        devices = whole.drawn_devices()
        for name, facts in jobs.items():
            facts["eligible"] = served_by(whole.requirement_of(name)[1], devices)
        return told
    from testbed.simulate.bound import contention

    simulation = _simulation(scenario)
    groups = [asdict(each) | {"days": each.days} for each in contention(simulation)]
    return told | {"devices": simulation.devices, "groups": groups}


def _table(scenario: Scenario) -> Iterator[str]:
    whole = unfolded(scenario)
    if scenario.population is not None:
        yield from _contention(scenario, whole)
        return
    devices = whole.drawn_devices()
    yield from _right(scenario, f"{whole.devices} devices in {len(whole.fleets)} fleets")
    yield f"{'JOB':20} {'ROUNDS':>9} {'DEMAND':>6} {'ELIGIBLE':>8}  REQUIREMENT"
    for name, job in whole.jobs.items():
        stated, text = whole.requirement_of(name)
        eligible = served_by(text, devices)
        rounds = str(job.rounds) if job.rounds else f"at most {job.max_rounds}"
        told = text if stated == text else f"{stated}: {text}"
        yield f"{name:20} {rounds:>9} {job.demand:>6} {'?' if eligible is None else eligible:>8}  {told}"


def _contention(scenario: Scenario, whole: Scenario) -> Iterator[str]:
    """Lines about a population: what is asked of all its devices together."""
    from testbed.simulate.bound import contention

    simulation = _simulation(scenario)
    yield from _right(scenario, f"{simulation.devices} devices")
    head = f"{'JOBS':>5} {'ROUNDS':>9} {'DEVICES ASKED':>14} {'CHECK-INS A DAY':>16} {'DAYS OF THEM':>13}"
    yield f"{'REQUIREMENT':20} {head}"
    for each in contention(simulation):
        supply = f"{each.supply_per_day:>16.0f} {each.days:>13.1f}"
        yield f"{each.requirement:20} {each.jobs:>5} {each.rounds:>9} {each.demand:>14} {supply}"
    yield ""
    yield f"The last job comes after {max(job.arrives for job in whole.jobs.values()) / 3600:.1f} hours."


def _right(scenario: Scenario, devices: str) -> Iterator[str]:
    yield f"{scenario.name} is right: policy {scenario.policy}, {devices}, {format_duration(scenario.duration)} at most"
    yield ""


def _about(path: Path) -> str:
    """The second line of a scenario file: the first one names the schema."""
    with path.open(encoding="utf-8") as file:
        file.readline()
        return file.readline().strip("#\n ")
