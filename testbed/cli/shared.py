"""What commands share: options, what a shell may offer for a value, and how an answer is printed."""

import json
import sys
from collections.abc import Iterable
from glob import escape
from pathlib import Path
from typing import Annotated

import typer

from venn.wire.command import Context
from venn.wire.exits import write_line


def scenarios(incomplete: str) -> list[str]:
    """The names of packaged scenarios, and YAML files here and one folder below, that begin with ``incomplete``."""
    from testbed.scenario.packaged import packaged_scenarios

    files = [str(path) for part in ("*.yaml", "*/*.yaml") for path in Path().glob(escape(incomplete) + part)]
    return [*packaged_scenarios(), *sorted(files)]


def policies(incomplete: str) -> list[str]:
    """The names of installed policies that begin with ``incomplete``."""
    from coordinator.policies.registry import policy_names

    return [name for name in policy_names() if name.startswith(incomplete)]


POLICIES = "random,fifo,srsf-job,venn"  # that a comparison has by default; the last two know the same
ScenarioFile = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO", help="Scenario file, or the name of a packaged scenario.", autocompletion=scenarios
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        help="Policy, in place of the scenario's: an installed one, or FILE.py:NAME.", autocompletion=policies
    ),
]
Backend = Annotated[str | None, typer.Option(help="Backend, in place of the scenario's.")]
Seed = Annotated[int | None, typer.Option(help="Seed, in place of the scenario's.")]
Scale = Annotated[float | None, typer.Option(help="Set `scale`: 0.1 is a tenth of the devices and demands.")]
RoundsScale = Annotated[float | None, typer.Option(help="Set `rounds_scale`: 0.1 is a tenth of the rounds.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override a key; repeatable.")]
Out = Annotated[Path | None, typer.Option(help="Run folder; default: a new one below ./runs.")]
AllowDegraded = Annotated[
    bool, typer.Option("--allow-degraded", help="Run even if a limit cannot be enforced; report it.")
]
Keys = Annotated[Path | None, typer.Option(help="Folder of the coordinator's keys.", metavar="DIR")]


def overrides(set: list[str] | None, **flags: object) -> list[str]:
    """The overrides of a scenario: those of ``--set``, and each flag that sets the key of its name."""
    given = {key.replace("_", "-"): value for key, value in flags.items() if value is not None}
    return [*(set or ()), *(f"--{key}={value}" for key, value in given.items())]


def answer(context: Context, shape: object, lines: Iterable[str], *, unless_quiet: bool = False) -> None:
    """Print one JSON object for programs, or else lines for people; with ``--quiet`` no lines that are but news."""
    if context.json:
        write_line(sys.stdout, json.dumps(shape))
    elif not (unless_quiet and context.quiet):
        for line in lines:
            write_line(sys.stdout, line)
