"""``venn relay``: the links of many devices in user space, each an HTTP CONNECT proxy, in one process.

It says once where each listens, takes orders on standard input (a JSON object a line: ``{"device": NAME, "do":
"cut"}``, or mend, reset, or limit with ``"to": {...}``, its limits), answers each with a line of what is in force, and
writes down each second what has passed. Whoever gives orders and goes, ends it.

The relay of a container is started by its entrypoint, which then becomes the device, and held to other limits later.
So it takes its orders from a pipe with a name, and answers into another; both are its user's alone, and stay.
"""

import asyncio
import json
import os
import random
import socket
import stat
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from testbed.world.limits import Relayed
from testbed.world.links import Delay, Pacer
from venn.wire.channel import is_loopback, parse_address
from venn.wire.errors import UsageError
from venn.wire.exits import write_line
from venn.wire.files import write_atomic
from venn.wire.jsontext import parse_json, read_as
from venn.wire.process import LagMonitor
from venn.wire.text import printable

BUFFER_BYTES = 65_536  # of the kernel, for a socket: what waits shall wait at its sender
MOST_LATE_S = 0.004  # that is made up for; a machine that is later than that is too busy
LONGEST_REQUEST = 8192
IN_FLIGHT_S = 0.4  # beyond its delay
RESET = struct.pack("ii", 1, 0)  # linger for 0 s: closing resets


@dataclass(slots=True)
class Clock:
    """A clock for waiting that makes up for late timers: it sets them earlier, by how late they are on average."""

    late_s: float = 0.0

    async def until(self, at: float) -> None:
        """Wait until this time of the loop's clock, on average."""
        loop = asyncio.get_running_loop()
        wait_s = at - loop.time() - self.late_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)
            self.late_s = min(MOST_LATE_S, max(0.0, self.late_s + 0.1 * (loop.time() - at)))


@dataclass(slots=True)
class Way:
    """One direction of a link, and what has passed."""

    pacer: Pacer
    delay: Delay
    leaving: Clock = field(default_factory=Clock)
    arriving: Clock = field(default_factory=Clock)
    passed: int = 0  # bytes


@dataclass(eq=False, slots=True)
class _Flow:
    """One connection through the link."""

    device: socket.socket
    peer: socket.socket | None = None
    ending: bool = False

    def reset(self) -> None:
        for end in (self.device, self.peer):
            if end is not None:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.close()

    def close(self) -> None:
        self.device.close()
        if self.peer is not None:
            self.peer.close()


@dataclass(slots=True)
class Link:
    """One device's link: ``start``, then ``stop``, which resets what is open.

    It holds every byte to the rate and the delay of the link, each way, with one bucket for all channels. It passes on
    how a side ends, half-closed or reset. A link that is cut takes and gives nothing more, and no side is told.
    """

    up: Way
    down: Way
    host: str = "127.0.0.1"
    interface: str = ""  # the only one that it may be reached through
    anywhere: bool = False  # it leads beyond this machine: only where nobody else can reach it, as in a container
    connections: int = 0  # that went through
    _flows: dict[asyncio.Task[None], _Flow] = field(default_factory=dict)
    _whole: asyncio.Event = field(default_factory=asyncio.Event)
    _server: socket.socket | None = None
    _accepting: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Listen; return the address. Raises OSError."""
        server = self._server = socket.socket()
        server.setblocking(False)
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            server.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)
        if self.interface:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self.interface.encode())
        server.bind((self.host, 0))
        server.listen(128)
        self._whole.set()
        self._accepting = asyncio.create_task(self._accept(server))
        return f"{self.host}:{server.getsockname()[1]}"

    async def stop(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait({self._accepting})
        if self._server is not None:
            self._server.close()
        await self.reset()

    def limit(
        self, *, up_bits: float | None, down_bits: float | None, delay_s: float, jitter_s: float, stall: float
    ) -> None:
        """Set other limits from now on, also for open connections."""
        for way, rate_bits in ((self.up, up_bits), (self.down, down_bits)):
            way.pacer.rate_bits = rate_bits
            way.delay.set(delay_s, jitter_s, stall)

    def limits(self) -> dict[str, float | None]:
        """The limits, as ``limit`` takes them."""
        return {
            "up_bits": self.up.pacer.rate_bits,
            "down_bits": self.down.pacer.rate_bits,
            **self.up.delay.of_both_ways,
        }

    # -- what goes wrong with it

    @property
    def whole(self) -> bool:
        """Whether it is not cut."""
        return self._whole.is_set()

    def cut(self) -> None:
        """Let nothing through from now on, and tell no side."""
        self._whole.clear()

    def mend(self) -> None:
        """Pass again what was held back."""
        self._whole.set()

    async def reset(self) -> None:
        """Reset each connection, at both sides."""
        tasks = list(self._flows)
        for task, flow in list(self._flows.items()):
            flow.reset()
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- connections

    async def _accept(self, server: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            device, _ = await loop.sock_accept(server)
            flow = _Flow(device)
            task = loop.create_task(self._serve(flow))
            self._flows[task] = flow
            task.add_done_callback(lambda done: self._flows.pop(done, None))

    async def _serve(self, flow: _Flow) -> None:
        try:
            flow.device.setblocking(False)
            flow.device.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._whole.wait()
            flow.peer = await self._connect(flow.device)
            if flow.peer is None:
                return
            self.connections += 1
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(flow.device, flow.peer, self.up))
                both.create_task(self._pump(flow.peer, flow.device, self.down))
        except* OSError:  # a side is gone: so is the other
            flow.reset()
        finally:
            flow.close()

    async def _connect(self, device: socket.socket) -> socket.socket | None:
        """Connect to what the device asks for: an address of this machine, or any with ``anywhere``."""
        loop = asyncio.get_running_loop()
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            data = await loop.sock_recv(device, 512)  # it says nothing more before it is answered
            if not data or len(head) > LONGEST_REQUEST:
                return None
            head += data
        words = head.split(b" ", 2)
        target = target_of(words[1], anywhere=self.anywhere) if len(words) == 3 and words[0] == b"CONNECT" else None
        if target is None:
            await loop.sock_sendall(device, b"HTTP/1.1 403 Forbidden\r\n\r\n")
            return None
        peer = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET)
        peer.setblocking(False)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        try:
            await loop.sock_connect(peer, target)
        except OSError:
            peer.close()
            await loop.sock_sendall(device, b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return None
        except BaseException:
            peer.close()
            raise
        await loop.sock_sendall(device, b"HTTP/1.1 200 Connection established\r\n\r\n")
        return peer

    async def _pump(self, source: socket.socket, sink: socket.socket, way: Way) -> None:
        """Pass bytes on until the source ends; then tell the sink."""
        rate = way.pacer.rate_bits or MOST_RATE_BITS
        room = max(4, int((way.delay.most_s + IN_FLIGHT_S) * rate / 8 / way.pacer.chunk))
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(min(room, MOST_IN_FLIGHT))
        async with asyncio.TaskGroup() as both:
            both.create_task(self._take(source, line, way))
            both.create_task(self._give(sink, line, way))

    async def _take(self, source: socket.socket, line: "asyncio.Queue[tuple[float, bytes]]", way: Way) -> None:
        loop = asyncio.get_running_loop()
        arrives = 0.0
        while True:
            data = await loop.sock_recv(source, way.pacer.chunk)
            left = way.pacer.book(len(data), loop.time())
            await way.leaving.until(left)
            arrives = way.delay.arrival(len(data), left, arrives)
            await line.put((arrives, data))
            if not data:
                return
            await self._whole.wait()

    async def _give(self, sink: socket.socket, line: "asyncio.Queue[tuple[float, bytes]]", way: Way) -> None:
        loop = asyncio.get_running_loop()
        while True:
            arrives, data = await line.get()
            await way.arriving.until(arrives)
            await self._whole.wait()
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(sink, data)
            way.passed += len(data)


MOST_RATE_BITS = 1e9  # as a link without a limit is counted, for what may be under way
MOST_IN_FLIGHT = 256  # chunks


def target_of(word: bytes, *, anywhere: bool = False) -> tuple[str, int] | None:
    """The host and port of an address such as ``127.0.0.1:9700``; None unless it is on this machine. With
    ``anywhere``, any address.
    """
    try:
        text = word.decode("ascii")
        return parse_address(text) if anywhere or is_loopback(text) else None
    except (UnicodeDecodeError, UsageError):
        return None


COUNT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """The limits that the relay holds for one device, and where the device finds it."""

    up_bits: float | None = None
    down_bits: float | None = None
    delay_s: float = 0.0
    jitter_s: float = 0.0
    stall: float = 0.0
    seed: str = ""  # of the jitter
    host: str = "127.0.0.1"
    interface: str = ""
    anywhere: bool = False

    def link(self) -> Link:
        """A link that is not started yet."""

        def way(name: str, rate: float | None) -> Way:
            rng = random.Random(f"{self.seed}/{name}")
            return Way(Pacer(rate), Delay(self.delay_s, self.jitter_s, rng, stall=self.stall))

        return Link(way("up", self.up_bits), way("down", self.down_bits), self.host, self.interface, self.anywhere)


def write_specs(path: Path, specs: Mapping[str, LinkSpec]) -> None:
    """Write what ``read_specs`` reads."""
    value = {device: asdict(spec) for device, spec in specs.items()}
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")


def read_specs(path: Path) -> dict[str, LinkSpec]:
    """Read what ``write_specs`` wrote. Raises UsageError RELAY."""
    try:
        return dict(read_as(Mapping[str, LinkSpec], parse_json(path.read_bytes())))
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or printable(str(error), 80)}"
        raise UsageError("RELAY", message, where=str(path), fix="use the file as `venn run` wrote it") from error


async def serve(specs: Mapping[str, LinkSpec], counts: Path | None, load: Path | None = None) -> int:
    """Serve the links until cancelled. Raises UsageError: an address is not of this machine."""
    links: dict[str, Link] = {}
    try:
        listening = {}
        for device, spec in specs.items():
            link = links[device] = spec.link()
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
    """Write the bytes that have passed, and the connections, by device."""
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
    """Carry out orders until standard input ends; wait for ever if it is neither pipe nor socket."""
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
    """Carry out one order, and return what is in force then."""
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
