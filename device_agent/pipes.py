"""Messages between an agent and its workers: a JSON header and raw bytes, over pipes.

length of the header (4 bytes, big-endian) | length of the body (8 bytes) | header | body
"""

import json
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import asyncio  # a keeper does without

PREFIX = struct.Struct(">IQ")
MOST_HEADER = 1 << 18
MOST_BODY = 1 << 32

SYNTHETIC = "synthetic"  # the kind of a task without a job's code (`worker.synthetic`)

Header = dict[str, Any]  # JSON


class BrokenFrame(Exception):
    """The error of bytes that are no message: the job's code wrote where it should not."""


def is_synthetic(params: Mapping[str, object]) -> bool:
    """Whether a task with these parameters needs no job's code."""
    return params.get("kind") == SYNTHETIC


def pack(header: Header, body: bytes | memoryview = b"") -> bytes:
    """The bytes of a message before its body."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return PREFIX.pack(len(text), len(body)) + text


def write(file: BinaryIO, header: Header, body: bytes | memoryview = b"") -> None:
    """Write a message; blocks until the other side has room."""
    file.write(pack(header, body))
    file.write(body)
    file.flush()


def read(file: BinaryIO) -> tuple[Header, bytes] | None:
    """Read a message; blocks. None at the end."""
    prefix = file.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        return None
    header_bytes, body_bytes = PREFIX.unpack(prefix)
    text = file.read(header_bytes)
    return json.loads(text), file.read(body_bytes)


async def receive(reader: "asyncio.StreamReader", most_body: int = MOST_BODY) -> tuple[Header, bytes]:
    """Read a message. Raises IncompleteReadError at the end, BrokenFrame for other bytes or a longer body."""
    header_bytes, body_bytes = PREFIX.unpack(await reader.readexactly(PREFIX.size))
    if header_bytes > MOST_HEADER or body_bytes > most_body:
        raise BrokenFrame(f"a header of {header_bytes} and a body of {body_bytes} bytes")
    try:
        header = json.loads(await reader.readexactly(header_bytes))
    except (ValueError, RecursionError) as error:
        raise BrokenFrame("a header that is not JSON") from error
    if not isinstance(header, dict):
        raise BrokenFrame("a header that is not an object")
    return header, await reader.readexactly(body_bytes)
