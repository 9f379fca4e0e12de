"""What a worker says of its task: only what is exactly right is taken."""

import asyncio
import json
import struct

import pytest

from device_agent import pipes
from device_agent.answers import Began, Failed, Output, Progress, Stopped, read_answer
from device_agent.pipes import BrokenFrame, Header
from venn.v1 import common_pb2

DONE: Header = {
    "say": "done",
    "id": 1,
    "weight": 2.0,
    "digest": "ab" * 32,
    "metrics": {"loss": 0.5},
    "compute_s": 0.1,
    "compute_cpu_s": 0.2,
}


def test_each_message_has_its_meaning() -> None:
    assert read_answer({"say": "began", "id": 1}, b"", 1) == Began()
    assert read_answer({"say": "progress", "id": 1, "fraction": 0.5}, b"", 1) == Progress(0.5)
    assert read_answer(DONE, b"body", 1) == Output(b"body", bytes.fromhex("ab" * 32), 2.0, {"loss": 0.5}, 0.1, 0.2)
    failed = {"say": "failed", "id": 1, "phase": "import", "message": "no\nmodule\x1b[31m"}
    assert read_answer(failed, b"", 1) == Failed(common_pb2.PHASE_IMPORT, "no module[31m")
    assert read_answer({"say": "revoked", "id": 1}, b"", 1) == Stopped()


@pytest.mark.parametrize(
    "change",
    [
        {"say": None},
        {"say": ["done"]},
        {"say": "pay"},
        {"id": 2},
        {"id": True},
        {"id": None},
        {"digest": "x" * 64},
        {"digest": None},
        {"digest": "ab" * 33},
        {"weight": "1"},
        {"weight": 1},
        {"weight": float("inf")},
        {"weight": float("nan")},
        {"compute_s": -1.0},
        {"compute_s": 1e300},
        {"compute_cpu_s": None},
        {"metrics": None},
        {"metrics": [1.0]},
        {"metrics": {"loss": "0.5"}},
        {"metrics": {"loss": float("nan")}},
        {"metrics": {"\ud800": 1.0}},
        {"metrics": {"x" * 300: 1.0}},
        {"metrics": {str(number): 1.0 for number in range(300)}},
        {"say": "progress", "fraction": 0.5},  # with a body
    ],
    ids=str,
)
def test_a_result_that_is_not_exactly_right_is_refused(change: Header) -> None:
    with pytest.raises(BrokenFrame):
        read_answer({**DONE, **change}, b"body", 1)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"say": "progress", "id": 1},
        {"say": "progress", "id": 1, "fraction": 7.0},
        {"say": "progress", "id": 1, "fraction": float("nan")},
        {"say": "failed", "id": 1, "message": "no"},
        {"say": "failed", "id": 1, "phase": "fetch", "message": "no"},
        {"say": "failed", "id": 1, "phase": "import", "message": 3},
    ],
    ids=str,
)
def test_other_messages_are_refused_likewise(said: Header) -> None:
    with pytest.raises(BrokenFrame):
        read_answer(said, b"", 1)


def header(value: object) -> bytes:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack(">IQ", len(text), 0) + text


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">IQ", 1 << 31, 0),
        struct.pack(">IQ", 2, 101) + b"{}" + bytes(101),
        header([1]),
        header(b"\xff\xff"),
        header(b"[" * 200_000),
        header(b'{"id": ' + b"9" * 10_000 + b"}"),
    ],
    ids=["endless header", "body beyond its bound", "list", "no text", "great depth", "endless number"],
)
async def test_bytes_that_are_no_message_are_refused_before_they_are_kept(sent: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(sent)
    with pytest.raises(BrokenFrame):
        await pipes.receive(reader, most_body=100)
