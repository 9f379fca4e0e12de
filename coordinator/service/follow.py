"""FollowJob: what happens to a job, in numbered frames; and the proof that its driver is where it says it is.

While the stream is up and the address is verified, the job may be offered devices. It is up while its driver calls
something now and then: a process that is frozen, or a machine that lost its power, leaves a stream that looks open.
"""

import asyncio
import hmac
import logging
import secrets
from dataclasses import dataclass
from typing import Any

import grpc

from coordinator.engine import effects, events
from coordinator.engine.failures import DRIVER_AWAY
from coordinator.engine.model import AttemptStatus, EngineSettings, LeaseEnd
from coordinator.service.convert import jobs as convert
from coordinator.service.device_service import DeviceService
from coordinator.service.facts import DriverVerified, TaskDropped
from coordinator.service.host import Host
from coordinator.service.jobs import Job, Jobs, Ledger
from coordinator.service.liveness import LivenessMonitor
from venn.v1 import job_pb2, task_pb2
from venn.v1.job_pb2 import JobPaused
from venn.wire.admission import CHALLENGE_BYTES, identify_mac
from venn.wire.calls import task_stub
from venn.wire.logs import log
from venn.wire.status import abort, peer_error
from venn.wire.trust import driver_trust, open_trusted

Context = grpc.aio.ServicerContext[Any, Any]

FRAMES_PER_MESSAGE = 256
IDENTIFY_S = 5.0
FIRST_RETRY_S = 0.25
LONGEST_RETRY_S = 5.0
DECIDED = frozenset({LeaseEnd.COUNTED, LeaseEnd.STRAGGLER, LeaseEnd.REJECTED})  # by the driver itself: no news to it
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Stream:
    """A follow stream of one job."""

    job: Job
    incarnation: int  # of its driver
    task: "asyncio.Task[object]"
    silent: bool = False  # it is ended because nothing was heard from its driver

    @property
    def open(self) -> bool:
        return self.job.follower is self.task


class Followers:
    """The follow streams of all jobs: at most one each, the newest."""

    def __init__(
        self, host: Host, jobs: Jobs, devices: DeviceService, ledger: Ledger, settings: EngineSettings
    ) -> None:
        self._host, self._jobs, self._devices, self._ledger = host, jobs, devices, ledger
        self._heartbeat_s = settings.heartbeat_s
        self._streams: dict[int, Stream] = {}
        self._last = 0  # number of the newest stream
        liveness_s = settings.liveness_s
        self._liveness = LivenessMonitor(
            host, settings, self._streams, lambda stream: stream.job.heard_at + liveness_s, self._fell_silent
        )
        host.listen(effects.OfferLease, self._granted)
        host.listen(effects.ResumeLease, self._resumed)
        host.listen(effects.EndLease, self._lease_ended)
        host.listen(effects.AcceptAttempt, self._attempt_opened)
        host.listen(effects.FillAttempt, self._filled)
        host.listen(effects.EndAttempt, self._attempt_ended)
        host.listen(effects.PauseJob, self._pauses_changed)
        host.listen(effects.ResumeJob, self._pauses_changed)
        host.listen(effects.EndJob, self._job_ended)

    # -- effects

    def _granted(self, now: float, effect: effects.OfferLease) -> None:
        job = self._jobs.get(effect.job)
        if job is not None and job.asynchronous:
            job.tell(convert.granted_frame(effect, self._host.wall_ms(effect.ends_at)), can_wait=True)

    def _resumed(self, now: float, effect: effects.ResumeLease) -> None:
        """Tell the device of a lease that its driver has moved, in case it has not heard."""
        offer = self._ledger.offers.get(effect.lease)
        job = self._jobs.get(offer.job) if offer else None
        if job is not None and effect.lease <= job.moved:
            self._devices.redirect(effect.session, effect.lease, job.verified, job.trusted)

    def _lease_ended(self, now: float, effect: effects.EndLease) -> None:
        job, decided = self._jobs.get(effect.job), effect.reason in DECIDED
        if job is not None and (job.asynchronous or not decided):
            job.tell(convert.lease_ended_frame(effect), can_wait=decided)

    def _attempt_opened(self, now: float, effect: effects.AcceptAttempt) -> None:
        """Make offers with the task of this attempt from here on."""
        if (job := self._jobs.get(effect.job)) and effect.status is AttemptStatus.OPEN:
            for key in [key for key in job.templates if key < (effect.round, effect.attempt)]:
                del job.templates[key]

    def _filled(self, now: float, effect: effects.FillAttempt) -> None:
        if job := self._jobs.get(effect.job):
            job.tell(convert.filled_frame(effect), can_wait=True)

    def _attempt_ended(self, now: float, effect: effects.EndAttempt) -> None:
        if job := self._jobs.get(effect.job):
            request = self._host.engine.requests.get(effect.request)
            if request is None or not request.open:  # an asynchronous one goes on
                job.templates.pop((effect.round, effect.attempt), None)
            closed = effect.status is AttemptStatus.CLOSED  # its driver hears so in the answer to RecordResponses
            job.tell(convert.attempt_ended_frame(effect), can_wait=closed)

    def _pauses_changed(self, now: float, effect: effects.PauseJob | effects.ResumeJob) -> None:
        if job := self._jobs.get(effect.job):
            job.wake()

    def _job_ended(self, now: float, effect: effects.EndJob) -> None:
        if job := self._jobs.get(effect.job):
            job.ended = True
            job.templates.clear()
            job.bodies.clear()
            self._host.note(TaskDropped(job.job))
            job.tell(convert.job_ended_frame(effect))
            job.history.end()
            self._forget_told(job)

    # -- the stream

    async def follow(self, job: Job, after_seq: int, context: Context) -> None:
        """Serve a follow stream until it or the job ends, or a newer stream of this job's driver takes over."""
        cursor = after_seq or job.history.first - 1
        me, older = asyncio.current_task(), job.follower
        assert me is not None
        stream = Stream(job, job.incarnation, me)
        job.follower = me
        self._last += 1
        number, self._streams[self._last] = self._last, stream
        self._liveness.watch(number)
        if older is not None:
            older.cancel()
        verifier = asyncio.create_task(self._verify(job, stream.incarnation))
        try:
            await self._tell(job, cursor, context)
        except asyncio.CancelledError:
            if job.follower is me:
                raise  # the transport, or the end of the server
            me.uncancel()
            if stream.silent:
                await abort(context, grpc.StatusCode.UNAVAILABLE, "SILENT", "nothing was heard from this driver")
            if job.follower is None:
                await abort(context, grpc.StatusCode.UNAVAILABLE, "DRAINING", "the coordinator is shutting down")
            await abort(context, grpc.StatusCode.ABORTED, "SUPERSEDED", "a newer stream of this job has taken over")
        finally:
            verifier.cancel()
            del self._streams[number]
            self._lost(stream)

    def _lost(self, stream: Stream) -> None:
        """Forget a stream that has ended, if it was its job's one."""
        if stream.open:
            stream.job.follower = None
            self._forget_told(stream.job)
            self._host.handle(events.DriverLost(stream.job.job, stream.incarnation))

    def _fell_silent(self, stream: Stream) -> None:
        """Tell the engine of the loss at once: a driver that does not read may hold up the stream's end."""
        log(logger, logging.WARNING, "nothing was heard from a driver", job=stream.job.job, address=stream.job.address)
        self._lost(stream)
        stream.silent = True
        stream.task.cancel()

    def dismiss(self) -> None:
        """End all streams, since the coordinator is going down. That is no loss of their drivers."""
        for job in self._jobs:
            if job.follower is not None:
                follower, job.follower = job.follower, None
                follower.cancel()

    async def _tell(self, job: Job, cursor: int, context: Context) -> None:
        """Send the frames after ``cursor``; a sign of life per heartbeat, and when the address or a pause has news."""
        told: job_pb2.DriverAlive | None = None
        while True:
            changed = job.changed()
            if not job.history.first - 1 <= cursor <= job.history.last:
                await abort(
                    context,
                    grpc.StatusCode.OUT_OF_RANGE,
                    "HISTORY_GONE",
                    f"frame {cursor + 1} is not kept; kept are {job.history.first} to {job.history.last}",
                    fix="submit the job again, and follow it from 0",
                )
            frames = job.history.after(cursor, FRAMES_PER_MESSAGE)
            if frames:
                cursor += len(frames)
                await context.write(convert.in_one(frames, self._now_ms()))
                job.history.told(cursor)
                continue
            if job.ended:
                return
            verified, paused = job.verified == job.address, self._paused(job)
            alive = job_pb2.DriverAlive(address_verified=verified, problem=job.problem, paused=paused)
            if alive != told:
                told = alive
                sign = job_pb2.FollowJobResponse(now_ms=self._now_ms(), alive=alive)
                await context.write(sign.SerializeToString())
                continue
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    await changed.wait()
            except TimeoutError:
                told = None

    def _paused(self, job: Job) -> JobPaused | None:
        """The pause that is in force now, but for the driver's own absence."""
        known = self._host.engine.jobs.get(job.job)
        pauses = known.pauses.items() if known is not None else ()
        return next((JobPaused(reason=r, message=m) for r, m in pauses if r != DRIVER_AWAY), None)

    def _forget_told(self, job: Job) -> None:
        """Drop the history of a job that has ended and has no follower: whoever submits it again is told its end."""
        if job.ended and job.follower is None:
            job.history.told(job.history.last)

    def _now_ms(self) -> int:
        return self._host.wall_ms(self._host.now())

    # -- where the driver is

    async def _verify(self, job: Job, incarnation: int) -> None:
        """Dial the driver until it proves to hold the job's key; then the job may be served."""
        delay = FIRST_RETRY_S
        while (problem := await identify(job, address := job.address, certificate := job.certificate)) is not None:
            if problem != job.problem:
                job.problem = problem
                log(logger, logging.WARNING, "cannot verify a driver", job=job.job, address=address, why=problem)
                job.wake()
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_RETRY_S)
        if job.incarnation != incarnation:
            return  # a newer driver has submitted the job meanwhile: its own stream asks where that one is
        before, now = (job.verified, job.trusted), (address, certificate)
        job.verified, job.trusted, job.problem = address, certificate, ""
        if before[0] and before != now:
            for offer in list(self._ledger.of_job(job.job)):
                job.moved = max(job.moved, offer.lease)
                self._devices.redirect(offer.session, offer.lease, address, certificate)
        if before[0] != address:
            self._host.note(DriverVerified(job.job, address, job.moved))
        await self._host.ask(events.DriverFollowed(job.job, incarnation))
        job.wake()


async def identify(job: Job, address: str, certificate: bytes) -> str | None:
    """Ask the server at an address for its proof. Returns what is wrong, None if it is the job's driver."""
    challenge = secrets.token_bytes(CHALLENGE_BYTES)
    request = task_pb2.IdentifyRequest(job=convert.job_key(job.job), challenge=challenge)
    channel = open_trusted(address, driver_trust(certificate, job.job) if certificate else None)
    try:
        answer = await task_stub(channel).Identify(request, timeout=IDENTIFY_S)
    except grpc.aio.AioRpcError as error:
        return str(peer_error(error, where=address))
    finally:
        await channel.close()
    if not hmac.compare_digest(answer.mac, identify_mac(job.ticket_key, challenge)):
        return f"the server at {address} does not hold this job's key"
    return None
