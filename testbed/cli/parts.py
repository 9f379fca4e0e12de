"""Commands that run a part of a testbed: ``venn broker``, ``relay`` and ``compose``."""

import os
import socket
import sys
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from testbed.live.backend.broker import PORT, USER, make_broker
from testbed.live.throttle.relay import read_specs, serve
from venn.wire import logs
from venn.wire.channel import check_reach
from venn.wire.command import Context, application, client_command, command, run_async
from venn.wire.exits import write_line
from venn.wire.notation import parse_duration, parse_fraction

app = application()
compose = application("Services of compose.yaml, beside the coordinator, jobs and broker.", several=True)
app.add_typer(compose, name="compose")


@app.command(epilog="Example: venn broker keys/broker --listen 127.0.0.1:1883")
@command
def broker(
    context: Context,
    *,
    token: Annotated[Path, typer.Argument(metavar="FILE", help=f"File with the password of its one user, {USER}.")],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on.")] = f"127.0.0.1:{PORT}",
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow listening beyond loopback, unencrypted.")] = False,
) -> int:
    """Run a Mosquitto that needs the password. `venn run` starts it if a timeline names it."""
    host, port = check_reach(listen, insecure=insecure)
    command = make_broker(token, host, port)
    if not context.quiet:
        write_line(sys.stderr, f"broker at {listen}, for the user {USER} with the password in {token}")
    os.execv(command[0], command)


@app.command(epilog="Example: venn relay links.json")
@command
def relay(
    context: Context,
    *,
    links: Annotated[Path, typer.Argument(metavar="FILE", help="Links, as `venn run` writes them.")],
    counts: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here how many bytes passed.")] = None,
    load: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here how late its event loop runs.")] = None,
) -> int:
    """Shape the links of devices: rate, delay, jitter. `venn run` starts it if a scenario limits links.

    Agents reach it with --throttle FILE.
    """
    logs.configure(component="relay", verbose=context.verbose, quiet=context.quiet)
    return run_async(serve(read_specs(links), counts, load))


@compose.command(epilog="compose.yaml shows it at work.")
@client_command
def attend(
    context: Context,
    *,
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="Folder of run folders.")],
    job: Annotated[list[str], typer.Option(metavar="NAME", help="Job to wait for; repeatable.")],
    project: Annotated[Path, typer.Option(metavar="DIR", help="Folder of compose.yaml.")] = Path("/project"),
    shown: Annotated[str, typer.Option(metavar="DIR", help="Path of RUNS to show to you.")] = "runs",
    name: Annotated[str, typer.Option(help="Name of the run.")] = "compose",
    policy: Annotated[str, typer.Option(help="Policy of the coordinator.")] = "venn",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the held-out data.")] = 0,
    data: Annotated[
        str, typer.Option(metavar="NAME=SOURCE", help="Data that devices draw from.")
    ] = "digits=sklearn-digits",
    held_out: Annotated[str, typer.Option(metavar="FRACTION", help="Part that no device gets.")] = "20%",
    expect: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="As in a scenario; repeatable.")] = None,
    duration: Annotated[str, typer.Option(metavar="T", help="Give up after this time.")] = "15m",
) -> int:
    """Prepare the folders of the other services, wait for their jobs, and write the report."""
    from testbed.live.compose import ComposeRun

    known_as, _, source = data.partition("=")
    run = ComposeRun(
        runs=runs,
        project=project,
        shown=shown,
        name=name,
        policy=policy,
        seed=seed,
        jobs=tuple(job),
        expect=tuple(expect or ()),
        data=known_as,
        source=source,
        held_out=Fraction(parse_fraction(held_out)),
        coordinator=context.coordinator,
        duration_s=parse_duration(duration),
        say=lambda text: write_line(sys.stdout, text),
    )
    return run_async(run.attend())


@compose.command(epilog="compose.yaml shows it at work.")
@client_command
def device(
    context: Context,
    *,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Run folder that all services share.")],
    profile: Annotated[str, typer.Option(metavar="NAME", help="Kind of device; see `venn profile list`.")],
    allow_code: Annotated[
        list[str] | None, typer.Option(metavar="DIGEST|FILE|any", help="As for `venn agent`.")
    ] = None,
    data: Annotated[str, typer.Option(metavar="NAME", help="Data set that it draws its share from.")] = "digits",
    samples: Annotated[int, typer.Option(min=1, help="How many samples its share has.")] = 300,
    evenness: Annotated[float, typer.Option(min=0.001, help="Alpha of the Dirichlet draw of its classes.")] = 3.0,
) -> int:
    """Run one device of many: it draws a name and a share of the data, and becomes an agent."""
    from device_agent import cli
    from testbed.live.compose import make_replica
    from testbed.runfolder.paths import RunFolder

    place = RunFolder(folder)
    name = make_replica(
        place, profile=profile, host=socket.gethostname(), data=data, samples=samples, evenness=evenness
    )
    own = place.device_host(name)
    flags = ["--coordinator", context.coordinator, "--keys", str(place.keys), "--dir", str(own)]
    flags += ["--from", f"{own / 'population.jsonl'}:{name}", "--crash-kills"]
    flags += ["--insecure"] if context.insecure else []
    return cli.main([*flags, *(word for code in allow_code or () for word in ("--allow-code", code))])
