"""A client that speaks just enough HTTP/2 to break its rules: calls without an end, windows of 0, more than it may."""

import asyncio
import struct
from contextlib import suppress

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, WINDOW = 0, 1, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


class RawConnection:
    """One connection. It acknowledges settings and answers pings by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._stream = -1
        self._answered = asyncio.Event()  # our ping
        self.headers = asyncio.Event()  # of an answer, or of its end
        self._reading = asyncio.create_task(self._read())

    @staticmethod
    async def open(port: int, settings: bytes = b"") -> "RawConnection":
        """Connect, and send the settings: pairs of a 16-bit name and a 32-bit value."""
        made = RawConnection(*await asyncio.open_connection("127.0.0.1", port))
        made._writer.write(PREFACE)
        made._send(SETTINGS, 0, 0, settings)
        await made.ping()
        return made

    async def call(self, path: str, message: bytes, *, whole: bool = True) -> None:
        """Begin a call with one message; without its last byte and the end unless ``whole``."""
        self._stream += 2
        self._send(HEADERS, END_HEADERS, self._stream, _headers(path))
        framed = b"\0" + struct.pack(">I", len(message)) + message
        self._send(DATA, END_STREAM if whole else 0, self._stream, framed if whole else framed[:-1])
        await self._writer.drain()

    async def ping(self) -> None:
        """Wait until the other side has read what was sent."""
        self._answered.clear()
        self._send(PING, 0, 0, bytes(8))
        async with asyncio.timeout(30.0):
            await self._answered.wait()

    def close(self) -> None:
        self._reading.cancel()
        self._writer.close()

    def _send(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        head = struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream)
        self._writer.write(head + body)

    async def _read(self) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # the other side has closed the connection
            while True:
                await self._take()

    async def _take(self) -> None:
        head = await self._reader.readexactly(9)
        body = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        kind, flags = head[3], head[4]
        if kind == SETTINGS and not flags & ACK:
            self._send(SETTINGS, ACK, 0, b"")
        elif kind == HEADERS:
            self.headers.set()
        elif kind == PING and flags & ACK:
            self._answered.set()
        elif kind == PING:
            self._send(PING, ACK, 0, body)


def _headers(path: str) -> bytes:
    pairs = {
        ":method": "POST", ":scheme": "http", ":path": path, ":authority": "x",
        "content-type": "application/grpc", "te": "trailers",
    }  # fmt: skip
    return b"".join(_literal(name) + _literal(value, first=False) for name, value in pairs.items())


def _literal(text: str, *, first: bool = True) -> bytes:
    return (b"\0" if first else b"") + bytes([len(text)]) + text.encode()
