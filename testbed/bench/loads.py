"""Loads for ``venn bench emulation``: programs that use what they are let, ``python -m testbed.bench.loads NAME ...``.

``spin SECONDS`` keeps one core busy.

``hog BYTES`` prints "ready" and waits for a line. Then it touches a mebibyte at a time, at most BYTES, until it is
refused or killed, and prints after each what the process holds: resident bytes of its own and bytes of data (RssAnon
and VmData of proc(5)).

``up|down|echo|quartiles PROXY TARGET COUNT`` prints, through a proxy, the seconds for COUNT bytes, or the median of the
seconds of COUNT round trips, or the range between their quartiles. The other end is ``answer``.

``lost TARGET COUNT`` prints, of COUNT datagrams that are sent straight, to be echoed, the part that did not come back.
The other end is ``Echo``.
"""

import asyncio
import socket
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

STEP_BYTES = 2**20
PAGE_BYTES = 4096
STATUS = Path("/proc/self/status")
UP, DOWN, ECHO = b"u", b"d", b"e"
KINDS = {"up": UP, "down": DOWN, "echo": ECHO, "quartiles": ECHO}
HEAD = 17  # bytes: a letter and 16 digits
BURST = 100  # datagrams that are under way at once
QUIET_S = 0.5  # without an answer: the rest of a burst is lost


def spin(seconds: float) -> None:
    """Keep one core busy, if it is let."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def hog(most: int) -> None:
    """Take memory until it is refused."""
    print("ready", flush=True)  # noqa: T201 - for the benchmark
    sys.stdin.readline()
    kept = []
    for _ in range(0, most, STEP_BYTES):
        try:
            piece = bytearray(STEP_BYTES)
            piece[::PAGE_BYTES] = b"x" * len(range(0, STEP_BYTES, PAGE_BYTES))
        except MemoryError:
            return
        kept.append(piece)
        fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        print(int(fields["RssAnon"].split()[0]) * 1024, int(fields["VmData"].split()[0]) * 1024, flush=True)  # noqa: T201


def lost(target: str, count: int) -> float:
    """The part of ``count`` datagrams that is not echoed."""
    missing = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.connect(_address(target))
        link.settimeout(QUIET_S)
        for start in range(0, count, BURST):
            awaited = {f"{number:016}".encode() for number in range(start, min(start + BURST, count))}
            for datagram in sorted(awaited):
                link.send(datagram)
            with suppress(TimeoutError):
                while awaited:
                    awaited.discard(link.recv(64))
            missing += len(awaited)
    return missing / count


def _address(text: str) -> tuple[str, int]:
    """Split ``host:port``, without ``venn.wire``, whose libraries would be part of what a load holds."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def through(kind: str, proxy: str, target: str, count: int) -> float:
    with socket.create_connection(_address(proxy)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = link.recv(4096)
        if b" 200 " not in answer:
            sys.exit(f"the proxy says {answer!r}")
        link.sendall(KINDS[kind] + f"{count:016}".encode())
        if KINDS[kind] == ECHO:
            trips = _trips(link, count)
            first, median, third = statistics.quantiles(trips, n=4)
            return median if kind == "echo" else third - first
        return _moved(link, kind, count)


def _trips(link: socket.socket, count: int) -> list[float]:
    """Seconds of each."""
    trips = []
    for _ in range(count):
        began = time.perf_counter()
        link.sendall(b"x")
        link.recv(1)
        trips.append(time.perf_counter() - began)
    return trips


def _moved(link: socket.socket, kind: str, count: int) -> float:
    began = time.perf_counter()
    if kind == "up":
        link.sendall(bytes(count))
        link.recv(1)
    else:
        left = count
        while left:
            left -= len(link.recv(min(left, 65536)))
    return time.perf_counter() - began


class Echo(asyncio.DatagramProtocol):
    """The other end of ``lost``: says all again."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, sender: tuple[str | Any, int]) -> None:
        self._transport.sendto(data, sender)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The other end of one connection."""
    try:
        head = await reader.readexactly(HEAD)
        count = int(head[1:])
        match head[:1]:
            case b"u":
                while count and (data := await reader.read(min(count, 65536))):
                    count -= len(data)
                writer.write(b"k")
            case b"d":
                for start in range(0, count, 65536):
                    writer.write(bytes(min(65536, count - start)))
                    await writer.drain()
            case _:  # to and fro
                for _ in range(count):
                    writer.write(await reader.readexactly(1))
        await writer.drain()
        await reader.read()
    except (asyncio.IncompleteReadError, OSError):
        pass
    finally:
        writer.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["spin", seconds]:
            spin(float(seconds))
        case ["hog", most]:
            hog(int(most))
        case ["lost", target, count]:
            print(lost(target, int(count)))  # noqa: T201
        case [kind, proxy, target, count]:
            print(through(kind, proxy, target, int(count)))  # noqa: T201
        case _:
            sys.exit(__doc__)
