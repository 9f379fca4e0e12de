"""The end of a stream whose last frames are on their way."""

import asyncio
from typing import Any, cast

import pytest

from coordinator.engine.ids import SessionSeq
from coordinator.service import sessions
from coordinator.service.allowances import Allowance
from coordinator.service.sessions import Session


class Reader:
    """The context of a stream whose device reads once it is told to."""

    def __init__(self) -> None:
        self.reads, self.got = asyncio.Event(), list[bytes]()

    async def write(self, frame: bytes) -> None:
        await self.reads.wait()
        self.got.append(frame)


def session(reader: Reader) -> Session:
    return Session(SessionSeq(1), cast(Any, reader), Allowance(1, 1), Allowance(1, 1))


async def test_what_waits_is_sent_before_a_stream_ends() -> None:
    reader = Reader()
    own = session(reader)
    own.send(b"one")
    reader.reads.set()
    await own.flush()
    assert reader.got == [b"one"]
    await own.flush()  # nothing is left


async def test_a_stream_that_is_not_read_ends_as_cancelled_for_no_status_may_be_sent_beside_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "FAREWELL_S", 0.01)
    reader = Reader()
    own = session(reader)
    own.send(b"one")
    with pytest.raises(asyncio.CancelledError):
        await own.flush()
    reader.reads.set()
    await own.flush()
