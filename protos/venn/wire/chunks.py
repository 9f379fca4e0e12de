"""Chunks: large bytes in pieces, each with its offset."""

from collections.abc import Iterator

from venn.wire.errors import PeerError

CHUNK_BYTES = 512 * 1024
MAX_CHUNK_BYTES = 1024 * 1024
SMALL_BYTES = 64 * 1024  # read, hashed and copied in less time than it takes to hand them to a thread


class ChunkError(PeerError):
    """A chunk that is too large or empty."""


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
