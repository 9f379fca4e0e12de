"""``venn status``: the live view, once."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToDict

from testbed.report.screen import Frame, render
from testbed.report.terminal import console
from testbed.report.view import snapshot_once
from venn.wire.admission import client_token
from venn.wire.command import Context, application, client_command, execute
from venn.wire.exits import write_line

WIDTH = 100  # columns, where there is no terminal
HEIGHT = 60  # lines: it may scroll, unlike the live view

app = application()


@app.command(epilog="Example: venn status --coordinator 127.0.0.1:9700")
@client_command
def status(
    context: Context,
    tokens: Annotated[Path | None, typer.Option(help="Coordinator's tokens.", metavar="DIR")] = None,
) -> int:
    """Print the state of a coordinator, its jobs and devices."""
    snapshot = asyncio.run(snapshot_once(context.coordinator, client_token("admin", context.coordinator, dir=tokens)))
    if context.json:
        write_line(sys.stdout, json.dumps(MessageToDict(snapshot, preserving_proto_field_name=True)))
        return 0
    screen = console(context)
    if not screen.is_terminal:
        screen.width = WIDTH
    elapsed = snapshot.elapsed.ToTimedelta().total_seconds()
    screen.print(render(snapshot, screen.width, HEIGHT, elapsed, Frame(keys=False)), crop=False)
    return 0


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn status")
