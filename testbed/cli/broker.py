"""``venn broker``: an MQTT broker for systems that join in."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from testbed.live.broker import PORT, USER, make_broker
from venn.wire.channel import check_reach
from venn.wire.command import Context, application, command, execute

app = application()


@app.command(epilog="Example: venn broker tokens/broker --listen 127.0.0.1:1883")
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
        sys.stderr.write(f"broker at {listen}, for the user {USER} with the password in {token}\n")
        sys.stderr.flush()
    os.execv(command[0], command)


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn broker")
