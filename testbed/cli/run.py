"""``venn run``: run a scenario on this machine, or simulate it; and ``venn demo``, which runs a packaged one."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer
from rich.console import Console, RenderableType

from coordinator.policies.registry import absolute
from testbed.cli.shared import (
    POLICIES,
    AllowDegraded,
    Backend,
    Out,
    Policy,
    RoundsScale,
    Scale,
    ScenarioFile,
    Seed,
    Set,
    answer,
    overrides,
)
from testbed.live.processes.programs import kill_all
from testbed.live.run import run_scenario
from testbed.report.result import Result, print_summary
from testbed.report.summary import to_json
from testbed.scenario import load
from testbed.scenario.loader import as_words
from testbed.scenario.model import Scenario
from testbed.scenario.packaged import named, packaged, packaged_scenarios
from testbed.simulate.run.scenario import run_simulated
from venn.wire.command import Context, application, command, run_async
from venn.wire.errors import PeerError
from venn.wire.exits import as_object, tell

app = application()


@app.command(epilog="Example: venn run examples/three-jobs.yaml --policy fifo --set jobs.handwriting.demand=10")
@command
def run(
    context: Context,
    scenario: ScenarioFile,
    policy: Policy = None,
    backend: Backend = None,
    seed: Seed = None,
    scale: Scale = None,
    rounds_scale: RoundsScale = None,
    set: Set = None,
    out: Out = None,
    validate: Annotated[bool, typer.Option("--validate", help="Check the invariants after every event.")] = False,
    allow_degraded: AllowDegraded = False,
) -> int:
    """Run a scenario: start all parts, watch the jobs, write a report."""
    settings = overrides(
        set, policy=policy and absolute(policy), backend=backend, seed=seed, scale=scale, rounds_scale=rounds_scale
    )
    name = "venn run"
    return _run(context, name, named(scenario), settings, out=out, validate=validate, allow_degraded=allow_degraded)


@app.command(epilog="Example: venn demo --policy random --json")
@command
def demo(context: Context, policy: Policy = None, seed: Seed = None, out: Out = None) -> int:
    """Run three jobs on about a hundred devices that come and go, in under two minutes."""
    settings = overrides(None, policy=policy and absolute(policy), seed=seed)
    return _run(context, "venn demo", packaged("three-jobs"), settings, out=out)


def _run(
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
    again = ["venn", "run", str(file), *as_words(settings)]
    scenario = load(file, settings)
    result, code = play(context, scenario, again, out=out, validate=validate, allow_degraded=allow_degraded)
    if result is not None:
        tell_result(context, name, result, following=_next(file, settings))
    else:
        tell(STOPPED, name, as_json=context.json)
    return code


STOPPED = PeerError("STOPPED", "stopped before the run began", fix="nothing is left behind")


def play(
    context: Context,
    scenario: Scenario,
    again: list[str],
    *,
    out: Path | None,
    validate: bool = False,
    allow_degraded: bool = False,
) -> tuple[Result | None, int]:
    """Run or simulate a scenario: its result, None if it was stopped before it began, and the exit code.

    ``again``: the command line that does the same again.
    """
    quiet = context.quiet or context.json
    if scenario.backend_spec.simulated:
        result, signal = run_simulated(
            scenario, out=out, validate=validate, quiet=quiet, color=context.color, command=again
        )
        return result, 128 + signal if signal else result.exit_code
    results: list[Result] = []

    async def live() -> int:
        result = await run_scenario(
            scenario,
            out=out,
            validate=validate,
            quiet=quiet,
            allow_degraded=allow_degraded,
            color=context.color,
            command=again,
        )
        results.append(result)
        return result.exit_code

    code = run_async(live(), at_once=kill_all)
    return (results[0] if results else None), code


def tell_result(
    context: Context,
    name: str,
    result: Result,
    *,
    following: str = "",
    beside: Mapping[str, object] = MappingProxyType({}),
    table: RenderableType = "",
) -> None:
    """Print what came of a run. ``beside``: what else ``--json`` has; ``table``: the same for people."""
    failures = result.ending.failures
    if context.json:
        summary = to_json(result.summary) | {"folder": str(result.folder.root), **beside}
        summary |= {"error": as_object(failures[0])} if failures else {}
        answer(context, summary, ())
        return
    console = Console(no_color=not context.color, highlight=False)
    shown = "" if failures or result.ending.interrupted else following
    print_summary(result.summary, console, report=_report(result), following=shown)
    if table:
        console.print("", table, sep="\n", crop=False)
    for failure in failures:
        tell(failure, name, as_json=False)


def _report(result: Result) -> str:
    """The place of the page, or the command that draws it."""
    if result.page is not None:
        return str(_relative(result.page))
    return f"venn report {shlex.quote(str(_relative(result.folder.root)))}"


def _next(file: Path, settings: list[str]) -> str:
    """The comparison of policies on the scenario as it was run, with every setting but the policy."""
    words = ["venn", "compare", file.stem if file in packaged_scenarios().values() else str(_relative(file))]
    words += ["--policies", POLICIES]
    for each in settings:
        key, _, value = each.partition("=")
        if key.strip() not in ("--policy", "policy"):  # `venn compare` has no --seed
            words += [key, value] if key.startswith("--") and key != "--seed" else ["--set", each.removeprefix("--")]
    return shlex.join(words)


def _relative(path: Path) -> Path:
    """The path from here, if it leads down."""
    absolute = path.absolute()
    return Path(os.path.relpath(absolute)) if absolute.is_relative_to(Path.cwd()) else absolute
