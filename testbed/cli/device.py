"""``venn device``: the devices of a running coordinator."""

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import grpc
import typer
from google.protobuf.json_format import MessageToDict
from rich.table import Table
from rich.text import Text

from testbed.report.terminal import console
from testbed.report.words import seconds
from venn.v1 import admin_pb2 as admin
from venn.wire.admission import client_token
from venn.wire.calls import admin_stub
from venn.wire.channel import open_channel
from venn.wire.command import Context, application, client_command, execute, run_async
from venn.wire.errors import UsageError
from venn.wire.status import peer_error
from venn.wire.text import printable

if TYPE_CHECKING:
    from venn.v1.admin_pb2_grpc import AdminServiceAsyncStub

PAGE = 1000
COLUMNS = ("DEVICE", "STATE", "TASKS", "JOB", "ADDRESS", "HEARD s AGO", "CPU", "LABELS", "WAITS")
WIDTH = 500  # columns, where there is no terminal: enough not to wrap a line
CALL_S = 10.0

Tokens = Annotated[Path | None, typer.Option(help="Coordinator's tokens.", metavar="DIR")]

app = application("The devices of a running coordinator.", several=True)


@app.command("list", epilog="Example: venn device list --json")
@client_command
def list_devices(context: Context, tokens: Tokens = None) -> int:
    """List every device that the coordinator knows."""
    found: list[admin.DeviceStatus] = []

    async def fetch(stub: "AdminServiceAsyncStub") -> None:
        token = ""
        while True:
            request = admin.ListDevicesRequest(page_size=PAGE, page_token=token)
            answer = await stub.ListDevices(request, timeout=CALL_S)
            found.extend(answer.devices)
            token = answer.next_page_token
            if not token:
                return

    code = _call(context, tokens, fetch)
    if code == 0:
        _print(context, found)
    return code


@app.command(epilog="Example: venn device drain my-pi")
@client_command
def drain(
    context: Context,
    devices: Annotated[list[str] | None, typer.Argument(help="Names of the devices.")] = None,
    all_devices: Annotated[bool, typer.Option("--all", help="All devices.")] = False,
    tokens: Tokens = None,
) -> int:
    """Send devices away and give them no more work."""
    if bool(devices) == all_devices:
        raise UsageError("USAGE", "name devices, or give --all", fix="e.g. venn device drain my-pi")
    drained: list[int] = []

    async def ask(stub: "AdminServiceAsyncStub") -> None:
        answer = await stub.DrainDevices(admin.DrainDevicesRequest(devices=devices or ()), timeout=CALL_S)
        drained.append(answer.drained)

    code = _call(context, tokens, ask)
    if code == 0:
        sys.stdout.write(json.dumps({"drained": drained[0]}) + "\n" if context.json else f"{drained[0]} drained\n")
    return code


def _call(context: Context, tokens: Path | None, ask: Callable[["AdminServiceAsyncStub"], Awaitable[None]]) -> int:
    async def main() -> int:
        token = client_token("admin", context.coordinator, dir=tokens)
        async with open_channel(context.coordinator, token=token) as channel:
            try:
                await ask(admin_stub(channel))
            except grpc.RpcError as error:
                raise peer_error(error, where=f"coordinator {context.coordinator}") from None
        return 0

    return run_async(main())


def _print(context: Context, devices: list[admin.DeviceStatus]) -> None:
    if context.json:
        rows = [MessageToDict(device, preserving_proto_field_name=True) for device in devices]
        sys.stdout.write(json.dumps({"devices": rows}) + "\n")
        return
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for device in devices:
        unheard = seconds(device.unheard.ToNanoseconds() / 1e9) if device.HasField("unheard") else ""
        cells = (
            *(device.device, device.state, str(device.tasks), device.job, device.address, unheard),
            *(_number(device, "cpu"), _labels(device), device.waits),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    screen = console(context)
    screen.width = screen.width if screen.is_terminal else WIDTH
    screen.print(table)


def _number(device: admin.DeviceStatus, name: str) -> str:
    numbers = device.capabilities.numbers
    return f"{numbers[name]:.3g}" if name in numbers else ""


def _labels(device: admin.DeviceStatus) -> str:
    """But for the packages, which are many."""
    labels = sorted(device.capabilities.labels.items())
    return " ".join(f"{name}={','.join(values.values)}" for name, values in labels if name != "package")


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn device")
