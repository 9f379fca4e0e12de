"""The driver's calls to the coordinator, each repeated until it is answered; and what it tells: its decisions.

A coordinator that was restarted has another incarnation and knows nothing of the job. The link then submits the job
again under the same key, and tells its owner (``restarted``), who opens the next attempt.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

import grpc

from job_driver.counting import AttemptNo, Decision, Outcome, Status
from job_driver.settings import PATIENCE_S
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.wire.admission import this_version
from venn.wire.calls import Backoff, Exchange, job_stub
from venn.wire.errors import PeerError
from venn.wire.login import NO_LOGIN
from venn.wire.logs import log
from venn.wire.status import peer_error, reason_of

CALL_S = 10.0  # patience with one call
FIRST_S, MOST_S = 0.05, 3.0  # between two tries of one call, at most: at first, and ever
FIRST_CONTACT_S = 10.0  # until a coordinator that nobody has met must have answered once, unless told otherwise
PASSING = (  # UNKNOWN and INTERNAL are what is left of a call that broke off in the middle
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
)
UNKNOWN_JOB, HISTORY_GONE, JOB_ENDED = "UNKNOWN_JOB", "HISTORY_GONE", "JOB_ENDED"
UNKNOWN_ATTEMPT = "OUT_OF_ORDER"  # the coordinator never opened it, or has forgotten it

BATCH_S = 0.010  # a decision waits at most so long for others
MOST_IN_A_CALL = 5000  # decisions

OUTCOMES = {
    Outcome.COUNTED: common.OUTCOME_COUNTED,
    Outcome.STRAGGLER: common.OUTCOME_STRAGGLER,
    Outcome.REJECTED: common.OUTCOME_REJECTED,
}
STATUS: Mapping[int, Status] = {pb.ATTEMPT_STATUS_CLOSED: Status.CLOSED, pb.ATTEMPT_STATUS_ABORTED: Status.ABORTED}

End = tuple[AttemptNo, Status, str]  # of an attempt: how it has ended, and why

Answer = TypeVar("Answer")
logger = logging.getLogger(__name__)


class Restarted(Exception):
    """The error of a call whose coordinator was restarted meanwhile: it does not know what the call is about."""


class Ended(Exception):
    """The end of the job, raised by calls about it."""

    def __init__(self, phase: str, message: str, *, told: bool) -> None:
        """``phase``: finished, cancelled or failed. ``told``: the coordinator said so, and has not yet to be told."""
        super().__init__(message)
        self.phase, self.message, self.told = phase, message, told


class Link:
    """One job's link to the coordinator."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        where: str,
        submission: pb.SubmitJobRequest,
        *,
        patience_s: float | None,
        met: bool,
        restarted: Callable[[], None],
    ) -> None:
        """``where`` names the coordinator for people; after ``patience_s`` without it the driver gives up. None: 120 s,
        or 10 s before any driver of the job has ``met`` it.
        """
        self.stub = job_stub(channel)
        self._drive: Exchange[pb.DriveRequest, pb.DriveResponse] = Exchange(self.stub.Drive)
        # Known once the job is submitted: how often the coordinator wants to hear something, and how much later than
        # granted a lease may end.
        self.heartbeat_s, self.driver_grace_s = math.inf, 0.0
        self.heard_at = 0.0  # monotonic time of the last answer
        self.ticket_keys: dict[str, bytes] = {}  # by id: the latest last, and the one before it
        self._ahead_s = 0.0  # coordinator's Unix time less our monotonic time
        self.incarnation = 0  # of the coordinator; 0: it was not met yet
        self.job, self.driver_incarnation = submission.key, submission.driver_incarnation
        certificate = submission.certificate
        self.certificate = sha256(certificate).digest() if certificate else b""  # what tickets for this driver name
        self._where, self._submission = where, submission
        self._patience_s, self._restarted = PATIENCE_S if patience_s is None else patience_s, restarted
        self._first_contact_s = FIRST_CONTACT_S if patience_s is None and not met else self._patience_s
        self._away = False  # the last call was not answered, and that was said
        self._submitting = asyncio.Lock()

    def now_ms(self) -> int:
        """The coordinator's Unix time, in milliseconds, as far as it is known."""
        return round((time.monotonic() + self._ahead_s) * 1000)

    async def submit(self) -> pb.SubmitJobResponse:
        """Bring the job to the coordinator, or back to it. Raises PeerError, or Ended where it is over there."""
        async with self._submitting:
            request = pb.SubmitJobRequest()
            request.CopyFrom(self._submission)
            request.version.CopyFrom(this_version())
            answer = await self._repeat(self.stub.SubmitJob, request)
            self._learn_key(answer.key_id, answer.ticket_key)
            self._learn_time(answer.now_ms)
            self.heartbeat_s = answer.heartbeat.ToNanoseconds() / 1e9 or math.inf
            self.driver_grace_s = answer.driver_grace.ToNanoseconds() / 1e9
            former, self.incarnation = self.incarnation, answer.incarnation
            if former not in (0, answer.incarnation):
                self._restarted()
            return answer

    async def call(self, method: Callable[..., Awaitable[Answer]], request: Any) -> Answer:
        """Call. Raises PeerError, Ended, or Restarted: the coordinator knew the job no more, and was told it again."""
        incarnation = self.incarnation
        try:
            return await self._repeat(method, request)
        except PeerError as error:
            if error.reason == UNKNOWN_JOB and self.incarnation == incarnation:
                await self.submit()
            if self.incarnation != incarnation:
                raise Restarted from error
            raise

    async def open_attempt(self, no: AttemptNo, task: common.Task, *, rounds_left: int) -> pb.OpenAttemptResponse:
        """Open an attempt. ``rounds_left``: 0 if that is not known. Raises what ``call`` does."""
        key, incarnation = self._attempt(no), self.driver_incarnation
        opened = pb.OpenAttemptRequest(key=key, driver_incarnation=incarnation, task=task, rounds_left=rounds_left)
        return (await self.call(self._drive.ask, pb.DriveRequest(open_attempt=opened))).attempt_opened

    async def record(self, no: AttemptNo, decisions: Sequence[Decision] = ()) -> pb.RecordResponsesResponse:
        """Tell decisions in an attempt, and hear of its status. Raises what ``call`` does."""
        told = [pb.RecordedResponse(lease=d.lease, outcome=OUTCOMES[d.outcome], digest=d.digest) for d in decisions]
        key, incarnation = self._attempt(no), self.driver_incarnation
        recorded = pb.RecordResponsesRequest(attempt=key, driver_incarnation=incarnation, responses=told)
        return (await self.call(self._drive.ask, pb.DriveRequest(record_responses=recorded))).responses_recorded

    async def tell(self, method: Callable[..., Awaitable[Any]], kind: Any, **fields: Any) -> bool:
        """Call with a request of this kind about the job; False: a restarted coordinator was not told. Raises what
        ``call`` does.
        """
        try:
            await self.call(method, kind(job=self.job, driver_incarnation=self.driver_incarnation, **fields))
        except Restarted:
            return False
        return True

    async def follow(
        self, handle: Callable[[pb.FollowJobResponse], None], missed: Callable[[], Awaitable[None]]
    ) -> None:
        """Hand on each numbered frame once, and each sign of life; for ever. Raises PeerError, Ended.

        ``missed`` is called where frames were not kept that this driver has not read: it followed too slowly.
        """
        incarnation, after, backoff = self.incarnation, 0, Backoff(first_s=FIRST_S, most_s=MOST_S)
        while True:
            request = pb.FollowJobRequest(job=self.job, driver_incarnation=self.driver_incarnation, after_seq=after)
            gone = False
            try:
                async for message in self.stub.FollowJob(request):
                    backoff.reset()
                    self._learn_time(message.now_ms)
                    for frame in (message, *message.more):
                        if 0 < frame.seq <= after:
                            continue
                        after = frame.seq or after
                        handle(frame)
            except grpc.aio.AioRpcError as error:
                gone = reason_of(error) == HISTORY_GONE
                if gone:
                    after = 0
                elif error.code() not in PASSING and reason_of(error) not in (UNKNOWN_JOB, NO_LOGIN):
                    raise peer_error(error, where=self._where) from error
            await asyncio.sleep(backoff.next_s())
            await self.submit()
            if self.incarnation != incarnation:
                incarnation, after = self.incarnation, 0
            elif gone:
                await missed()

    async def _repeat(self, method: Callable[..., Awaitable[Answer]], request: Any) -> Answer:
        """Call until it is answered.

        Raises Ended where the job is over, PeerError once the patience is, or for an answer that will not change.
        """
        incarnation, backoff = self.incarnation, Backoff(first_s=FIRST_S, most_s=MOST_S)
        give_up_at = time.monotonic() + (self._patience_s if self.incarnation else self._first_contact_s)
        while True:
            try:
                answer = await method(request, timeout=CALL_S)
            except grpc.aio.AioRpcError as error:
                left_s = give_up_at - time.monotonic()
                failure = peer_error(error, where=self._where)
                if failure.reason == JOB_ENDED:
                    raise Ended(failure.details["phase"], failure.details.get("why", ""), told=True) from error
                passing = error.code() in PASSING or failure.reason == NO_LOGIN
                if not passing or left_s <= 0 or self.incarnation != incarnation:
                    raise failure from error
                self._missed(failure, left_s)
            else:
                self._away, self.heard_at = False, time.monotonic()
                return answer
            await asyncio.sleep(backoff.next_s())

    def _attempt(self, no: AttemptNo) -> common.AttemptKey:
        return common.AttemptKey(job=self.job, round=no.round, attempt=no.attempt)

    def _learn_key(self, key_id: str, key: bytes) -> None:
        """Note the key of tickets. A restarted coordinator has another; tickets of the former are still answered."""
        self.ticket_keys.pop(key_id, None)
        self.ticket_keys[key_id] = key
        while len(self.ticket_keys) > 2:
            del self.ticket_keys[next(iter(self.ticket_keys))]

    def _learn_time(self, now_ms: int) -> None:
        self._ahead_s = now_ms / 1000 - time.monotonic()

    def _missed(self, failure: PeerError, left_s: float) -> None:
        """Say once, for all that wait, whom this waits for."""
        if not self._away:
            self._away = True
            what = f"{failure.where}: {failure.message}; trying again for up to {left_s:.0f} s"
            log(logger, logging.WARNING, what)


class Recorder:
    """Tells the coordinator what was decided, in batches of at most 10 ms, repeated until they are answered."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._pending: list[Decision] = []  # since the last answer
        self._filled, self._urgent, self._idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._idle.set()

    def put(self, decision: Decision, *, urgent: bool) -> None:
        """Tell a decision soon; at once if ``urgent``: the attempt has all it needs."""
        self._pending.append(decision)
        self._filled.set()
        self._idle.clear()
        if urgent:
            self._urgent.set()

    def drop(self) -> None:
        """Forget what is pending: it is about attempts that the coordinator does not know any more."""
        self._pending.clear()

    async def flushed(self) -> None:
        """Wait until all that was put has been answered."""
        await self._idle.wait()

    async def run(self) -> AsyncIterator[End]:
        """Tell for ever; gives the attempts that the coordinator says are over. Raises PeerError, Ended."""
        while True:
            await self._filled.wait()
            try:
                async with asyncio.timeout(BATCH_S):
                    await self._urgent.wait()
            except TimeoutError:
                pass
            while self._pending:
                if end := await self._send():
                    yield end
            self._filled.clear()
            self._urgent.clear()
            self._idle.set()

    async def _send(self) -> End | None:
        """Make one call about the attempt that is first in the queue; returns its end if it has ended."""
        no = self._pending[0].no
        batch = [decision for decision in self._pending if decision.no == no][:MOST_IN_A_CALL]
        taken = {decision.lease for decision in batch}
        self._pending = [each for each in self._pending if each.no != no or each.lease not in taken]
        try:
            answer = await self._link.record(no, batch)
        except Restarted:
            return None
        except PeerError as error:
            if error.reason != UNKNOWN_ATTEMPT:
                raise
            return no, Status.ABORTED, "unknown"
        if answer.status not in STATUS:
            return None
        status = STATUS[answer.status]
        return no, status, "enough" if status is Status.CLOSED else "unknown"
