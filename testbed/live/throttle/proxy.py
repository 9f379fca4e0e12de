"""One device's link in user space: an HTTP CONNECT proxy through which all of its channels go.

It holds every byte, from the first one, to the link's rate and delay, each way, with one bucket for all channels. It
passes on how a side ends, half-closed or reset, so that a program behind it sees what it would see without it. A link
that is cut (a black hole) takes nothing more and gives nothing more, and no side is told.
"""

import asyncio
import random
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field

from testbed.world.links import Delay, Pacer
from venn.wire.channel import is_loopback, parse_address
from venn.wire.errors import UsageError

BUFFER_BYTES = 65_536  # of the kernel, for a socket: what waits shall wait at its sender
MOST_LATE_S = 0.004  # that is made up for; a machine that is later than that is too busy
LONGEST_REQUEST = 8192
IN_FLIGHT_S = 0.4  # beyond its delay
RESET = struct.pack("ii", 1, 0)  # linger for 0 s: closing resets


@dataclass(slots=True)
class Clock:
    """Timers ring late, by up to a millisecond on an idle machine: by the mean of that they are set earlier."""

    late_s: float = 0.0

    async def until(self, at: float) -> None:
        """That time on the loop's clock, on average."""
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
    """``start``, then ``address`` says where; ``stop`` resets what is open."""

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
        """Raises OSError."""
        server = self._server = socket.socket()
        server.setblocking(False)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
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
        """Other limits from now on, also for what is open."""
        for way, rate_bits in ((self.up, up_bits), (self.down, down_bits)):
            way.pacer.rate_bits = rate_bits
            way.delay.set(delay_s, jitter_s, stall)

    def limits(self) -> dict[str, float | None]:
        """As ``limit`` takes them."""
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
        """A black hole from now on."""
        self._whole.clear()

    def mend(self) -> None:
        """It passes again what it held back."""
        self._whole.set()

    async def reset(self) -> None:
        """Both sides of each connection see it reset."""
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
        """What the device asks for: a connection to an address of this machine, or to any, by its name too."""
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
        """Until the source ends; then the sink is told so."""
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
    """``127.0.0.1:9700`` if it is on this machine, else None: a proxy for others would be an open door. With
    ``anywhere``, any address.
    """
    try:
        text = word.decode("ascii")
        return parse_address(text) if anywhere or is_loopback(text) else None
    except (UnicodeDecodeError, UsageError):
        return None


def make_link(
    *,
    up_bits: float | None,
    down_bits: float | None,
    delay_s: float = 0.0,
    jitter_s: float = 0.0,
    stall: float = 0.0,
    seed: str = "",
    host: str = "127.0.0.1",
    interface: str = "",
    anywhere: bool = False,
) -> Link:
    """A link whose jitter is drawn from the seed."""

    def way(name: str, rate: float | None) -> Way:
        return Way(Pacer(rate), Delay(delay_s, jitter_s, random.Random(f"{seed}/{name}"), stall=stall))

    return Link(way("up", up_bits), way("down", down_bits), host, interface, anywhere)
