"""Chunks, in which large objects travel, each with its offset, read and written in place; and digests of the whole.

Protobuf's Python API copies a chunk's bytes four times on each side, and most of the time of a large transfer goes
there. The bytes on the wire are the same here; what is not a plain chunk is left to protobuf. See task.proto for the
fields.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from venn.wire.errors import PeerError

# BLAKE3 names an object (a model, a job's code, a response) and checks it. As hard to forge as SHA-256, in a quarter of
# its time even where a processor has instructions for that (AVX-512 beside SHA; measured).
Hasher = blake3  # of an object that comes in pieces: update(), digest()
DIGEST_BYTES = 32
CHUNK_BYTES = 512 * 1024
MAX_CHUNK_BYTES = 1024 * 1024
SMALL_BYTES = 64 * 1024  # read, hashed and copied in less time than it takes to hand them to a thread
# A field's tag is its number << 3 | its wire type (0 varint, 2 length-delimited).
FETCH_TOTAL, FETCH_CHUNK = 0x08, 0x12
SUBMIT_CHUNK = 0x12
OFFSET, DATA = 0x08, 0x12


class ChunkError(PeerError):
    """The error of a chunk that is too large or empty."""


def pieces(data: bytes | bytearray | memoryview, start: int = 0, stop: int | None = None) -> Iterator[memoryview]:
    """``data[start:stop]`` in pieces that fit a chunk, in place."""
    view = memoryview(data).cast("B")
    end = len(view) if stop is None else min(stop, len(view))
    while start < end:
        until = boundary(start, end)
        yield view[start:until]
        start = until


def boundary(offset: int, end: int) -> int:
    """The end of the chunk that begins at ``offset``: at the next multiple of the chunk size, or at ``end``."""
    return min(end, (offset // CHUNK_BYTES + 1) * CHUNK_BYTES)


def check_size(offset: int, size: int) -> None:
    """Check the size of a chunk. Raises ChunkError unless it may have so many bytes."""
    if not 0 < size <= MAX_CHUNK_BYTES:
        raise ChunkError(
            "CHUNK_SIZE", f"the chunk at byte {offset} has {size} bytes, allowed are 1 to {MAX_CHUNK_BYTES}"
        )


class Piece(NamedTuple):
    """A chunk that was read in place."""

    offset: int
    data: memoryview  # of the message: good as long as that
    total: int = 0  # bytes of the whole artifact, of a FetchResponse


def fetch_response(total: int, offset: int, data: bytes | memoryview) -> bytes:
    """A FetchResponse, serialised."""
    head = bytes((FETCH_TOTAL,)) + _varint(total) if total else b""
    return _message(head, FETCH_CHUNK, offset, data)


def field(number: int, message: bytes) -> bytes:
    """A message that has one field, an embedded message that is serialised already."""
    return b"".join((bytes((number << 3 | 2,)), _varint(len(message)), message))


def joined(messages: Sequence[bytes], more: int) -> bytes:
    """Serialised messages as one, which costs less to send: the first, with the others in its field ``more``."""
    return messages[0] + b"".join(field(more, message) for message in messages[1:])


def submit_request(offset: int, data: bytes | memoryview) -> bytes:
    """A SubmitRequest that is a chunk, serialised."""
    return _message(b"", SUBMIT_CHUNK, offset, data)


def read_fetch_response(message: bytes) -> Piece | None:
    """The chunk of a FetchResponse; None if it is not laid out as one. Raises ChunkError where it has a wrong size."""
    if not message or message[0] != FETCH_TOTAL:
        return None
    total, at = _read_varint(message, 1)
    piece = _read_chunk(message, at, FETCH_CHUNK)
    return piece and piece._replace(total=total)


def read_submit_request(message: bytes) -> Piece | None:
    """The chunk of a SubmitRequest; None if it is a header, or not laid out as one. Raises ChunkError."""
    return _read_chunk(message, 0, SUBMIT_CHUNK)


def _message(head: bytes, tag: int, offset: int, data: bytes | memoryview) -> bytes:
    inner = (bytes((OFFSET,)) + _varint(offset) if offset else b"") + bytes((DATA,)) + _varint(len(data))
    return b"".join((head, bytes((tag,)), _varint(len(inner) + len(data)), inner, data))


def _read_chunk(message: bytes, at: int, tag: int) -> Piece | None:
    """A chunk that fills the message from ``at`` on, its fields in their order."""
    if len(message) <= at or message[at] != tag:
        return None
    length, at = _read_varint(message, at + 1)
    if at + length != len(message):
        return None
    offset = 0
    if message[at : at + 1] == bytes((OFFSET,)):
        offset, at = _read_varint(message, at + 1)
    if message[at : at + 1] != bytes((DATA,)):
        return None
    size, at = _read_varint(message, at + 1)
    if at + size != len(message):
        return None
    check_size(offset, size)
    return Piece(offset, memoryview(message)[at:])


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Read a varint: the number, and where it ends. A number that is cut short or has more than 64 bits ends nowhere,
    past the message.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80 and value < 2**64:
            return value, at
    return 0, len(message) + 1


def digest_of(data: bytes | bytearray | memoryview) -> bytes:
    """The digest of an object in memory."""
    return blake3(data).digest()


def digest_of_file(path: Path) -> bytes:
    """The digest of an object on disk. Raises OSError."""
    return blake3().update_mmap(path).digest()
