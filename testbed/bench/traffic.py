"""A device's end for ``venn bench emulation``: moves bytes through a proxy, or counts round trips, and prints a number.

``python -m testbed.bench.traffic PROXY TARGET up|down|echo COUNT``: seconds for COUNT bytes, or the median seconds of
COUNT round trips. The other end is ``answer``.
"""

import asyncio
import socket
import statistics
import sys
import time

from venn.wire.channel import parse_address

UP, DOWN, ECHO = b"u", b"d", b"e"
KINDS = {"up": UP, "down": DOWN, "echo": ECHO}
HEAD = 17  # bytes: a letter and 16 digits


def main() -> None:
    proxy, target, kind, count = sys.argv[1], sys.argv[2], KINDS[sys.argv[3]], int(sys.argv[4])
    with socket.create_connection(parse_address(proxy)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = link.recv(4096)
        if b" 200 " not in answer:
            sys.exit(f"the proxy says {answer!r}")
        link.sendall(kind + f"{count:016}".encode())
        sys.stdout.write(f"{_measure(link, kind, count):.6f}\n")


def _measure(link: socket.socket, kind: bytes, count: int) -> float:
    if kind == ECHO:
        trips = []
        for _ in range(count):
            began = time.perf_counter()
            link.sendall(b"x")
            link.recv(1)
            trips.append(time.perf_counter() - began)
        return statistics.median(trips)
    began = time.perf_counter()
    if kind == UP:
        link.sendall(bytes(count))
        link.recv(1)
    else:
        left = count
        while left:
            left -= len(link.recv(min(left, 65536)))
    return time.perf_counter() - began


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
            case _:
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
