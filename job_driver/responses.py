"""Carries out what is decided about responses: onto disk, into the sum, to the coordinator, and only then a receipt."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from job_driver.aggregation import Aggregation, Update
from job_driver.counting import LEASE_ENDED, Attempt, AttemptNo, Decision, Outcome, Receipts, Status
from job_driver.inspection import ResponseForm
from job_driver.recorder import Recorder
from job_driver.spool import MANIFEST, AttemptLog, Response, Spool
from job_driver.upload import Announcement, Disk, Refused, Upload
from venn.wire.errors import VennError
from venn.wire.files import file_error
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
    ending: "asyncio.Task[None] | None" = None  # writes its end


class Responses:
    """Takes whole responses, one after the other, into the attempt that is open."""

    def __init__(self, receipts: Receipts, spool: Spool, recorder: Recorder) -> None:
        self.receipts, self._spool, self._recorder = receipts, spool, recorder
        self.disk = Disk()
        self.current: Collection | None = None  # of the attempt that is open, or that ended last
        self.changed: Callable[[], None] = lambda: None  # called when an attempt opens, fills or ends, or a lease ends
        self._refused = (0, "")  # a round, and why its first refused response was
        self._deciding = asyncio.Lock()  # decisions, the manifest and the sum have one order
        self._turn = asyncio.Event()  # what waits for the next round is to look again

    # -- responses

    def wants(self, announcement: Announcement) -> bool:
        """Whether the bytes are needed: the lease is not decided, it may count, and the size is right."""
        no, lease = announcement.no, announcement.lease
        if self.receipts.find(no) is None or self.receipts.foresee(no, lease, announcement.device) is not None:
            return False
        return not self._size_problem(announcement)

    async def take(self, announcement: Announcement, upload: Upload | None) -> tuple[Decision, bool]:
        """Decide on a response whose bytes are all here, or are not needed, and carry that out; and whether it is new.

        Raises Refused (ATTEMPT_PURGED; BYTES_NEEDED: it could not count, and now it may), VennError (a disk).
        """
        async with self._deciding:
            while self.receipts.waits(announcement.no, announcement.lease):
                self._turn.clear()
                await self._turn.wait()
            if upload is not None and upload.complete:
                return await self._decide(announcement, upload.body, upload.problem)
            problem = self._size_problem(announcement)
            if not problem and self.wants(announcement):
                raise Refused("BYTES_NEEDED", "a round opened meanwhile in which it may count: send it again")
            return await self._decide(announcement, None, problem)

    async def _decide(self, announcement: Announcement, body: memoryview | None, problem: str) -> tuple[Decision, bool]:
        no, lease, current = announcement.no, announcement.lease, self.current
        leases = self.receipts.find(no)
        if leases is None:
            raise Refused("ATTEMPT_PURGED", f"round {no.round} attempt {no.attempt} ended long ago")
        if lease in leases.decisions:
            return leases.decisions[lease], False
        decision = self.receipts.decide(no, lease, announcement.device, announcement.digest, problem)
        response = Response(
            decision,
            no,
            leases.incarnation,
            announcement.device,
            announcement.weight,
            announcement.size,
            round(time.time(), 6),
            announcement.metrics,
        )
        await self._keep(response, body)
        if decision.outcome is Outcome.COUNTED:
            assert current is not None, "a response counts in an open attempt"
            await self._add(response, current)
        elif decision.outcome is Outcome.REJECTED:
            self._tell(response)
        full = not self.receipts.collector.latest.wants
        self._recorder.put(decision, urgent=full)
        if full and decision.outcome is Outcome.COUNTED:
            self._change()
        return decision, True

    async def _keep(self, response: Response, body: memoryview | None) -> None:
        """Onto disk, before anybody hears of it."""
        decision = response.decision
        try:
            with self.disk.used(self._spool.path(decision.no, decision.lease)):
                if self._spool.keeps_at_once(response):
                    self._spool.keep(response, body)
                else:
                    await asyncio.to_thread(self._spool.keep, response, body)
        except VennError as error:
            self.receipts.retract(response.of, decision.lease, error.reason)
            raise

    async def _add(self, response: Response, current: Collection) -> None:
        """Into the sum of its attempt, unless that was aborted while the response was kept."""
        path = self._spool.path(response.no, response.decision.lease)
        if current.attempt.status is Status.ABORTED:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        else:
            current.aggregation.add(Update.of(response, path))

    def _tell(self, response: Response) -> None:
        """Say why a response was refused, unless its lease had ended."""
        decision = response.decision
        if not decision.reason.startswith(LEASE_ENDED):
            number, reason = decision.no.round, printable(decision.reason, 300)
            log(logger, logging.WARNING, "a response is refused", device=response.device, round=number, why=reason)
            if self._refused[0] != number:
                self._refused = number, reason

    @property
    def refusal(self) -> str:
        """Why the first response that was refused in this round was; "" if none was."""
        number, reason = self._refused
        return reason if number == self.receipts.collector.latest.no.round else ""

    @property
    def form(self) -> ResponseForm:
        """Of the responses to the current attempt."""
        assert self.current is not None, "an attempt is open before a response can be wanted"
        return self.current.form

    def _size_problem(self, announcement: Announcement) -> str:
        return self.current.form.size_problem(announcement.size) if self.current is not None else ""

    # -- attempts

    def open(self, no: AttemptNo, form: ResponseForm, aggregation: Aggregation, *, incarnation: int) -> Collection:
        """From here on responses to this attempt are taken: they have this form and go into this sum.

        ``incarnation``: of the coordinator that grants its leases.
        """
        attempt = self.receipts.open(no, incarnation=incarnation)
        ended = asyncio.get_running_loop().create_future()
        self.current = Collection(attempt, incarnation, form, aggregation, time.time(), ended)
        self._change()
        return self.current

    def end(self, no: AttemptNo, status: Status, reason: str) -> None:
        """The coordinator's one word on an attempt; heard again, or about another than the open one, it is ignored."""
        current = self.current
        if current is not None and self.receipts.end(no, status, time.monotonic()):
            self._ended(current, reason)
            current.ending = asyncio.create_task(self._write_end(current))

    async def ended(self) -> str:
        """Wait for the end of the current attempt, until it is on disk; gives the reason."""
        assert self.current is not None
        reason = await self.current.ended
        if self.current.ending is not None:
            await asyncio.shield(self.current.ending)
        return reason

    async def settled(self) -> None:
        """Until no end is being written."""
        if self.current is not None and self.current.ending is not None:
            await asyncio.wait({self.current.ending})

    def lease_over(self, no: AttemptNo, lease: int, why: str) -> None:
        """The coordinator ended a lease; its partial upload dies with it."""
        self.receipts.lease_ended(no, lease, why)
        self._change()

    def finish(self) -> None:
        """No further round opens."""
        self.receipts.collector.finish()
        self._change()

    def _ended(self, current: Collection, reason: str) -> None:
        current.ended_at = time.time()
        current.ended.set_result(reason)
        self._change()

    async def _write_end(self, current: Collection) -> None:
        """Before the next model or attempt, and not on the loop: with fsync that takes as long as the disk likes. A
        driver that is killed meanwhile asks the coordinator again.
        """
        attempt, at = current.attempt, round(current.ended_at, 6)
        line = attempt.no, attempt.status, list(attempt.counted), current.incarnation, at
        try:
            await asyncio.to_thread(self._spool.end, *line)
        except OSError as error:
            raise file_error(error, MANIFEST) from error

    def _change(self) -> None:
        self._turn.set()
        self.changed()

    # -- after a restart of this driver

    def recall(self, logged: AttemptLog, status: Status) -> None:
        """An attempt that is over, with this status: its receipts may still be asked for."""
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
                path = self._spool.path(response.no, response.decision.lease)
                current.aggregation.add(Update.of(response, path))
        if logged.status is Status.CLOSED:
            self.receipts.end(logged.no, Status.CLOSED, time.monotonic())
            self._ended(current, "enough")
            return True
        if {response.incarnation for response in logged.responses} != {incarnation}:
            return False
        for response in logged.responses:
            self._recorder.put(response.decision, urgent=False)
        return True

    def _restore(self, logged: AttemptLog) -> None:
        for response in logged.responses:
            self.receipts.restore(response.of, response.decision, response.device)
