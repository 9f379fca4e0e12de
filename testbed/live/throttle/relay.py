"""Relays: links of devices in user space.

``venn relay``: the links of many devices in one process, each an HTTP CONNECT proxy of its own.

It says once where each listens, takes orders on standard input (a JSON object a line: ``{"device": NAME, "do":
"cut"}``, or mend, reset, or limit with ``"to": {...}``, its limits), answers each with a line of what is
in force, and writes down each second what has passed. Whoever gives orders and goes, ends it.

The relay of a container: started by its entrypoint, and held to other limits by a later one.

Whoever started it has become the device by then. So it takes its orders from a pipe with a name, and answers into
another; both are its user's alone, and stay when the relay ends.
"""

import asyncio
import json
import os
import select
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from device_agent.throttle import ANY
from testbed.live.throttle.container_user import HOME, as_user, dropped
from testbed.live.throttle.proxy import Link, make_link
from testbed.world.limits import Relayed
from venn.wire.errors import CannotEnforceError, PeerError, UsageError
from venn.wire.exits import write_line
from venn.wire.files import write_atomic
from venn.wire.process import LagMonitor

COUNT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """What the relay does for one device; what it does not do, ``tc`` does."""

    up_bits: float | None = None
    down_bits: float | None = None
    delay_s: float = 0.0
    jitter_s: float = 0.0
    stall: float = 0.0
    seed: str = ""
    host: str = "127.0.0.1"
    interface: str = ""
    anywhere: bool = False


def write_specs(path: Path, specs: Mapping[str, LinkSpec]) -> None:
    """What ``read_specs`` reads."""
    fields = LinkSpec.__slots__
    value = {device: {name: getattr(spec, name) for name in fields} for device, spec in specs.items()}
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")


def read_specs(path: Path) -> dict[str, LinkSpec]:
    """Raises UsageError RELAY."""
    try:
        return {device: LinkSpec(**fields) for device, fields in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        message = f"cannot be read: {type(error).__name__}: {error}"
        raise UsageError("RELAY", message, where=str(path), fix="use the file as `venn run` wrote it") from error


async def serve(specs: Mapping[str, LinkSpec], counts: Path | None, load: Path | None = None) -> int:
    """Until cancelled. Raises UsageError: an address is not of this machine."""
    links: dict[str, Link] = {}
    try:
        listening = {}
        for device, spec in specs.items():
            link = links[device] = make_link(**{name: getattr(spec, name) for name in LinkSpec.__slots__})
            try:
                listening[device] = await link.start()
            except OSError as error:
                raise UsageError(
                    "RELAY", f"cannot listen: {error.strerror}", where=f"{device} at {spec.host}"
                ) from None
        write_line(sys.stdout, json.dumps({"listening": listening}))
        tasks = [asyncio.create_task(each) for each in (_count(links, counts), _obey(links), LagMonitor(load).run())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
    finally:
        write_counts(counts, links)
        for link in links.values():
            await link.stop()
    return 0


def write_counts(path: Path | None, links: Mapping[str, Link]) -> None:
    """Bytes that have passed, and connections, by device."""
    if path is not None:
        rows = {
            device: {"up": link.up.passed, "down": link.down.passed, "connections": link.connections}
            for device, link in links.items()
        }
        write_atomic(path, json.dumps(rows) + "\n")


async def _count(links: Mapping[str, Link], path: Path | None) -> None:
    while True:
        await asyncio.sleep(COUNT_S)
        write_counts(path, links)


async def _obey(links: Mapping[str, Link]) -> None:
    """Orders, until standard input ends; for ever, if it is neither pipe nor socket: then nobody gives any."""
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):  # asyncio gives its children a socket
        await asyncio.Event().wait()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        match _order(line):
            case {"device": str(device), "do": str(do), **rest} if device in links:
                said = await _obey_one(links[device], do, rest.get("to"))
            case _:
                said = {"error": "it is not an order, or there is no such device"}
        write_line(sys.stdout, json.dumps(said))


async def _obey_one(link: Link, do: str, to: object) -> dict[str, object]:
    """What is in force then."""
    match do:
        case "cut":
            link.cut()
        case "mend":
            link.mend()
        case "reset":
            await link.reset()
        case "limit" if isinstance(to, dict):
            link.limit(**{name: to[name] for name in Relayed.__annotations__})
        case _:
            return {"error": f"{do} is not an order"}
    return {"whole": link.whole, **link.limits()}


def _order(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


PIPES = HOME / "relay"
ORDERS, ANSWERS = "orders", "answers"
ANSWER_WITHIN_S = 10.0  # a container may be slow
MOST_BYTES = 65_536  # of an answer


def start(spec: "LinkSpec", links: Path, counts: Path, *, pipes: Path = PIPES) -> str:
    """Its address. ``links`` is what it reads, ``counts`` where it writes what has passed. Raises PeerError."""

    with as_user():
        write_specs(links, {ANY: spec})
        pipes.mkdir(exist_ok=True)
        for name in (ORDERS, ANSWERS):
            (pipes / name).unlink(missing_ok=True)
            os.mkfifo(pipes / name, 0o600)
    command = [sys.executable, "-m", "testbed.cli.main", "relay", str(links), "--counts", str(counts)]
    both = os.O_RDWR  # it has both ends of either, so that none ends when we or a later one go
    with _opened(pipes / ANSWERS, os.O_RDONLY | os.O_NONBLOCK) as answers:
        with _opened(pipes / ORDERS, both) as its_orders, _opened(pipes / ANSWERS, both) as its_answers:
            relay = subprocess.Popen(dropped(command), stdin=its_orders, stdout=its_answers)
        os.set_blocking(answers, True)
        line = _line(answers)
    if not line:
        raise PeerError("RELAY", f"the relay of this container ended with exit code {relay.wait()}")
    return str(json.loads(line)["listening"][ANY])


def started(pipes: Path = PIPES) -> bool:
    """Whether this container has one."""
    return pipes.exists()


def limit(to: Relayed, *, pipes: Path = PIPES) -> None:
    """From now on; it has said that they are in force. Raises CannotEnforceError."""
    order = {"device": ANY, "do": "limit", "to": to}
    try:
        with (
            _opened(pipes / ANSWERS, os.O_RDONLY | os.O_NONBLOCK) as answers,
            _opened(pipes / ORDERS, os.O_WRONLY | os.O_NONBLOCK) as orders,  # refused if nobody reads
        ):
            with suppress(BlockingIOError):
                os.read(answers, MOST_BYTES)  # what it said to one that did not wait for it
            os.write(orders, json.dumps(order).encode() + b"\n")
            said = _answer(answers)
    except OSError as error:
        message = f"the relay of this container is not there: {error.strerror}"
        raise CannotEnforceError("NOT_IN_FORCE", message, where="relay") from error
    if {key: said.get(key) for key in to} != to:
        raise CannotEnforceError("NOT_IN_FORCE", f"the link should be {to}, and is {said}", where="relay")


def _answer(answers: int) -> dict[str, object]:
    ready, _, _ = select.select([answers], [], [], ANSWER_WITHIN_S)
    said = json.loads(_line(answers)) if ready else {}
    return said if isinstance(said, dict) else {}


def _line(pipe: int) -> bytes:
    """The relay writes a line as a whole; empty if it has ended."""
    return os.read(pipe, MOST_BYTES)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """Its user alone may open it: root of a container has no right to what is not its own (DAC_OVERRIDE)."""
    with as_user():
        descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
