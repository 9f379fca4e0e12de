"""``venn swarm``: many devices in one process, each with its own connection; task time is modelled."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from device_agent.flags import Flags, assign_data, parse_data, parse_labels, with_flags
from device_agent.hosting import run_hosted, swarm_workers
from device_agent.machine import importable_packages, kept_identity
from device_agent.spec import DeviceSpec, read_population
from venn.wire import logs
from venn.wire.command import Context, application, client_command, execute
from venn.wire.errors import UsageError
from venn.wire.notation import Distribution, parse_distribution
from venn.wire.places import state_folder

FLEETS = "venn.fleets"  # entry points: a function (reference, folder) -> path of a population.jsonl

app = application()


@app.command(epilog="Example: venn swarm --count 50 --cpu 1..4 --memory '2 GB' --session 'exp(8s)' --gap 'exp(4s)'")
@client_command
@with_flags
def swarm(
    context: Context,
    *,
    population: Annotated[
        Path | None, typer.Option("--from", envvar="VENN_FROM", metavar="FILE", help="Devices of a population.jsonl.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="How many devices; the flags below describe them.")] = None,
    fleet: Annotated[str | None, typer.Option(metavar="SCENARIO:FLEET", help="Devices of a scenario's fleet.")] = None,
    name: Annotated[str | None, typer.Option(help="How their names begin; default: made once and kept.")] = None,
    cpu: Annotated[str, typer.Option(metavar="DIST", help="Their cpu scores, e.g. 1..4.")] = "1",
    memory: Annotated[str | None, typer.Option(metavar="DIST", help="Their memory, e.g. 2 GB..8 GB.")] = None,
    os: Annotated[str | None, typer.Option(metavar="DIST", help="Their OS levels.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="How many tasks run at once; default: cores - 1.")] = None,
    flags: Flags,
) -> int:
    """Run many devices in one process: each joins, works and vanishes by itself."""
    logs.configure(component="swarm", verbose=context.verbose, quiet=context.quiet)
    if [population, count, fleet].count(None) != 2:
        raise UsageError("USAGE", "give exactly one of --from, --count and --fleet", fix="see: venn swarm --help")
    if population is not None:
        specs: Sequence[DeviceSpec] = read_population(population)
    elif fleet is not None:
        specs = _fleet(fleet, flags.dir or state_folder() / "fleets")
    else:
        numbers = {"cpu": parse_distribution(cpu, "number")}
        numbers |= {"memory": parse_distribution(memory, "bytes")} if memory else {}
        numbers |= {"os": parse_distribution(os, "number")} if os else {}
        specs = _devices(name or kept_identity(flags.dir or state_folder()), count or 0, numbers, flags)
    run = flags.run(
        [_with_packages(spec) for spec in specs],
        context,
        modelled=True,
        crash_kills=False,
        first_interval=1,
        workers=workers or swarm_workers(),
    )
    return run_hosted(run, context)


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn swarm")


def _devices(prefix: str, count: int, numbers: Mapping[str, Distribution], flags: Flags) -> list[DeviceSpec]:
    """``count`` devices, numbered from 1; what differs between them is drawn from (seed, device)."""
    devices, labels = [], parse_labels(flags.label)
    for number, own in enumerate(assign_data(parse_data(flags.data), count), start=1):
        device = f"{prefix}-{number:0{max(2, len(str(count)))}}"
        drawn = {key: each.sample(_generator(flags.seed, device, key)) for key, each in numbers.items()}
        devices.append(flags.device(device, drawn, labels, own))
    return devices


def _generator(seed: int, device: str, capability: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed}/{device}/{capability}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


def _fleet(reference: str, folder: Path) -> list[DeviceSpec]:
    """Find the reader of scenarios, which comes with the testbed."""
    for entry_point in metadata.entry_points(group=FLEETS):
        load: Callable[[str, Path], Path] = entry_point.load()
        return read_population(load(reference, folder))
    fix = "pip install 'venn-testbed[testbed]', or --from population.jsonl"
    raise UsageError("NO_TESTBED", "reading scenarios needs the testbed", where="--fleet", fix=fix)


def _with_packages(spec: DeviceSpec) -> DeviceSpec:
    """The packages that all devices report: tasks run in this Python, whatever the device is."""
    return replace(spec, labels={"package": importable_packages(), **spec.labels})
