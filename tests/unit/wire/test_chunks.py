import pytest
from hypothesis import given
from hypothesis import strategies as st

from venn.wire.chunks import CHUNK_BYTES, MAX_CHUNK_BYTES, ChunkError, check_size, pieces


@given(st.integers(0, 3 * CHUNK_BYTES), st.integers(0, 3 * CHUNK_BYTES), st.none() | st.integers(0, 4 * CHUNK_BYTES))
def test_the_pieces_make_the_whole(size: int, start: int, stop: int | None) -> None:
    data = bytes(i % 251 for i in range(1009)) * (size // 1009 + 1)
    data = data[:size]
    at = start
    for piece in pieces(memoryview(data), start, stop):
        check_size(at, len(piece))
        assert piece == data[at : at + len(piece)]
        at += len(piece)
    assert at == max(start, min(size, size if stop is None else stop))


@pytest.mark.parametrize("size", [0, MAX_CHUNK_BYTES + 1])
def test_a_chunk_of_a_wrong_size_is_refused(size: int) -> None:
    with pytest.raises(ChunkError) as error:
        check_size(7, size)
    assert error.value.reason == "CHUNK_SIZE"
