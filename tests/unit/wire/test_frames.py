"""Chunks without copies: the same bytes as protobuf's, and hostile bytes left to protobuf."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venn.v1.task_pb2 import Chunk, FetchResponse, SubmitHeader, SubmitRequest
from venn.wire import chunks
from venn.wire.chunks import ChunkError

offsets = st.integers(0, 2**40)
contents = st.binary(min_size=1, max_size=400)


@given(st.integers(0, 2**40), offsets, contents)
def test_a_fetch_response_is_what_protobuf_writes(total: int, offset: int, data: bytes) -> None:
    message = FetchResponse(total_bytes=total, chunk=Chunk(offset=offset, data=data)).SerializeToString()
    assert chunks.fetch_response(total, offset, memoryview(data)) == message
    if total:
        assert chunks.read_fetch_response(message) == (offset, data, total)


@given(offsets, contents)
def test_a_submit_request_is_what_protobuf_writes(offset: int, data: bytes) -> None:
    message = SubmitRequest(chunk=Chunk(offset=offset, data=data)).SerializeToString()
    assert chunks.submit_request(offset, data) == message
    assert chunks.read_submit_request(message) == (offset, data, 0)


def test_what_is_no_chunk_is_left_to_protobuf() -> None:
    header = SubmitRequest(header=SubmitHeader(total_bytes=7)).SerializeToString()
    assert chunks.read_submit_request(header) is None
    assert chunks.read_submit_request(b"") is None
    assert chunks.read_fetch_response(b"") is None
    assert chunks.read_fetch_response(FetchResponse(total_bytes=5).SerializeToString()) is None


@given(st.binary(max_size=60))
def test_hostile_bytes_raise_nothing_else(message: bytes) -> None:
    for read in (chunks.read_submit_request, chunks.read_fetch_response):
        try:
            read(message)
        except ChunkError:
            continue


def test_a_chunk_without_data_is_refused() -> None:
    message = SubmitRequest(chunk=Chunk(offset=1, data=b"")).SerializeToString()
    assert chunks.read_submit_request(message) is None
    with pytest.raises(ChunkError):
        chunks.read_submit_request(chunks.submit_request(0, bytes(2**20 + 1)))
