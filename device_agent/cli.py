"""``venn agent``: one device."""

from pathlib import Path
from typing import Annotated

import typer

from device_agent import doctor, flags
from device_agent.flags import Behaviour
from device_agent.hosting import Run, play
from device_agent.machine import importable_packages, kept_identity, measured_numbers, parse_allowed
from device_agent.spec import DeviceSpec, read_population
from device_agent.throttle import read_throttle
from venn.wire import logs
from venn.wire.command import Context, application, client_command, execute
from venn.wire.errors import UsageError
from venn.wire.notation import parse_bytes, parse_duration

app = application()


@app.command(epilog="Example: venn agent --data digits=share-03.npz --allow-code digits.py. Before: venn agent doctor")
@client_command
def agent(
    context: Context,
    *,
    name: Annotated[str | None, typer.Option(help="Default: a name made once and kept here.")] = None,
    tokens: flags.Tokens = None,
    data: flags.Data = None,
    label: flags.Label = None,
    cpu: Annotated[float | None, typer.Option(min=0, help="Its cpu score; default: measured.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="BYTES", help="Default: this machine's memory.")] = None,
    os: Annotated[float | None, typer.Option(metavar="LEVEL", help="Default: this machine's OS level.")] = None,
    session: flags.Session = None,
    gap: flags.Gap = None,
    crash: flags.Crash = "0",
    trace: flags.Trace = None,
    epoch: flags.Epoch = None,
    interval: Annotated[int, typer.Option(min=1, help="First availability interval to play.")] = 1,
    seed: flags.Seed = 0,
    tasks_per_session: flags.PerSession = 0,
    tasks_per_day: flags.PerDay = 0,
    allow_code: flags.AllowCode = None,
    model_time: Annotated[bool, typer.Option("--model-time", help="Let a task take its compute time / cpu.")] = False,
    crash_kills: Annotated[bool, typer.Option("--crash-kills", help="Kill this process (SIGKILL) at a crash.")] = False,
    dir: flags.Folder = None,
    population: Annotated[
        str | None,
        typer.Option("--from", envvar="VENN_FROM", metavar="FILE:NAME", help="Be this device of a population.jsonl."),
    ] = None,
    throttle: flags.Throttled = None,
    patience: flags.Patience = "60s",
    insecure: flags.Insecure = False,
) -> int:
    """Run one device: it joins a coordinator, does tasks, comes and goes."""
    logs.configure(component="agent", verbose=context.verbose, quiet=context.quiet)
    if population is not None:
        spec = _from_population(population)
    else:
        behaviour = Behaviour(session, gap, crash, seed, tasks_per_session, tasks_per_day)
        numbers = {"cpu": cpu, "memory": None if memory is None else float(parse_bytes(memory)), "os": os}
        spec = behaviour.device(
            name or kept_identity(dir or flags.state_folder()),
            _known(numbers),
            {"package": importable_packages(), **flags.parse_labels(label)},
            flags.parse_data(data),
        )
    run = Run(
        specs=(spec,),
        coordinator=context.coordinator,
        tokens=tokens,
        allowed=parse_allowed(allow_code or (), coordinator=context.coordinator, insecure=insecure),
        modelled=model_time,
        crash_kills=crash_kills,
        folder=dir,
        epoch=flags.epoch_or_now(epoch),
        trace=trace,
        first_interval=interval,
        patience_s=parse_duration(patience),
        workers=1,
        throttle=read_throttle(throttle),
    )
    return play(run, context)


def main(argv: list[str]) -> int:
    if argv[:1] == ["doctor"]:
        return execute(doctor.app, argv[1:], "venn agent doctor")
    return execute(app, argv, "venn agent")


def _known(numbers: dict[str, float | None]) -> dict[str, float]:
    """The numbers that the flags give; the others are measured."""
    said = {name: value for name, value in numbers.items() if value is not None}
    return said if len(said) == len(numbers) else {**measured_numbers(), **said}


def _from_population(text: str) -> DeviceSpec:
    path, colon, name = text.rpartition(":")
    if not (colon and path and name):
        raise UsageError("USAGE", f"{text!r} names no device", where="--from", fix="write population.jsonl:NAME")
    return read_population(Path(path), only=name)[0]
