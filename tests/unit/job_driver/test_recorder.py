"""What is told to the coordinator, in how many calls."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from job_driver.client import End, Recorder, Restarted
from job_driver.counting import AttemptNo, Decision, Outcome, Status
from venn.v1 import job_pb2 as pb
from venn.wire.errors import PeerError

FIRST, SECOND = AttemptNo(1, 1), AttemptNo(1, 2)


class Link:
    """Answers OPEN, or what a test says, or raises that."""

    def __init__(self) -> None:
        self.calls: list[tuple[AttemptNo, Sequence[Decision]]] = []
        self.raises: Exception | None = None
        self.status = pb.ATTEMPT_STATUS_OPEN

    async def record(self, no: AttemptNo, decisions: Sequence[Decision]) -> pb.RecordResponsesResponse:
        self.calls.append((no, decisions))
        if self.raises is not None:
            raise self.raises
        return pb.RecordResponsesResponse(status=self.status)


@pytest.fixture
def link() -> Link:
    return Link()


async def told(link: Any, *put: tuple[AttemptNo, int]) -> list[End]:
    """Which attempts have ended, as the recorder heard it, after these leases were put."""
    ends: list[End] = []
    recorder = Recorder(link)

    async def run() -> None:
        async for end in recorder.run():
            ends.append(end)

    running = asyncio.create_task(run())
    for number, (no, lease) in enumerate(put):
        recorder.put(Decision(no, lease, Outcome.COUNTED, b"x" * 32), urgent=number == len(put) - 1)
    await recorder.flushed()
    running.cancel()
    return ends


async def test_what_comes_together_is_told_together_by_attempt(link: Link) -> None:
    ends = await told(link, *((FIRST, lease) for lease in range(1, 40)), (SECOND, 50))
    assert [(no.attempt, len(decisions)) for no, decisions in link.calls] == [(1, 39), (2, 1)]
    assert [decision.lease for decision in link.calls[0][1]] == list(range(1, 40))
    assert ends == []


async def test_the_answer_says_that_an_attempt_has_ended(link: Link) -> None:
    link.status = pb.ATTEMPT_STATUS_CLOSED
    assert await told(link, (FIRST, 1)) == [(FIRST, Status.CLOSED, "enough")]
    link.status = pb.ATTEMPT_STATUS_ABORTED
    assert await told(link, (FIRST, 1)) == [(FIRST, Status.ABORTED, "unknown")]


async def test_after_a_restart_there_is_nobody_to_tell(link: Link) -> None:
    link.raises = Restarted()
    assert await told(link, (FIRST, 1)) == []


async def test_an_attempt_that_the_coordinator_does_not_know_was_aborted(link: Link) -> None:
    link.raises = PeerError("OUT_OF_ORDER", "was not opened here")
    assert await told(link, (FIRST, 1)) == [(FIRST, Status.ABORTED, "unknown")]


async def test_another_refusal_is_raised(link: Link) -> None:
    link.raises = PeerError("SUPERSEDED", "a newer driver")
    recorder = Recorder(link)  # type: ignore[arg-type]
    recorder.put(Decision(FIRST, 1, Outcome.STRAGGLER, b""), urgent=True)
    with pytest.raises(PeerError):
        await anext(recorder.run())
