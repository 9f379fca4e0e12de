"""Commands about who is let in: ``venn token``, ``login`` and ``ca``."""

import getpass
import json
import socket
import sys
from typing import Annotated

import grpc
import typer

from testbed.cli.shared import Keys
from venn.v1 import auth_pb2
from venn.wire.calls import duration, identity_stub
from venn.wire.channel import is_loopback, join_address, parse_address
from venn.wire.command import Context, Insecure, application, client_command, command, run_async
from venn.wire.errors import CannotEnforceError, UsageError
from venn.wire.exits import write_line
from venn.wire.join import Link, join, parse_link
from venn.wire.keys import ROLES, Role
from venn.wire.login import ROLE_TO_WIRE, log_in_now
from venn.wire.notation import parse_duration
from venn.wire.places import keys_folder
from venn.wire.status import peer_error
from venn.wire.trust import kept_trust

CALL_S = 10.0

app = application()
token = application("Join tokens.", several=True)
ca = application("The certificate authority of a coordinator.", several=True)
app.add_typer(token, name="token")
app.add_typer(ca, name="ca")


@token.command(epilog="Example: venn token create --uses 20 --ttl 1h")
@client_command
def create(
    context: Context,
    *,
    role: Annotated[str, typer.Option(help="device, job or admin.")] = "device",
    uses: Annotated[int, typer.Option(min=1, help="How many keys it lets in.")] = 1,
    ttl: Annotated[str, typer.Option(metavar="T", help="How long it is good.")] = "15m",
    host: Annotated[
        str, typer.Option(metavar="ADDR", help="Address that the others reach the coordinator at; default: a guess.")
    ] = "",
    qr: Annotated[bool, typer.Option("--qr", help="Show it as a QR code, too.")] = False,
    keys: Keys = None,
) -> int:
    """Make a line with which a machine or a person joins. It is shown once."""
    wanted = _role(role)
    address = host or _reachable(context.coordinator)
    parse_address(address)

    async def main() -> int:
        login = log_in_now("admin", context.coordinator, keys, insecure=context.insecure)
        request = auth_pb2.MakeJoinTokenRequest(
            role=ROLE_TO_WIRE[wanted], uses=uses, lasts=duration(parse_duration(ttl))
        )
        async with login.channel() as channel:
            try:
                made = await identity_stub(channel).MakeJoinToken(request, timeout=CALL_S)
            except grpc.aio.AioRpcError as error:
                raise peer_error(error, where=f"coordinator at {context.coordinator}") from error
        line = Link(address, made.authority, made.token).text()
        verb = "venn agent join" if wanted == "device" else "venn login"
        said = {"line": line, "role": wanted, "uses": uses, "command": f"{verb} '{line}'"}
        write_line(sys.stdout, json.dumps(said) if context.json else f"{verb} '{line}'")
        if qr:
            _show_qr(line)
        return 0

    return run_async(main())


@app.command(epilog="Example: venn login 'VENN://192.168.1.10:9700/CA/TOKEN'")
@command
def login(
    context: Context,
    *,
    line: Annotated[str, typer.Argument(metavar="LINE", help="Join line that `venn token create` printed, in quotes.")],
    name: Annotated[str, typer.Option(help="Your name there; default: the user's.")] = "",
    keys: Keys = None,
    insecure: Insecure = False,
) -> int:
    """Let yourself in at a coordinator, to run jobs there or to administer it, with a key of your own."""

    async def main() -> int:
        folder, named = keys or keys_folder(), name or getpass.getuser()
        joined = await join(parse_link(line), folder, role=None, name=named, insecure=insecure)
        said = {"name": joined.name, "role": joined.role, "coordinator": joined.coordinator, "id": joined.id}
        text = f"{joined.name} has joined the coordinator at {joined.coordinator}, with the role {joined.role}"
        write_line(sys.stdout, json.dumps(said) if context.json else text)
        return 0

    return run_async(main())


@ca.command(epilog="Example: venn ca show")
@command
def show(context: Context, *, keys: Keys = None) -> int:
    """Show the certificate authority that the keys of this machine trust."""
    folder = keys or keys_folder()
    trust = kept_trust(folder)
    if trust is None:
        fix = "venn coordinator init on the coordinator's machine, or join one"
        raise UsageError("NO_CA", "no certificate authority is known here", where=str(folder), fix=fix)
    said = {"fingerprint": trust.fingerprint.hex(), "name": trust.name, "keys": str(folder)}
    write_line(sys.stdout, json.dumps(said) if context.json else f"{trust.fingerprint.hex()}  {trust.name}")
    return 0


def _role(text: str) -> Role:
    for role in ROLES:
        if role == text:
            return role
    raise UsageError("USAGE", f"{text!r} is no role", where="--role", fix="give device, job or admin")


def _reachable(coordinator: str) -> str:
    """The address that other machines may reach the coordinator at: that of the interface to the outside, where it is
    on this machine.
    """
    if not is_loopback(coordinator):
        return coordinator
    _, port = parse_address(coordinator)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: the system says from which address it would be
            return join_address(probe.getsockname()[0], port)
        except OSError:
            return coordinator


def _show_qr(line: str) -> None:
    try:
        import segno
    except ImportError as error:
        fix = "pip install 'venn-testbed[coordinator]'"
        raise CannotEnforceError("NO_SEGNO", "a QR code needs the package segno", fix=fix) from error
    segno.make(line, error="l").terminal(sys.stderr, compact=True)
