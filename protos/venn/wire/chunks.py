"""Large bytes in small pieces, each with its place and its CRC-32."""

import zlib
from collections.abc import Iterator

from venn.v1.task_pb2 import Chunk
from venn.wire.errors import PeerError

CHUNK_BYTES = 512 * 1024
MAX_CHUNK_BYTES = 1024 * 1024


class ChunkError(PeerError):
    """A chunk that is damaged, too large or empty."""


def pieces(data: bytes | bytearray | memoryview, start: int = 0, stop: int | None = None) -> Iterator[memoryview]:
    """``data[start:stop]`` in pieces that fit a chunk, in place."""
    view = memoryview(data).cast("B")
    end = len(view) if stop is None else min(stop, len(view))
    while start < end:
        until = boundary(start, end)
        yield view[start:until]
        start = until


def boundary(offset: int, end: int) -> int:
    """Where the chunk that begins at ``offset`` ends: at the next multiple of the chunk size, or at ``end``."""
    return min(end, (offset // CHUNK_BYTES + 1) * CHUNK_BYTES)


def split(data: bytes | bytearray | memoryview, start: int = 0, stop: int | None = None) -> Iterator[Chunk]:
    """Chunks of ``data[start:stop]``, their offsets counted from the beginning of data. Copies each byte once."""
    offset = start
    for piece in pieces(data, start, stop):
        yield Chunk(offset=offset, data=bytes(piece), crc32=zlib.crc32(piece))
        offset += len(piece)


def check(chunk: Chunk) -> bytes:
    """The chunk's bytes, which each look at ``chunk.data`` would copy anew. Raises ChunkError."""
    data = chunk.data
    verify(chunk.offset, data, chunk.crc32)
    return data


def verify(offset: int, data: bytes | memoryview, crc32: int) -> None:
    """Raises ChunkError unless the bytes are a whole chunk, as they were sent."""
    if not 0 < len(data) <= MAX_CHUNK_BYTES:
        raise ChunkError(
            "CHUNK_SIZE", f"the chunk at byte {offset} has {len(data)} bytes, allowed are 1 to {MAX_CHUNK_BYTES}"
        )
    if zlib.crc32(data) != crc32:
        raise ChunkError("CHUNK_CORRUPT", f"the chunk at byte {offset} was damaged on its way", fix="send it again")
