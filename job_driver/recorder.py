"""Tells the coordinator what was decided, in batches of at most 10 ms, repeated until they are answered."""

import asyncio
from collections.abc import Callable, Mapping

from job_driver.client import Link, Restarted
from job_driver.counting import AttemptNo, Decision, Outcome, Status
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.wire.errors import PeerError

BATCH_S = 0.010
MOST_IN_A_CALL = 5000
UNKNOWN_ATTEMPT = "OUT_OF_ORDER"  # the coordinator never opened it, or has forgotten it

OUTCOMES = {
    Outcome.COUNTED: common.OUTCOME_COUNTED,
    Outcome.STRAGGLER: common.OUTCOME_STRAGGLER,
    Outcome.REJECTED: common.OUTCOME_REJECTED,
}
STATUS: Mapping[int, Status] = {pb.ATTEMPT_STATUS_CLOSED: Status.CLOSED, pb.ATTEMPT_STATUS_ABORTED: Status.ABORTED}

End = Callable[[AttemptNo, Status, str], None]  # told that an attempt has ended, how, and why


class Recorder:
    """A queue of decisions, as long as the responses that were decided since the last answer."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._pending: list[Decision] = []
        self._filled, self._urgent, self._idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._idle.set()

    def put(self, decision: Decision, *, urgent: bool) -> None:
        """``urgent``: the attempt has all it needs, so nothing is gained by waiting."""
        self._pending.append(decision)
        self._filled.set()
        self._idle.clear()
        if urgent:
            self._urgent.set()

    def drop(self) -> None:
        """What is pending is about attempts that the coordinator does not know any more."""
        self._pending.clear()

    async def flushed(self) -> None:
        """Until all that was put has been answered."""
        await self._idle.wait()

    async def run(self, end: End) -> None:
        """For ever; ``end`` is told of attempts that the coordinator says are over."""
        while True:
            await self._filled.wait()
            try:
                async with asyncio.timeout(BATCH_S):
                    await self._urgent.wait()
            except TimeoutError:
                pass
            while self._pending:
                await self._send(end)
            self._filled.clear()
            self._urgent.clear()
            self._idle.set()

    async def _send(self, end: End) -> None:
        """One call about the attempt that is first in the queue."""
        no = self._pending[0].no
        batch = [decision for decision in self._pending if decision.no == no][:MOST_IN_A_CALL]
        taken = {decision.lease for decision in batch}
        self._pending = [each for each in self._pending if each.no != no or each.lease not in taken]
        request = pb.RecordResponsesRequest(
            attempt=common.AttemptKey(job=self._link.job, round=no.round, attempt=no.attempt),
            driver_incarnation=self._link.driver_incarnation,
            responses=[pb.RecordedResponse(lease=d.lease, outcome=OUTCOMES[d.outcome], digest=d.digest) for d in batch],
        )
        try:
            answer = await self._link.record(request)
        except Restarted:
            return
        except PeerError as error:
            if error.reason != UNKNOWN_ATTEMPT:
                raise
            end(no, Status.ABORTED, "unknown")
        else:
            if answer.status in STATUS:
                status = STATUS[answer.status]
                end(no, status, "enough" if status is Status.CLOSED else "unknown")
