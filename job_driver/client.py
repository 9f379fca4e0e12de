"""The driver's calls to the coordinator: each is repeated until it is answered, and a restart of the other side is met.

A coordinator that was restarted has another incarnation and knows nothing of the job. The link then submits the job
again under the same key, and tells its owner (``restarted``), who opens the next attempt.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from job_driver.admission import Admission
from job_driver.settings import PATIENCE_S
from venn.v1 import job_pb2 as pb
from venn.wire.backoff import Backoff
from venn.wire.errors import PeerError
from venn.wire.exchange import Exchange
from venn.wire.logs import log
from venn.wire.status import peer_error, reason_of
from venn.wire.stubs import job_stub
from venn.wire.versions import this_version

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

Answer = TypeVar("Answer")
logger = logging.getLogger(__name__)


class Restarted(Exception):
    """The coordinator has another incarnation than when this call began: it does not know what the call is about."""


class Ended(Exception):
    """The job is over."""

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
        admission: Admission,
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
        self.heartbeat_s = (
            math.inf
        )  # the coordinator wants to hear something this often; known once the job is submitted
        self.heard_at = 0.0  # monotonic time of the last answer
        self.driver_grace_s = 0.0  # how much later than granted a lease may end; known once the job is submitted
        self.incarnation = 0  # of the coordinator; 0: it was not met yet
        self.job, self.driver_incarnation = submission.key, submission.driver_incarnation
        self._where, self._submission, self._admission = where, submission, admission
        self._patience_s, self._restarted = PATIENCE_S if patience_s is None else patience_s, restarted
        self._first_contact_s = FIRST_CONTACT_S if patience_s is None and not met else self._patience_s
        self._away = False  # the last call was not answered, and that was said
        self._submitting = asyncio.Lock()

    async def submit(self) -> pb.SubmitJobResponse:
        """Bring the job to the coordinator, or back to it. Raises PeerError, or Ended where it is over there."""
        async with self._submitting:
            request = pb.SubmitJobRequest()
            request.CopyFrom(self._submission)
            request.version.CopyFrom(this_version())
            answer = await self._repeat(self.stub.SubmitJob, request)
            self._admission.learn_key(answer.key_id, answer.ticket_key)
            self._admission.learn_time(answer.now_ms)
            self.heartbeat_s = answer.heartbeat.ToNanoseconds() / 1e9 or math.inf
            self.driver_grace_s = answer.driver_grace.ToNanoseconds() / 1e9
            former, self.incarnation = self.incarnation, answer.incarnation
            if former not in (0, answer.incarnation):
                self._restarted()
            return answer

    async def call(self, method: Callable[..., Awaitable[Answer]], request: Any) -> Answer:
        """Raises PeerError, Ended, or Restarted where the coordinator knew the job no more (it was told it again)."""
        incarnation = self.incarnation
        try:
            return await self._repeat(method, request)
        except PeerError as error:
            if error.reason == UNKNOWN_JOB and self.incarnation == incarnation:
                await self.submit()
            if self.incarnation != incarnation:
                raise Restarted from error
            raise

    async def open_attempt(self, request: pb.OpenAttemptRequest) -> pb.OpenAttemptResponse:
        """Raises what ``call`` does."""
        return (await self.call(self._drive.ask, pb.DriveRequest(open_attempt=request))).attempt_opened

    async def record(self, request: pb.RecordResponsesRequest) -> pb.RecordResponsesResponse:
        """Raises what ``call`` does."""
        return (await self.call(self._drive.ask, pb.DriveRequest(record_responses=request))).responses_recorded

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
                    self._admission.learn_time(message.now_ms)
                    for frame in (message, *message.more):
                        if 0 < frame.seq <= after:
                            continue
                        after = frame.seq or after
                        handle(frame)
            except grpc.aio.AioRpcError as error:
                gone = reason_of(error) == HISTORY_GONE
                if gone:
                    after = 0
                elif error.code() not in PASSING and reason_of(error) != UNKNOWN_JOB:
                    raise peer_error(error, where=self._where) from error
            await asyncio.sleep(backoff.next_s())
            await self.submit()
            if self.incarnation != incarnation:
                incarnation, after = self.incarnation, 0
            elif gone:
                await missed()

    async def _repeat(self, method: Callable[..., Awaitable[Answer]], request: Any) -> Answer:
        """Until it is answered.

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
                if error.code() not in PASSING or left_s <= 0 or self.incarnation != incarnation:
                    raise failure from error
                self._missed(failure, left_s)
            else:
                self._away, self.heard_at = False, time.monotonic()
                return answer
            await asyncio.sleep(backoff.next_s())

    def _missed(self, failure: PeerError, left_s: float) -> None:
        """Say once, for all that wait, whom this waits for."""
        if not self._away:
            self._away = True
            what = f"{failure.where}: {failure.message}; trying again for up to {left_s:.0f} s"
            log(logger, logging.WARNING, what)
