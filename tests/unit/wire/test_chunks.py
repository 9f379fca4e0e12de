import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venn.v1.task_pb2 import Chunk
from venn.wire.chunks import CHUNK_BYTES, MAX_CHUNK_BYTES, ChunkError, check, split


@given(st.integers(0, 3 * CHUNK_BYTES), st.integers(0, 3 * CHUNK_BYTES), st.none() | st.integers(0, 4 * CHUNK_BYTES))
def test_the_pieces_make_the_whole(size: int, start: int, stop: int | None) -> None:
    data = bytes(i % 251 for i in range(1009)) * (size // 1009 + 1)
    data = data[:size]
    at = start
    for chunk in split(memoryview(data), start, stop):
        check(chunk)
        assert chunk.offset == at
        assert chunk.data == data[at : at + len(chunk.data)]
        at += len(chunk.data)
    assert at == max(start, min(size, size if stop is None else stop))


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (Chunk(data=b"abc", crc32=zlib.crc32(b"abd")), "CHUNK_CORRUPT"),
        (Chunk(data=b"", crc32=0), "CHUNK_SIZE"),
        (Chunk(data=bytes(MAX_CHUNK_BYTES + 1), crc32=zlib.crc32(bytes(MAX_CHUNK_BYTES + 1))), "CHUNK_SIZE"),
    ],
)
def test_damage_is_noticed(chunk: Chunk, reason: str) -> None:
    with pytest.raises(ChunkError) as error:
        check(chunk)
    assert error.value.reason == reason
