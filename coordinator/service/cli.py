"""``venn coordinator``: decides which checking-in device serves which job."""

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from coordinator.engine.model import EngineSettings
from coordinator.engine.plan import Policy
from coordinator.policies.registry import tiers_of
from coordinator.service.bounds import CoordinatorBounds
from coordinator.service.durability import Durability
from coordinator.service.policy import policy_of, told_with_its_plan
from coordinator.service.server import Coordinator, CoordinatorSettings, new_seed, running
from venn.wire import logs
from venn.wire.authority import load_server, make_authority
from venn.wire.bounds import connections_within, set_bounds
from venn.wire.channel import check_reach
from venn.wire.command import Context, GivenBounds, application, command, execute, run_async
from venn.wire.errors import UsageError
from venn.wire.exits import write_line
from venn.wire.keys import ensure_keys
from venn.wire.notation import parse_bytes, parse_duration
from venn.wire.places import keys_folder
from venn.wire.process import allow_many_files, collecting_seldom
from venn.wire.trust import CA

SILENCE_HEARTBEATS, SHORTEST_SILENCE_S = 3, 10.0  # liveness = max(3 heartbeats, 10 s)
SHORTEST_HEARTBEAT_S, LONGEST_HEARTBEAT_S = 0.05, 600.0

app = application()
initial = application()


@app.command(epilog="Example: venn coordinator --policy venn --seed 7 --dir runs/by-hand")
@command
def coordinator(
    context: Context,
    *,
    listen: Annotated[
        str, typer.Option(metavar="ADDR", help="host:port to listen on; port 0: any free one.")
    ] = "127.0.0.1:9700",
    policy: Annotated[str, typer.Option(metavar="P", help="One of `venn policy list`, or FILE.py:NAME.")] = "venn",
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the scheduler; default: random.")] = None,
    name: Annotated[str, typer.Option(help="Display name of the run.")] = "",
    dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Record events.jsonl and load.jsonl here.")] = None,
    keys: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the local keys; made if absent.")] = None,
    heartbeat: Annotated[str, typer.Option(metavar="T", help="Longest time between signs of life of a device.")] = "3s",
    driver_grace: Annotated[
        str, typer.Option(metavar="T", help="Time after which an absent driver loses its attempt.")
    ] = "30s",
    drain_timeout: Annotated[str, typer.Option(metavar="T", help="Time to wait for goodbyes when it stops.")] = "10s",
    durability: Annotated[
        Durability,
        typer.Option(metavar="D", help="When records reach the disk: turn (before effects), interval, off."),
    ] = Durability.TURN,
    keep_journal: Annotated[
        str, typer.Option(metavar="SIZE", help="Most that --dir keeps of the journal; all: everything.")
    ] = "2GB",
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow listening beyond loopback, unencrypted.")] = False,
    reflection: Annotated[bool, typer.Option("--reflection", help="Serve gRPC reflection.")] = False,
    allow_faults: Annotated[bool, typer.Option("--allow-faults", help="Let admins inject faults.")] = False,
    validate: Annotated[bool, typer.Option("--validate", help="Check all invariants after every event.")] = False,
    bound: GivenBounds = None,
) -> int:
    """Run the coordinator, which decides which device serves which job."""
    logs.configure(component="coordinator", verbose=context.verbose, quiet=context.quiet, json=False)
    bounds = set_bounds(CoordinatorBounds(), bound)
    engine = engine_settings(
        policy=policy,
        seed=new_seed() if seed is None else seed,
        heartbeat=heartbeat,
        driver_grace=driver_grace,
        files=allow_many_files(),
        bounds=bounds,
    )
    folder = keys or keys_folder()
    certificate = None if insecure or not (folder / CA).exists() else load_server(folder)
    check_reach(listen, insecure=insecure or certificate is not None, remedy="run `venn coordinator init` first, ")
    settings = CoordinatorSettings(
        engine=engine,
        keys=ensure_keys(keys),
        certificate=certificate,
        listen=listen,
        name=name,
        folder=dir,
        insecure=insecure,
        reflection=reflection,
        allow_faults=allow_faults,
        validate=validate,
        durability=durability,
        keep_journal=None if keep_journal == "all" else parse_bytes(keep_journal),
        bounds=bounds,
    )
    made, drain_s = policy_of(policy, "--policy"), parse_duration(drain_timeout)
    with collecting_seldom(), told_with_its_plan(policy):
        return run_async(serve(settings, made, drain_s=drain_s, as_json=context.json))


@initial.command(epilog="Example: venn coordinator init")
@command
def init(
    context: Context,
    *,
    keys: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the local keys; made if absent.")] = None,
) -> int:
    """Make the certificate authority of this coordinator: from then on its connections are encrypted, and devices of
    other machines can join.
    """
    folder = keys or keys_folder()
    ensure_keys(folder)
    made = make_authority(folder)
    said = {"keys": str(folder), "ca": made.fingerprint.hex()}
    write_line(sys.stdout, json.dumps(said) if context.json else f"made a certificate authority in {folder}")
    return 0


def main(argv: list[str]) -> int:
    if argv[:1] == ["init"]:
        return execute(initial, argv[1:], "venn coordinator init")
    return execute(app, argv, "venn coordinator")


def engine_settings(
    *, policy: str, seed: int, heartbeat: str, driver_grace: str, files: int, bounds: CoordinatorBounds
) -> EngineSettings:
    """The settings that the flags mean; ``files``: how many may be open, one for each session. Raises UsageError."""
    heartbeat_s = parse_duration(heartbeat)
    if not SHORTEST_HEARTBEAT_S <= heartbeat_s <= LONGEST_HEARTBEAT_S:
        raise UsageError("USAGE", f"{heartbeat} is not between 50ms and 10m", where="--heartbeat", fix="e.g. 3s")
    liveness_s = max(SILENCE_HEARTBEATS * heartbeat_s, SHORTEST_SILENCE_S)
    return EngineSettings(
        seed=seed,
        policy=policy,
        tiers=tiers_of(policy),
        heartbeat_s=heartbeat_s,
        liveness_s=liveness_s,
        driver_grace_s=parse_duration(driver_grace),
        recovery_grace_s=2 * liveness_s,
        most_sessions=min(bounds.sessions, sessions_within(files)),
        most_devices=bounds.devices,
        most_device_bytes=bounds.device_bytes,
    )


def sessions_within(files: int) -> int:
    """The number of sessions that leaves a tenth of the connections to devices that are sent away, drivers and
    people.
    """
    return max(1, connections_within(files) * 9 // 10)


async def serve(settings: CoordinatorSettings, policy: Policy, *, drain_s: float, as_json: bool) -> int:
    """Run until stopped; then tell every device to leave first."""
    async with running(settings, policy) as coordinator:
        announce(coordinator, as_json=as_json)
        try:
            await asyncio.shield(coordinator.host.failure)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()  # so that the drain may wait
            await coordinator.drain(drain_s)
            raise
    return 0


def announce(coordinator: Coordinator, *, as_json: bool) -> None:
    """Print one line on stdout: the coordinator is ready. A reader that has gone away is no reason to stop."""
    said = {"listening": coordinator.address, "pid": os.getpid(), "incarnation": coordinator.host.incarnation}
    line = json.dumps(said) if as_json else f"listening on {coordinator.address}"
    with suppress(BrokenPipeError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
