"""``venn agent``: one device."""

from pathlib import Path
from typing import Annotated

import typer

from device_agent import doctor
from device_agent.flags import Flags, parse_data, parse_labels, with_flags
from device_agent.hosting import run_hosted
from device_agent.machine import importable_packages, kept_identity, measured_numbers
from device_agent.spec import DeviceSpec, read_population
from venn.wire import logs
from venn.wire.command import Context, application, client_command, execute
from venn.wire.errors import UsageError
from venn.wire.join import joined_at
from venn.wire.notation import parse_bytes
from venn.wire.places import keys_folder, state_folder

JOINING = ("join", "status", "rotate", "leave")

app = application()


@app.command(epilog="Example: venn agent --data digits=share-03.npz --allow-code digits.py. Before: venn agent doctor")
@client_command
@with_flags
def agent(
    context: Context,
    *,
    name: Annotated[str | None, typer.Option(help="Default: a name made once and kept here.")] = None,
    cpu: Annotated[float | None, typer.Option(min=0, help="Its cpu score; default: measured.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="BYTES", help="Default: this machine's memory.")] = None,
    os: Annotated[float | None, typer.Option(metavar="LEVEL", help="Default: this machine's OS level.")] = None,
    interval: Annotated[int, typer.Option(min=1, help="First availability interval to play.")] = 1,
    model_time: Annotated[bool, typer.Option("--model-time", help="Let a task take its compute time / cpu.")] = False,
    crash_kills: Annotated[bool, typer.Option("--crash-kills", help="Kill this process (SIGKILL) at a crash.")] = False,
    population: Annotated[
        str | None,
        typer.Option("--from", envvar="VENN_FROM", metavar="FILE:NAME", help="Be this device of a population.jsonl."),
    ] = None,
    flags: Flags,
) -> int:
    """Run one device: it joins a coordinator, does tasks, comes and goes."""
    logs.configure(component="agent", verbose=context.verbose, quiet=context.quiet)
    if population is not None:
        spec = _from_population(population)
    else:
        numbers = {"cpu": cpu, "memory": None if memory is None else float(parse_bytes(memory)), "os": os}
        spec = flags.device(
            name or _joined_name(flags.keys) or kept_identity(flags.dir or state_folder()),
            _known(numbers),
            {"package": importable_packages(), **parse_labels(flags.label)},
            parse_data(flags.data),
        )
    run = flags.run((spec,), context, modelled=model_time, crash_kills=crash_kills, first_interval=interval, workers=1)
    return run_hosted(run, context)


def main(argv: list[str]) -> int:
    if argv[:1] and argv[0] in JOINING:
        from device_agent import join_cli

        return execute(join_cli.app, argv, "venn agent")
    if argv[:1] == ["doctor"]:
        return execute(doctor.app, argv[1:], "venn agent doctor")
    return execute(app, argv, "venn agent")


def _joined_name(keys: Path | None) -> str:
    """The name with which this machine has joined a coordinator; empty: it has not."""
    joined = joined_at(keys or keys_folder())
    return joined.name if joined is not None and joined.role == "device" else ""


def _known(numbers: dict[str, float | None]) -> dict[str, float]:
    """The numbers that the flags give; the others are measured."""
    said = {name: value for name, value in numbers.items() if value is not None}
    return said if len(said) == len(numbers) else {**measured_numbers(), **said}


def _from_population(text: str) -> DeviceSpec:
    path, colon, name = text.rpartition(":")
    if not (colon and path and name):
        raise UsageError("USAGE", f"{text!r} names no device", where="--from", fix="write population.jsonl:NAME")
    return read_population(Path(path), only=name)[0]
