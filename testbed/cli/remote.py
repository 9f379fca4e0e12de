"""Commands that look at a running coordinator: ``venn watch``, ``status``, ``explain`` and ``device``."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.table import Table
from rich.text import Text

from testbed.cli.shared import Keys, answer
from testbed.report.explain import Explanation, explain
from testbed.report.history import read_history
from testbed.report.screen import Frame, render
from testbed.report.terminal import console
from testbed.report.view import ask, snapshot_once
from testbed.report.view import watch as show
from testbed.report.words import clock, seconds
from testbed.runfolder.journal import read_lives
from venn.v1 import admin_pb2 as admin
from venn.v1 import auth_pb2
from venn.wire.calls import admin_stub, enum_name, identity_stub
from venn.wire.command import Context, application, client_command, run_async
from venn.wire.errors import PeerError, UsageError
from venn.wire.login import Login, log_in_now
from venn.wire.status import peer_error
from venn.wire.text import printable

WIDTH = 100  # columns of `venn status` where there is no terminal
HEIGHT = 60  # lines of `venn status`: it may scroll, unlike the live view
WIDEST = 500  # columns of a list of devices where there is no terminal: enough not to wrap a line
PAGE = 1000  # devices in an answer
CALL_S = 10.0
COLUMNS = ("DEVICE", "STATE", "TASKS", "JOB", "ADDRESS", "HEARD s AGO", "CPU", "LABELS", "WAITS")

app = application()
devices = application("The devices of a running coordinator.", several=True)
app.add_typer(devices, name="device")


@app.command(epilog="Example: venn watch --coordinator 127.0.0.1:9700")
@client_command
def watch(context: Context, keys: Keys = None) -> int:
    """Show the live view of a coordinator until q or Ctrl-C."""

    async def main() -> int:
        screen = console(context, errors=context.json)
        last = await show(_login(context, keys), until=asyncio.Event(), console=screen, stop="leave")
        if last is not None:
            answer(context, _plain(last), ())
        return 0

    return run_async(main())


@app.command(epilog="Example: venn status --coordinator 127.0.0.1:9700")
@client_command
def status(context: Context, keys: Keys = None) -> int:
    """Print the state of a coordinator, its jobs and devices."""
    snapshot = asyncio.run(snapshot_once(_login(context, keys)))
    if context.json:
        answer(context, _plain(snapshot), ())
        return 0
    screen = console(context)
    if not screen.is_terminal:
        screen.width = WIDTH
    elapsed = snapshot.elapsed.ToTimedelta().total_seconds()
    screen.print(render(snapshot, screen.width, HEIGHT, elapsed, Frame(keys=False)), crop=False)
    return 0


@app.command("explain", epilog="Example: venn explain label-count --run runs/2026-05-12-140311-three-jobs-venn")
@client_command
def explain_(
    context: Context,
    subject: Annotated[str, typer.Argument(help="Job's name or key, or a device's id.", metavar="JOB|DEVICE")],
    run: Annotated[Path | None, typer.Option(help="Folder of a finished run.", metavar="DIR")] = None,
    keys: Keys = None,
) -> int:
    """Explain why a job or a device waits."""
    if run is not None:
        found = explain(read_history(read_lives(run)), subject)
    else:
        try:
            found = asyncio.run(ask(_login(context, keys), subject))
        except PeerError as error:
            if error.reason == "UNREACHABLE":
                error.fix += "; of a finished run, name the folder with --run DIR"
            raise
    answer(context, asdict(found), _explained(found))
    return 0


def _explained(found: Explanation) -> Iterator[str]:
    yield f"{printable(found.subject)}   {printable(found.state)}"
    yield from [f"  {printable(reason)}" for reason in found.reasons] or ["  it does not wait"]
    if found.history:
        yield f"  times are {found.clock}, as minutes:seconds"
    for line in found.history:
        yield f"{clock(line.at_s)}  {printable(line.kind):<9} {printable(line.text)}"


@devices.command("list", epilog="Example: venn device list --json")
@client_command
def list_devices(context: Context, keys: Keys = None) -> int:
    """List every device that the coordinator knows."""
    found: list[admin.DeviceStatus] = []
    request = admin.ListDevicesRequest(page_size=PAGE)
    while True:
        page = _call(context, keys, "ListDevices", request)
        found.extend(page.devices)
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    if context.json:
        answer(context, {"devices": [_plain(device) for device in found]}, ())
        return 0
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for device in found:
        unheard = seconds(device.unheard.ToNanoseconds() / 1e9) if device.HasField("unheard") else ""
        cells = (
            *(device.device, device.state, str(device.tasks), device.job, device.address, unheard),
            *(_number(device, "cpu"), _labels(device), device.waits),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    screen = console(context)
    screen.width = screen.width if screen.is_terminal else WIDEST
    screen.print(table)
    return 0


@devices.command(epilog="Example: venn device drain my-pi")
@client_command
def drain(
    context: Context,
    devices: Annotated[list[str] | None, typer.Argument(help="Names of the devices.")] = None,
    all_devices: Annotated[bool, typer.Option("--all", help="All devices.", allow_from_autoenv=False)] = False,
    keys: Keys = None,
) -> int:
    """Send devices away and give them no more work."""
    if bool(devices) == all_devices:
        raise UsageError("USAGE", "name devices, or give --all", fix="e.g. venn device drain my-pi")
    drained = _call(context, keys, "DrainDevices", admin.DrainDevicesRequest(devices=devices or ())).drained
    answer(context, {"drained": drained}, [f"{drained} drained"])
    return 0


@devices.command(epilog="Example: venn device revoke my-pi")
@client_command
def revoke(
    context: Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name that it joined with, or digits of its key's id.")],
    keys: Keys = None,
) -> int:
    """Let a key that has joined in no more, and end what it has open."""
    revoked = _call(context, keys, "Revoke", auth_pb2.RevokeRequest(name=name), identity_stub).identity
    answer(context, _plain(revoked), [f"{printable(revoked.name)} ({revoked.id[:16]}) is revoked"])
    return 0


@devices.command("keys", epilog="Example: venn device keys")
@client_command
def list_keys(context: Context, keys: Keys = None) -> int:
    """List the keys that have joined: of devices and of people."""
    found: list[auth_pb2.Identity] = []
    request = auth_pb2.ListIdentitiesRequest(page_size=PAGE)
    while True:
        page = _call(context, keys, "ListIdentities", request, identity_stub)
        found.extend(page.identities)
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    lines = (
        f"{each.id[:16]}  {enum_name(auth_pb2.Role, each.role):<7} {'revoked' if each.revoked_ms else 'let in':<8}"
        f" {printable(each.name)}"
        for each in found
    )
    answer(context, {"keys": [_plain(each) for each in found]}, lines)
    return 0


def _call(
    context: Context, keys: Path | None, method: str, request: Message, stub: Callable[[Any], Any] = admin_stub
) -> Any:
    """The coordinator's answer. Raises PeerError."""

    async def main() -> Any:
        async with _login(context, keys).channel() as channel:
            try:
                return await getattr(stub(channel), method)(request, timeout=CALL_S)
            except grpc.RpcError as error:
                raise peer_error(error, where=f"coordinator {context.coordinator}") from None

    return asyncio.run(main())


def _login(context: Context, keys: Path | None) -> Login:
    return log_in_now("admin", context.coordinator, keys, insecure=context.insecure)


def _plain(message: Message) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


def _number(device: admin.DeviceStatus, name: str) -> str:
    numbers = device.capabilities.numbers
    return f"{numbers[name]:.3g}" if name in numbers else ""


def _labels(device: admin.DeviceStatus) -> str:
    """Its labels but for the packages, which are many."""
    labels = sorted(device.capabilities.labels.items())
    return " ".join(f"{name}={','.join(values.values)}" for name, values in labels if name != "package")
