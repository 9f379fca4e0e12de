"""A device's end for ``venn bench emulation``: moves bytes, or counts round trips, and prints a number.

``python -m testbed.bench.loads.traffic PROXY TARGET up|down|echo|quartiles COUNT``: through a proxy,
seconds for COUNT bytes, or the median of the seconds of COUNT round trips, or the range between their quartiles.
The other end is ``answer``.

``python -m testbed.bench.loads.traffic - TARGET lost COUNT``: of COUNT datagrams that are sent straight, to be
echoed, the part that did not come back. The other end is ``Echo``.
"""

import asyncio
import socket
import statistics
import sys
import time
from contextlib import suppress
from typing import Any, cast

from venn.wire.channel import parse_address

UP, DOWN, ECHO = b"u", b"d", b"e"
KINDS = {"up": UP, "down": DOWN, "echo": ECHO, "quartiles": ECHO}
HEAD = 17  # bytes: a letter and 16 digits
BURST = 100  # datagrams that are under way at once
QUIET_S = 0.5  # without an answer: the rest of a burst is lost


def main() -> None:
    proxy, target, kind, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    got = lost(target, count) if kind == "lost" else _through(proxy, target, kind, count)
    sys.stdout.write(f"{got:.6f}\n")


def lost(target: str, count: int) -> float:
    """The part of ``count`` datagrams that is not echoed."""
    missing = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.connect(parse_address(target))
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


def _through(proxy: str, target: str, kind: str, count: int) -> float:
    with socket.create_connection(parse_address(proxy)) as link:
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
                await reader.readexactly(count) if count < 65536 else await _take(reader, count)
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


async def _take(reader: asyncio.StreamReader, count: int) -> None:
    while count:
        data = await reader.read(min(count, 65536))
        if not data:
            raise asyncio.IncompleteReadError(b"", count)
        count -= len(data)


if __name__ == "__main__":
    main()
