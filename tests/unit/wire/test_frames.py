"""Chunks without copies: the same bytes as protobuf's, and hostile bytes left to protobuf."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venn.v1.task_pb2 import Chunk, FetchResponse, SubmitHeader, SubmitRequest
from venn.wire import frames
from venn.wire.chunks import ChunkError

offsets = st.integers(0, 2**40)
contents = st.binary(min_size=1, max_size=400)


@given(st.integers(0, 2**40), offsets, contents)
def test_a_fetch_response_is_what_protobuf_writes(total: int, offset: int, data: bytes) -> None:
    crc32 = zlib.crc32(data)
    message = FetchResponse(total_bytes=total, chunk=Chunk(offset=offset, data=data, crc32=crc32)).SerializeToString()
    assert frames.fetch_response(total, offset, memoryview(data), crc32) == message
    if total:
        assert frames.read_fetch_response(message) == (offset, data, total)


@given(offsets, contents)
def test_a_submit_request_is_what_protobuf_writes(offset: int, data: bytes) -> None:
    crc32 = zlib.crc32(data)
    message = SubmitRequest(chunk=Chunk(offset=offset, data=data, crc32=crc32)).SerializeToString()
    assert frames.submit_request(offset, data, crc32) == message
    assert frames.read_submit_request(message) == (offset, data, 0)


def test_what_is_no_chunk_is_left_to_protobuf() -> None:
    header = SubmitRequest(header=SubmitHeader(total_bytes=7)).SerializeToString()
    assert frames.read_submit_request(header) is None
    assert frames.read_submit_request(b"") is None
    assert frames.read_fetch_response(b"") is None
    assert frames.read_fetch_response(FetchResponse(total_bytes=5).SerializeToString()) is None


@given(offsets, contents, st.data())
def test_damaged_bytes_never_pass(offset: int, data: bytes, chance: st.DataObject) -> None:
    message = bytearray(
        SubmitRequest(chunk=Chunk(offset=offset, data=data, crc32=zlib.crc32(data))).SerializeToString()
    )
    at = chance.draw(st.integers(0, len(message) - 1))
    message[at] ^= 1 << chance.draw(st.integers(0, 7))
    try:
        piece = frames.read_submit_request(bytes(message))
    except ChunkError:
        return
    assert piece is None or piece.data == data  # at most the offset changed, which its reader checks


@given(st.binary(max_size=60))
def test_hostile_bytes_raise_nothing_else(message: bytes) -> None:
    for read in (frames.read_submit_request, frames.read_fetch_response):
        try:
            read(message)
        except ChunkError:
            continue


def test_a_chunk_without_data_is_refused() -> None:
    message = SubmitRequest(chunk=Chunk(offset=1, data=b"", crc32=1)).SerializeToString()
    assert frames.read_submit_request(message) is None
    oversized = bytes(2**20 + 1)
    with pytest.raises(ChunkError):
        frames.read_submit_request(frames.submit_request(0, oversized, zlib.crc32(oversized)))
