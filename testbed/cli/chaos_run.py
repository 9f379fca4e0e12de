"""``venn chaos run``: a live run of a scenario while programs and devices are killed, stopped and cut off at random."""

import json
import math
from dataclasses import replace
from typing import Annotated

import typer

from testbed.cli.run import STOPPED, play, tell_result
from testbed.cli.shared import AllowDegraded, Backend, Out, Policy, Scale, ScenarioFile, Seed, Set, overrides
from testbed.report.chaos import Account, account, account_table
from testbed.report.record import load_run
from testbed.report.result import Result
from testbed.scenario import load
from testbed.scenario.loader import as_words, parse
from testbed.scenario.model import Scenario
from testbed.scenario.packaged import named
from testbed.world.chaos import Chaos
from venn.wire.command import Context
from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import tell
from venn.wire.files import write_atomic
from venn.wire.notation import format_duration, parse_duration

NAME = "venn chaos run"
LASTS = "10m"
KILLS_PER_MINUTE = 2  # of the coordinator, and of drivers
LOSSES_PER_MINUTE = 0.25  # of the devices
SHORTEST_S = 5.0


def chaos_run(
    context: Context,
    scenario: ScenarioFile,
    *,
    duration: Annotated[str, typer.Option(help="How long there are faults; the jobs may take longer.")] = LASTS,
    coordinator_kills: Annotated[
        int | None, typer.Option(metavar="N", help="Kills of it.", show_default="2 a minute", min=0, max=10_000)
    ] = None,
    driver_kills: Annotated[
        int | None, typer.Option(metavar="N", help="Of all jobs.", show_default="2 a minute", min=0, max=10_000)
    ] = None,
    device_losses: Annotated[
        int | None,
        typer.Option(metavar="N", help="Of all kinds.", show_default="25 % a minute", min=0, max=1_000_000),
    ] = None,
    broker_kills: Annotated[int, typer.Option(metavar="N", help="Not 0: there is a broker.", min=0, max=10_000)] = 0,
    policy: Policy = None,
    backend: Backend = None,
    seed: Seed = None,
    scale: Scale = None,
    set: Set = None,
    out: Out = None,
    validate: Annotated[bool, typer.Option("--validate", help="Check the invariants after every event.")] = False,
    allow_degraded: AllowDegraded = False,
) -> int:
    """Run a scenario while its programs and devices are killed, stopped and cut off, and account for it.

    What is done, and when, comes from the seed. The exit code is 1 if a job did not finish, a response was lost or
    counted twice, a lease leaked or went to a device that is not eligible, or less was done than asked for."""
    settings = overrides(set, policy=policy, backend=backend, seed=seed, scale=scale)
    file = named(scenario)
    stated = load(file, settings)
    lasts_s = _lasting(duration, stated)
    minutes = lasts_s / 60
    chaos = Chaos(
        duration_s=lasts_s,
        coordinator_kills=_or(coordinator_kills, KILLS_PER_MINUTE * minutes),
        driver_kills=_or(driver_kills, KILLS_PER_MINUTE * minutes),
        broker_kills=broker_kills,
        device_losses=_or(device_losses, LOSSES_PER_MINUTE * minutes * stated.devices),
    )
    again = ["venn", "chaos", "run", str(file), *as_words(settings), *_words(chaos)]
    result, code = play(
        context, in_chaos(stated, chaos), again, out=out, validate=validate, allow_degraded=allow_degraded
    )
    if result is None:
        tell(STOPPED, NAME, as_json=context.json)
        return code
    found = _account(result, chaos)
    tell_result(context, NAME, result, beside={"chaos": found.to_json()}, table=account_table(found))
    return code or (ExitCode.OK if found.held else ExitCode.FAILED)


def in_chaos(scenario: Scenario, chaos: Chaos) -> Scenario:
    """The scenario with the entries of ``chaos`` in its timeline. Raises ScenarioError if they do not fit."""
    unscaled = replace(chaos, duration_s=chaos.duration_s / scenario.time_scale)
    entries = unscaled.entries(list(scenario.jobs), scenario.devices, scenario.seed)
    whole = scenario.model_copy(update={"churn": (*scenario.churn, *entries)})
    return parse(whole.dump(), source=f"{scenario.name} in chaos")


def _lasting(text: str, scenario: Scenario) -> float:
    """The seconds that the faults go on."""
    lasts_s = parse_duration(text)
    if scenario.backend_spec.simulated:
        fix = "leave out --backend; `venn chaos sim` simulates faults"
        raise UsageError("SIMULATED", f"backend {scenario.backend} has no processes to kill", fix=fix)
    if lasts_s < SHORTEST_S:
        fix = f"--duration {format_duration(SHORTEST_S)} or more"
        raise UsageError("TOO_SHORT", f"--duration {text}: too short for faults and what follows them", fix=fix)
    if lasts_s >= scenario.duration:
        message = f"--duration {text}: the scenario gives up after {format_duration(scenario.duration)}"
        raise UsageError("TOO_LONG", message, fix=f"--set duration={format_duration(2 * lasts_s)}")
    return lasts_s


def _or(stated: int | None, usual: float) -> int:
    return math.ceil(usual) if stated is None else stated


def _words(chaos: Chaos) -> list[str]:
    """The options that ask for the same chaos."""
    counts = {
        "--coordinator-kills": chaos.coordinator_kills,
        "--driver-kills": chaos.driver_kills,
        "--device-losses": chaos.device_losses,
        "--broker-kills": chaos.broker_kills,
    }
    words = ["--duration", format_duration(chaos.duration_s)]
    return words + [word for option, count in counts.items() for word in (option, str(count))]


def _account(result: Result, chaos: Chaos) -> Account:
    """The account of a run, which is written into its folder."""
    found = account(load_run(result.folder.root), result.summary, chaos)
    write_atomic(result.folder.chaos, json.dumps(found.to_json(), indent=2).encode() + b"\n")
    return found
