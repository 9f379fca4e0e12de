"""JobService: for job drivers, and for others who watch a job. Roles: job, admin.

Every call is idempotent under its natural key: job = owner/name/run, attempt = job / round / attempt. The same key
with the same body has the same answer; with another body, ALREADY_EXISTS/KEY_REUSED.
"""

import asyncio
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, TypeVar, assert_never

import grpc
from google.protobuf.message import Message

from coordinator.engine import effects, events
from coordinator.engine.effects import Effect
from coordinator.engine.ids import JobId, LeaseSeq
from coordinator.engine.model import AttemptStatus, JobEnd
from coordinator.service.admission import Admission
from coordinator.service.auth import refuse
from coordinator.service.bounds import CoordinatorBounds
from coordinator.service.convert import fields
from coordinator.service.convert import jobs as convert
from coordinator.service.convert.devices import duration
from coordinator.service.convert.fields import MalformedError
from coordinator.service.device_service import DeviceService
from coordinator.service.durability import FULL
from coordinator.service.facts import DriverAt, DriverCertified, Fact, JobForgotten, JobOwned, RoundReported, TaskOpened
from coordinator.service.follow import Followers
from coordinator.service.guard import caller
from coordinator.service.host import Host, Noted
from coordinator.service.identities import IdentityError
from coordinator.service.jobs import Job, Jobs, Ledger, Offers
from coordinator.service.quotas import QuotaError, Quotas
from coordinator.service.secret import Secret
from coordinator.service.view import View
from venn.v1 import common_pb2, job_pb2
from venn.v1.job_pb2_grpc import JobServiceServicer, add_JobServiceServicer_to_server
from venn.wire.admission import check_version, this_version
from venn.wire.bounds import Refusals
from venn.wire.calls import Exchanges
from venn.wire.channel import is_literal, is_loopback
from venn.wire.errors import UsageError
from venn.wire.status import abort
from venn.wire.text import printable

Context = grpc.aio.ServicerContext[Any, Any]
E = TypeVar("E", bound=Effect)

SERVICE = "venn.v1.JobService"
MOST_CERTIFICATE_BYTES = 2048
WATCH_AT_MOST_EVERY_S = 0.1
WATCH_AT_LEAST_EVERY_S = 5.0

REFUSALS = {  # of the engine
    "KEY_REUSED": grpc.StatusCode.ALREADY_EXISTS,
    "SUPERSEDED": grpc.StatusCode.ABORTED,
    "UNKNOWN_JOB": grpc.StatusCode.NOT_FOUND,
    "BAD_SPEC": grpc.StatusCode.INVALID_ARGUMENT,
    "TOO_MANY_JOBS": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "TOO_FAST": grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class JobService(JobServiceServicer):
    """Serves job drivers: turns calls into events, and the effects into answers.

    The streams are coroutines that write to their context, not generators: a generator that is left at a yield would
    clean up only when it is collected. The stubs' types know generators only.
    """

    def __init__(
        self,
        host: Host,
        *,
        jobs: Jobs,
        offers: Offers,
        followers: Followers,
        ledger: Ledger,
        devices: DeviceService,
        view: View,
        secret: Secret,
        admission: Admission,
        insecure: bool,
        bounds: CoordinatorBounds,
        refusals: Refusals,
    ) -> None:
        self._host, self._jobs, self._offers, self._followers = host, jobs, offers, followers
        self._ledger, self._devices, self._view, self._secret, self._insecure = ledger, devices, view, secret, insecure
        self._owners, self._identities = admission.owners, admission.identities
        self._quotas = Quotas(bounds, refusals, jobs, admission.owners)
        self.exchanges = Exchanges()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the generated method handlers, but FollowJob without a serialiser: histories are kept in bytes."""
        follow: grpc.RpcMethodHandler[job_pb2.FollowJobRequest, bytes] = grpc.unary_stream_rpc_method_handler(
            self.FollowJob, request_deserializer=job_pb2.FollowJobRequest.FromString
        )
        own = {"FollowJob": follow}
        # gRPC 1.70 does nothing with registered methods and takes the first generic one; later ones look at them first.
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, own),))
        add_JobServiceServicer_to_server(self, server)
        server.add_registered_method_handlers(SERVICE, own)

    async def SubmitJob(self, request: job_pb2.SubmitJobRequest, context: Context) -> job_pb2.SubmitJobResponse:
        await check_version(context, request.version)
        try:
            name = convert.job_id(request.key)
            spec = convert.job_spec(name, request.spec)
            incarnation = fields.at_most(request.driver_incarnation, fields.MOST_COUNT, "driver_incarnation")
            fields.at_most(len(request.certificate), MOST_CERTIFICATE_BYTES, "certificate")
            check_address(request.address, insecure=self._insecure or bool(request.certificate))
        except (MalformedError, UsageError) as error:
            await _invalid(context, error)
        me, known = caller(), self._host.engine.jobs
        await self._afford(request, context, name)
        if not self._owners.claim(name, me, known):
            message = f"{name} is a job of another owner; choose another owner, name or run"
            await abort(context, grpc.StatusCode.NOT_FOUND, "OTHER_OWNER", message)
        submitted = (
            DriverAt(name, request.address, incarnation),
            DriverCertified(name, request.certificate.hex()),
            JobOwned(name, me.id),
        )
        event = events.JobSubmitted(spec, incarnation)
        try:
            accepted = await self._ask(context, event, effects.AcceptJob, lambda made: _if_accepted(made, submitted))
        finally:
            if name not in known:  # it was refused
                self._owners.forget(name)
        job = self._jobs.get(name)
        if job is None or job.ended:  # the engine has forgotten the one that ended
            job = Job(name, request.address, incarnation, spec.asynchronous is not None, self._secret)
            for forgotten in self._jobs.add(job, self._host.engine.jobs):
                self._host.note(JobForgotten(forgotten))
                self._owners.forget(forgotten)
        if incarnation >= job.incarnation:
            job.incarnation, job.address = incarnation, request.address
            job.certificate = request.certificate
        settings = self._host.engine.world.settings
        return job_pb2.SubmitJobResponse(
            ticket_key=job.ticket_key,
            key_id=job.key_id,
            incarnation=self._host.incarnation,
            open_attempt=self._view.attempt_state(accepted.open_request),
            now_ms=self._host.wall_ms(self._host.now()),
            version=this_version(),
            driver_grace=duration(settings.driver_grace_s),
            heartbeat=duration(settings.heartbeat_s),
        )

    async def Drive(self, request_iterator: object, context: Context) -> None:  # type: ignore[override]
        while (request := await self.exchanges.request(context)) is not None:
            match request.WhichOneof("request"):
                case "open_attempt":
                    opened = await self._open_attempt(request.open_attempt, context)
                    answer = job_pb2.DriveResponse(attempt_opened=opened)
                case "record_responses":
                    recorded = await self._record_responses(request.record_responses, context)
                    answer = job_pb2.DriveResponse(responses_recorded=recorded)
                case None:
                    await _invalid(context, MalformedError("request", "it is missing"))
                case other:
                    assert_never(other)
            await context.write(answer)

    async def _open_attempt(self, request: job_pb2.OpenAttemptRequest, context: Context) -> job_pb2.OpenAttemptResponse:
        await self._afford(request, context)
        try:
            name, round_, attempt = convert.attempt_of(request.key)
            convert.check_task(request.task)
        except MalformedError as error:
            await _invalid(context, error)
        job = await self._driven(name, request.driver_incarnation, context)
        task = request.task.SerializeToString(deterministic=True)
        new = (round_, attempt) not in job.bodies
        if not job.same_body(round_, attempt, task, request.rounds_left):
            await _refuse(context, "KEY_REUSED", f"attempt {round_}/{attempt} of {name} was opened with another task")
        if new:
            self._offers.prepare(job, request.key, request.task)
        event = events.AttemptOpened(name, job.incarnation, round_, attempt, request.rounds_left or None)
        opened = TaskOpened(name, round_, attempt, request.rounds_left, b64encode(task).decode())
        try:
            facts = (lambda made: _if_open(made, opened)) if new else None
            accepted = await self._ask(context, event, effects.AcceptAttempt, facts)
        except grpc.aio.AbortError:
            if new:
                job.forget(round_, attempt)
            raise
        return job_pb2.OpenAttemptResponse(
            status=fields.ATTEMPT_STATUS[accepted.status],
            request=accepted.request,
            responses_needed=accepted.responses_needed,
            places=accepted.places,
            remaining=None if accepted.deadline_at is None else duration(accepted.deadline_at - self._host.now()),
        )

    async def FollowJob(self, request: job_pb2.FollowJobRequest, context: Context) -> None:  # type: ignore[override]
        try:
            name = convert.job_id(request.job)
        except MalformedError as error:
            await _invalid(context, error)
        job = await self._driven(name, request.driver_incarnation, context)
        await self._followers.follow(job, request.after_seq, context)

    async def _record_responses(
        self, request: job_pb2.RecordResponsesRequest, context: Context
    ) -> job_pb2.RecordResponsesResponse:
        await self._afford(request, context)
        try:
            name, round_, attempt = convert.attempt_of(request.attempt)
            responses = convert.recorded(request)
        except MalformedError as error:
            await _invalid(context, error)
        job = await self._driven(name, request.driver_incarnation, context)
        event = events.ResponsesRecorded(name, job.incarnation, round_, attempt, responses)
        answer = await self._ask(context, event, effects.AnswerResponses)
        return job_pb2.RecordResponsesResponse(status=fields.ATTEMPT_STATUS[answer.status], responses=answer.responses)

    async def ReportActivity(
        self, request: job_pb2.ReportActivityRequest, context: Context
    ) -> job_pb2.ReportActivityResponse:
        job = await self._reported(request.job, request.driver_incarnation, context)
        offers = self._ledger.offers
        for lease in map(LeaseSeq, request.leases):
            if lease in offers and offers[lease].job == job.job:
                self._devices.alive(offers[lease].session)
        return job_pb2.ReportActivityResponse()

    async def ReportRound(self, request: job_pb2.ReportRoundRequest, context: Context) -> job_pb2.ReportRoundResponse:
        await self._afford(request, context)
        try:
            metrics = convert.metrics(request.metrics)
        except MalformedError as error:
            await _invalid(context, error)
        job = await self._reported(request.job, request.driver_incarnation, context)
        job.report(request.round, metrics)
        self._host.note(RoundReported(job.job, request.round, metrics))
        return job_pb2.ReportRoundResponse()

    async def FinishJob(self, request: job_pb2.FinishJobRequest, context: Context) -> job_pb2.FinishJobResponse:
        job = await self._reported(request.job, request.driver_incarnation, context)
        await self._end(events.JobEnded(job.job, JobEnd.FINISHED, incarnation=job.incarnation), context)
        return job_pb2.FinishJobResponse()

    async def CancelJob(self, request: job_pb2.CancelJobRequest, context: Context) -> job_pb2.CancelJobResponse:
        said_by = request.driver_incarnation if request.driver_incarnation or request.failed else None
        if said_by is None:
            job = await self._known(request.job, context)
        else:  # only a driver gives up
            job = await self._reported(request.job, said_by, context)
        end = JobEnd.FAILED if request.failed else JobEnd.CANCELLED
        message = printable(request.reason, limit=fields.MOST_TEXT)
        if not job.ended:
            await self._end(events.JobEnded(job.job, end, message, said_by), context)
        return job_pb2.CancelJobResponse(phase=self._view.job(job).phase)

    async def WatchJob(self, request: job_pb2.WatchJobRequest, context: Context) -> None:  # type: ignore[override]
        job = await self._known(request.job, context)
        told = job_pb2.JobStatus()
        while True:
            changed = job.changed()
            status = self._view.job(job)
            if not _same(status, told):
                told = status
                await context.write(job_pb2.WatchJobResponse(job=status))
            if job.ended:
                return
            try:
                async with asyncio.timeout(WATCH_AT_LEAST_EVERY_S):
                    await changed.wait()
            except TimeoutError:
                told = job_pb2.JobStatus()  # a sign of life
            await asyncio.sleep(WATCH_AT_MOST_EVERY_S)

    async def TransferJob(self, request: job_pb2.TransferJobRequest, context: Context) -> job_pb2.TransferJobResponse:
        job = await self._known(request.job, context)
        try:
            owner = self._identities.find(request.to)
        except IdentityError as error:
            await refuse(context, error)
        if owner.role == "device" or owner.revoked_ms:
            await _invalid(context, MalformedError("to", f"{owner.name} cannot own a job"))
        await self._host.keep(self._owners.transfer(job.job, owner))
        if job.follower is not None:  # the driver of the former owner
            job.follower.cancel()
        return job_pb2.TransferJobResponse(owner=owner.id)

    # -- what the calls share

    async def _afford(self, request: Message, context: Context, new: JobId | None = None) -> None:
        """Refuse a request that is over a quota of its owner; ``new``: a job that it may begin."""
        try:
            self._quotas.check_recorded(caller(), request.ByteSize())
            if new is not None:
                self._quotas.check_jobs(caller(), new)
        except QuotaError as error:
            await _refuse(context, error.reason, f"{error.message}; {error.fix}")

    async def _ask(self, context: Context, event: events.Event, wanted: type[E], facts: Noted | None = None) -> E:
        """The effect that answers this event; a RefuseJob ends the call."""
        await check_space(self._host, context)
        for effect in await self._host.ask(event, facts):
            if isinstance(effect, wanted):
                return effect
            if isinstance(effect, effects.RefuseJob):
                await self._refused(effect, context)
        raise AssertionError(f"{event} has no {wanted.__name__}")

    async def _end(self, event: events.JobEnded, context: Context) -> None:
        """End a job; one that has ended otherwise stays as it is, and the call is refused."""
        await check_space(self._host, context)
        for effect in await self._host.ask(event):
            if isinstance(effect, effects.RefuseJob):
                await self._refused(effect, context)

    async def _refused(self, effect: effects.RefuseJob, context: Context) -> NoReturn:
        """The details that go with JOB_ENDED: how and why the job ended."""
        job = self._host.engine.jobs.get(effect.job)
        end = {"phase": job.state.value, "why": job.message} if job is not None and job.ended else {}
        await _refuse(context, effect.reason, effect.message, **end)

    async def _known(self, key: common_pb2.JobKey, context: Context) -> Job:
        try:
            name = convert.job_id(key)
        except MalformedError as error:
            await _invalid(context, error)
        job = self._jobs.get(name)
        if job is None or name not in self._host.engine.jobs or not self._owners.may_see(name, caller()):
            await _refuse(context, "UNKNOWN_JOB", f"no job {name} is known here; submit it")
        return job

    async def _driven(self, name: JobId, incarnation: int, context: Context) -> Job:
        """The job, if its driver's newest incarnation calls; any other call is refused."""
        job = self._jobs.get(name)
        if job is None or not self._owners.owns(name, caller()):
            await _refuse(context, "UNKNOWN_JOB", f"no job {name} is known here; submit it")
        if incarnation < job.incarnation:
            await _refuse(context, "SUPERSEDED", f"a newer driver has taken over {name}")
        if incarnation > job.incarnation:
            await _refuse(context, "OUT_OF_ORDER", f"this driver has not submitted {name} yet")
        job.heard_at = self._host.now()
        return job

    async def _reported(self, key: common_pb2.JobKey, incarnation: int, context: Context) -> Job:
        job = await self._known(key, context)
        return await self._driven(job.job, incarnation, context)


async def check_space(host: Host, context: Context) -> None:
    """Refuse a call that would change something while the disk is full; its caller tries again."""
    if host.full:
        await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "OUT_OF_SPACE", FULL)


def check_address(address: str, *, insecure: bool) -> None:
    """Check that a driver's address is a literal host:port, on loopback unless the operator said otherwise. Raises
    UsageError.
    """
    if not is_literal(address):
        raise UsageError(
            "ADDRESS", "a driver's address must be an IP address", where=address, fix="name an IP address and a port"
        )
    if not insecure and not is_loopback(address):
        raise UsageError(
            "NOT_LOOPBACK",
            "nothing is encrypted at this address",
            where=address,
            fix="let the driver encrypt: start it without --insecure",
        )


def _if_accepted(made: list[Effect], facts: Iterable[Fact]) -> Iterable[Fact]:
    """The facts, if the job's submission was accepted."""
    return facts if any(isinstance(effect, effects.AcceptJob) for effect in made) else ()


def _if_open(made: list[Effect], fact: Fact) -> Iterator[Fact]:
    """The fact, if the attempt was accepted and is open."""
    answers = (effect for effect in made if isinstance(effect, effects.AcceptAttempt))
    return (fact for effect in answers if effect.status is AttemptStatus.OPEN)


def _same(status: job_pb2.JobStatus, told: job_pb2.JobStatus) -> bool:
    """A frame without its age, which always changes."""
    aged = job_pb2.JobStatus()
    aged.CopyFrom(told)
    aged.age.CopyFrom(status.age)
    return status == aged


async def _invalid(context: Context, error: MalformedError | UsageError) -> NoReturn:
    await abort(
        context, grpc.StatusCode.INVALID_ARGUMENT, error.reason, error.message, where=error.where, fix=error.fix
    )


async def _refuse(context: Context, reason: str, message: str, **metadata: str) -> NoReturn:
    await abort(context, REFUSALS.get(reason, grpc.StatusCode.FAILED_PRECONDITION), reason, message, **metadata)
