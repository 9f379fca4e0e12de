"""Decides on responses one after the other, and carries that out: onto disk, into the sum, to the coordinator."""

import asyncio
import logging
import math
import time
from dataclasses import dataclass
from typing import Protocol

from job_driver.aggregation import Aggregation
from job_driver.client import Recorder
from job_driver.counting import LEASE_ENDED, Attempt, AttemptNo, Decision, Outcome, Receipts, Status
from job_driver.form import ResponseForm
from job_driver.spool import AttemptLog, Disk, Refused, Response, ResponseHeader, Spool
from venn.wire.errors import VennError
from venn.wire.logs import log
from venn.wire.text import printable

logger = logging.getLogger(__name__)


@dataclass
class Collection:
    """The responses to one attempt: the sum of those that count, and the attempt's end."""

    attempt: Attempt
    incarnation: int  # of the coordinator that grants its leases
    form: ResponseForm
    aggregation: Aggregation
    opened_at: float  # Unix seconds
    ended: "asyncio.Future[str]"  # the reason, once it has ended
    ended_at: float = math.nan  # Unix seconds, once it has ended

    def end(self, reason: str) -> None:
        """Note that the attempt has ended."""
        self.ended_at = time.time()
        self.ended.set_result(reason)


class Received(Protocol):
    """The bytes of a response, as far as they are here."""

    body: memoryview | None  # of a small response that is whole; None: they are in its partial file
    problem: str  # why it is refused, once it is whole; "" if it is not

    @property
    def complete(self) -> bool:
        """Whether all bytes are here."""


class Responses:
    """Takes whole responses, one after the other, into the attempt that is open."""

    def __init__(self, receipts: Receipts, spool: Spool, recorder: Recorder) -> None:
        self.receipts, self._spool, self._recorder = receipts, spool, recorder
        self.disk = Disk()
        self.current: Collection | None = None  # of the attempt that is open, or that ended last
        self._refused = (0, "")  # a round, and why its first refused response was
        self._deciding = asyncio.Lock()  # decisions, the manifest and the sum have one order
        self._turn = asyncio.Event()  # what waits for the next round is to look again

    @property
    def full(self) -> bool:
        """Whether the attempt that opened last takes no more responses."""
        return not self.receipts.collector.latest.wants

    def wake(self) -> None:
        """Let a response that waits for the next round look again: an attempt has opened or ended, or a lease has."""
        self._turn.set()

    # -- responses

    def wants(self, header: ResponseHeader) -> bool:
        """Whether the bytes are needed: the lease is not decided, it may count, and its header is in order."""
        no, lease = header.no, header.lease
        if self.receipts.find(no) is None or self.receipts.foresee(no, lease, header.device) is not None:
            return False
        return not self._header_problem(header)

    async def take(self, header: ResponseHeader, received: Received | None) -> tuple[Decision, bool]:
        """Decide on a response whose bytes are all here, or are not needed, and carry that out; and whether it is new.

        Raises Refused (ATTEMPT_PURGED; BYTES_NEEDED: it could not count, and now it may), VennError (a disk).
        """
        while True:
            while self.receipts.waits(header.no, header.lease):  # others are decided on meanwhile
                self._turn.clear()
                await self._turn.wait()
            async with self._deciding:
                if self.receipts.waits(header.no, header.lease):
                    continue
                if received is not None and received.complete:
                    return await self._decide(header, received.body, received.problem)
                problem = self._header_problem(header)
                if not problem and self.wants(header):
                    raise Refused("BYTES_NEEDED", "a round opened meanwhile in which it may count: send it again")
                return await self._decide(header, None, problem)

    async def _decide(self, header: ResponseHeader, body: memoryview | None, problem: str) -> tuple[Decision, bool]:
        no, lease, current = header.no, header.lease, self.current
        leases = self.receipts.find(no)
        if leases is None:
            raise Refused("ATTEMPT_PURGED", f"round {no.round} attempt {no.attempt} ended long ago")
        if lease in leases.decisions:
            return leases.decisions[lease], False
        decision = self.receipts.decide(no, lease, header.device, header.digest, problem)
        response = Response(decision, header, leases.incarnation, round(time.time(), 6))
        await self._keep(response, body)
        if decision.outcome is Outcome.COUNTED:
            assert current is not None, "a response counts in an open attempt"
            await self._add(response, current)
        elif decision.outcome is Outcome.REJECTED:
            self._tell(response)
        self._recorder.put(decision, urgent=self.full)
        return decision, True

    async def _keep(self, response: Response, body: memoryview | None) -> None:
        """Keep a response on disk, before anybody hears of it."""
        decision = response.decision
        try:
            with self.disk.used(self._spool.path(decision.no, decision.lease)):
                if self._spool.keeps_at_once(response):
                    self._spool.keep(response, body)
                else:
                    await asyncio.to_thread(self._spool.keep, response, body)
        except Refused:  # for now: then it is decided anew
            self.receipts.withdraw(response.header.no, decision.lease)
            raise
        except VennError as error:
            self.receipts.retract(response.header.no, decision.lease, error.reason)
            raise

    async def _add(self, response: Response, current: Collection) -> None:
        """Add a response to the sum of its attempt, unless that was aborted while the response was kept."""
        path = self._spool.path(response.decision.no, response.decision.lease)
        if current.attempt.status is Status.ABORTED:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        else:
            current.aggregation.add(response.header, path)

    def _tell(self, response: Response) -> None:
        """Say why a response was refused, unless its lease had ended."""
        decision = response.decision
        if not decision.reason.startswith(LEASE_ENDED):
            number, reason = decision.no.round, printable(decision.reason, 300)
            log(
                logger,
                logging.WARNING,
                "a response is refused",
                device=response.header.device,
                round=number,
                why=reason,
            )
            if self._refused[0] != number:
                self._refused = number, reason

    @property
    def refusal(self) -> str:
        """Why the first response that was refused in this round was; "" if none was."""
        number, reason = self._refused
        return reason if number == self.receipts.collector.latest.no.round else ""

    @property
    def form(self) -> ResponseForm:
        """The form of the responses to the current attempt."""
        assert self.current is not None, "an attempt is open before a response can be wanted"
        return self.current.form

    def _header_problem(self, header: ResponseHeader) -> str:
        return self.current.form.header_problem(header) if self.current is not None else header.problem

    # -- attempts

    def open(self, no: AttemptNo, form: ResponseForm, aggregation: Aggregation, *, incarnation: int) -> Collection:
        """Open an attempt: from here on responses to it are taken. They have this form and go into this sum.

        ``incarnation``: of the coordinator that grants its leases.
        """
        attempt = self.receipts.open(no, incarnation=incarnation)
        ended = asyncio.get_running_loop().create_future()
        self.current = Collection(attempt, incarnation, form, aggregation, time.time(), ended)
        return self.current

    # -- after a restart of this driver

    def recall(self, logged: AttemptLog, status: Status) -> None:
        """Restore an attempt that is over, with this status: its receipts may still be asked for."""
        no = logged.no
        if logged.status is Status.OPEN:  # killed before the line of its end
            counted = [r.decision.lease for r in logged.responses if r.decision.outcome is Outcome.COUNTED]
            self._spool.end(no, status, counted, logged.incarnation, round(time.time(), 6))
        self.receipts.open(no, incarnation=logged.incarnation)
        self._restore(logged)
        self.receipts.end(no, status, time.monotonic())
        self._spool.discard(no)

    def resume(self, logged: AttemptLog, incarnation: int) -> bool:
        """Go on with the current attempt where an earlier process stopped: the same decisions, the same sum.

        ``incarnation``: of the coordinator now. False: another one granted the leases, and knows nothing of them.
        """
        current = self.current
        assert current is not None
        current.opened_at = min(response.at for response in logged.responses)
        self._restore(logged)
        for response in logged.responses:
            if response.decision.outcome is Outcome.COUNTED:
                path = self._spool.path(response.decision.no, response.decision.lease)
                current.aggregation.add(response.header, path)
        if logged.status is Status.CLOSED:
            self.receipts.end(logged.no, Status.CLOSED, time.monotonic())
            current.end("enough")
            return True
        if {response.incarnation for response in logged.responses} != {incarnation}:
            return False
        for response in logged.responses:
            self._recorder.put(response.decision, urgent=False)
        return True

    def _restore(self, logged: AttemptLog) -> None:
        for response in logged.responses:
            self.receipts.restore(response.header.no, response.decision, response.header.device)
