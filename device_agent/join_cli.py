"""``venn agent join``, ``status``, ``rotate`` and ``leave``: the key of a device at a coordinator."""

import json
import sys
from pathlib import Path
from typing import Annotated

import grpc
import typer

from device_agent import flags
from device_agent.machine import kept_identity
from venn.v1 import auth_pb2
from venn.wire.calls import identity_stub
from venn.wire.command import Context, Insecure, application, client_command, command, run_async
from venn.wire.errors import UsageError
from venn.wire.exits import write_line
from venn.wire.join import Joined, forget, join, joined_at, parse_link
from venn.wire.keys import key_file, load_key, new_key, read_key, write_private
from venn.wire.login import log_in, rotation
from venn.wire.places import keys_folder, state_folder
from venn.wire.status import peer_error

CALL_S = 10.0
NEXT = "device.key.next"  # of a rotation that has not ended

app = application()

Line = Annotated[str, typer.Argument(metavar="LINE", help="Join line that `venn token create` printed, in quotes.")]


@app.command("join", epilog="Example: venn agent join 'VENN://192.168.1.10:9700/CA/TOKEN' --name my-pi")
@command
def join_(
    context: Context,
    *,
    line: Line,
    name: Annotated[str | None, typer.Option(help="Device's name; default: a name made once and kept here.")] = None,
    keys: flags.Keys = None,
    insecure: Insecure = False,
) -> int:
    """Let this machine in as a device of a coordinator, with a key of its own."""
    named = name or kept_identity(state_folder())

    async def main() -> int:
        folder = keys or keys_folder()
        joined = await join(parse_link(line), folder, role="device", name=named, insecure=insecure)
        _answer(context, _told(joined), f"{joined.name} has joined the coordinator at {joined.coordinator}")
        return 0

    return run_async(main())


@app.command(epilog="Example: venn agent status")
@client_command
def status(context: Context, *, keys: flags.Keys = None) -> int:
    """Say which coordinator this device has joined, and whether it is let in."""

    async def main() -> int:
        joined = _joined(keys)
        await _call(context, keys, None)
        _answer(context, _told(joined), f"{joined.name} is let in by the coordinator at {joined.coordinator}")
        return 0

    return run_async(main())


@app.command(epilog="Example: venn agent rotate")
@client_command
def rotate(context: Context, *, keys: flags.Keys = None) -> int:
    """Replace this device's key by a new one. The old one is good until the new one is first used."""

    async def main() -> int:
        joined, folder = _joined(keys), keys or keys_folder()
        old, path = load_key("device", dir=folder), folder / NEXT
        if not path.exists():
            write_private(path, new_key().pem())
        new = read_key(path)
        signature = new.sign(rotation(old.id, new.public))
        await _call(context, keys, auth_pb2.RotateKeyRequest(public_key=new.public, signature=signature))
        path.replace(key_file("device", folder))
        await _call(context, keys, None)  # from here on the old key is not let in
        _answer(context, _told(joined), f"{joined.name} has a new key")
        return 0

    return run_async(main())


@app.command(epilog="Example: venn agent leave")
@client_command
def leave(context: Context, *, keys: flags.Keys = None) -> int:
    """Leave the coordinator for good: this device's key is revoked there, and removed here."""

    async def main() -> int:
        joined = _joined(keys)
        await _call(context, keys, auth_pb2.LeaveRequest())
        forget(keys or keys_folder())
        _answer(context, _told(joined), f"{joined.name} has left the coordinator at {joined.coordinator}")
        return 0

    return run_async(main())


async def _call(
    context: Context, keys: Path | None, request: auth_pb2.RotateKeyRequest | auth_pb2.LeaveRequest | None
) -> None:
    """Log in as this device, and make a call; None: only log in. Raises PeerError."""
    login = log_in("device", context.coordinator, keys, insecure=context.insecure)
    try:
        async with login.channel() as channel:
            if request is None:
                await login.enter()
            elif isinstance(request, auth_pb2.RotateKeyRequest):
                await identity_stub(channel).RotateKey(request, timeout=CALL_S)
            else:
                await identity_stub(channel).Leave(request, timeout=CALL_S)
    except grpc.aio.AioRpcError as error:
        raise peer_error(error, where=f"coordinator at {context.coordinator}") from error


def _joined(keys: Path | None) -> Joined:
    folder = keys or keys_folder()
    joined = joined_at(folder)
    if joined is None:
        fix = "venn agent join LINE; an administrator gets the line from `venn token create`"
        raise UsageError("NOT_JOINED", "this machine has not joined a coordinator", where=str(folder), fix=fix)
    return joined


def _told(joined: Joined) -> dict[str, str]:
    return {"name": joined.name, "role": joined.role, "coordinator": joined.coordinator, "id": joined.id}


def _answer(context: Context, said: dict[str, str], line: str) -> None:
    write_line(sys.stdout, json.dumps(said) if context.json else line)
