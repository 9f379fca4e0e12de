"""``venn watch``: the live view on any running coordinator."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf.json_format import MessageToDict

from testbed.report.terminal import console
from testbed.report.view import watch
from venn.wire.admission import client_token
from venn.wire.command import Context, application, client_command, execute, run_async
from venn.wire.exits import write_line

app = application()


@app.command("watch", epilog="Example: venn watch --coordinator 127.0.0.1:9700")
@client_command
def watch_(
    context: Context,
    tokens: Annotated[Path | None, typer.Option(help="Coordinator's tokens.", metavar="DIR")] = None,
) -> int:
    """Show the live view of a coordinator until q or Ctrl-C."""
    return run_async(_main(context, client_token("admin", context.coordinator, dir=tokens)))


async def _main(context: Context, token: str) -> int:
    screen = console(context, errors=context.json)
    last = await watch(context.coordinator, token, until=asyncio.Event(), console=screen, stop="leave")
    if context.json and last is not None:
        write_line(sys.stdout, json.dumps(MessageToDict(last, preserving_proto_field_name=True)))
    return 0


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn watch")
