"""Runs a job from its first round to its last: ``await run_job(load(Path("digits.py")), Settings(...))``."""

import asyncio
import contextlib
import logging
import os
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import grpc
import numpy as np

from job_driver.artifacts import Artifact, Artifacts
from job_driver.bundle import JobFile, job_code
from job_driver.checkpoint import Checkpoint, Checkpoints, Versions, job_folder
from job_driver.client import STATUS, Ended, Link, Recorder
from job_driver.counting import AttemptNo, Collector, Receipts
from job_driver.job import Arrays, Round
from job_driver.responses import Responses
from job_driver.server import SERVICE, TaskService, add_task_service, key_text
from job_driver.settings import Settings
from job_driver.signature import signed_code
from job_driver.spool import Spool
from job_driver.training import Tools, TrainingLoop
from job_driver.upload import Uploads
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.wire import health, tensors
from venn.wire.authority import self_signed
from venn.wire.bounds import Refusals
from venn.wire.calls import enum_name
from venn.wire.channel import bind, is_loopback, make_server, resolved
from venn.wire.errors import PeerError, UsageError, VennError
from venn.wire.exits import leaves
from venn.wire.files import JsonLines, write_atomic
from venn.wire.health import Health
from venn.wire.keys import id_of, new_key, read_key, write_private
from venn.wire.login import Login, log_in
from venn.wire.logs import log
from venn.wire.open_calls import OpenCalls
from venn.wire.process import LagMonitor
from venn.wire.tensors import TensorError
from venn.wire.text import printable
from venn.wire.trust import driver_name

GOODBYE_S = 2.0  # for the calls that end a job, and for receipts under way
ACTIVITY_EVERY_S = 1.0
MOST_UPLOAD_THREADS = 4  # that write responses and look at them; one of them takes in more than 1 GB/s
READ_AHEAD = 2**16  # bytes of each response: with a chunk, all that waits in memory of one, whatever its credit

DECIDED = (common.LEASE_END_COUNTED, common.LEASE_END_STRAGGLER, common.LEASE_END_REJECTED)  # by us, before
CRASHES = "JOB_CRASHES"
KEY, CERTIFICATE = "driver.key", "driver.pem"  # of the server for devices, in the folder of a job

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobResult:
    """The end of a job."""

    job: str  # owner/name/run
    finished: bool
    phase: str  # finished, cancelled or failed
    message: str  # why it did not finish
    rounds: Sequence[Round]
    model: Arrays  # after the last closed round; read-only


async def run_job(file: JobFile, settings: Settings, *, on_round: Callable[[Round], None] | None = None) -> JobResult:
    """Run a job to its end. ``on_round`` is told each round that closes.

    Raises UsageError before anything is started, JobError where the job's own code fails, PeerError where the
    coordinator is not there, speaks another version or refuses, or the disk is full. Cancelled, or stopped by what can
    be mended (the job's own code, a full disk, a damaged spool), it leaves a job that has a folder to its next driver
    (``resume``), and ends one that has none.
    """
    with job_folder(settings.folder) as folder:
        driver = Driver(file, settings, folder, on_round or (lambda _: None))
        try:
            return await driver.run()
        finally:
            driver.close()


class Driver:
    """One process's part in a job: serves devices, follows the coordinator, and trains the model between them."""

    def __init__(self, file: JobFile, settings: Settings, folder: Path, on_round: Callable[[Round], None]) -> None:
        self._file, self._settings, self._folder, self._on_round = file, settings, folder, on_round
        self._thread = ThreadPoolExecutor(1, "job")  # the job's own code, one piece at a time
        cores = min(os.cpu_count() or 1, MOST_UPLOAD_THREADS)
        self._threads = ThreadPoolExecutor(cores, "upload")  # of responses: no receipt waits for the job's code
        self._checkpoints = Checkpoints(folder, fsync=settings.fsync)
        self._spool = Spool(folder, fsync=settings.fsync)
        self._log = JsonLines(folder / "rounds.jsonl")
        self._refusals = Refusals()
        self._der = b""  # the certificate of this driver's server; empty: nothing is encrypted
        self._link: Link
        self._recorder: Recorder
        self._uploads: Uploads | None = None
        self._versions: Versions
        self._training: TrainingLoop

    async def run(self) -> JobResult:
        """Run the job, as ``run_job`` says."""
        login = log_in("job", self._settings.coordinator, self._settings.keys, insecure=self._settings.insecure)
        resumes = self._settings.resume and self._checkpoints.exists()
        loop = asyncio.get_running_loop()
        checkpoint, model = await loop.run_in_executor(self._thread, self._load if resumes else self._start)
        bounds = self._settings.bounds
        open_calls = OpenCalls({SERVICE, health.SERVICE}, bounds, self._refusals)
        server = make_server(bounds=bounds, interceptors=[open_calls], read_ahead=READ_AHEAD)
        address = self._bind(server)
        if self._settings.start_at is not None:
            await asyncio.sleep(self._settings.start_at - time.time())
        async with login.channel() as channel:
            service, uploads = self._assemble(login, channel, address, checkpoint, model, open_calls, met=resumes)
            add_task_service(service, server)
            try:
                await self._training.prepare()
                await server.start()
                await self._work(uploads)
                return self._result("finished", "")
            except (Ended, VennError, asyncio.CancelledError) as error:
                await self._give_up(error)
                if isinstance(error, Ended):
                    return self._result(error.phase, error.message)
                raise
            finally:
                await self._training.settled()
                service.exchanges.end()
                await server.stop(GOODBYE_S)

    def close(self) -> None:
        """End the threads, and close the files."""
        if self._uploads is not None:
            self._uploads.close()
        for thread in (self._threads, self._thread):
            thread.shutdown(cancel_futures=True)
        self._spool.close()
        self._log.close()

    # -- the beginning

    def _start(self) -> tuple[Checkpoint, Artifact]:
        """Make the model before round 1, as a checkpoint."""
        if self._checkpoints.exists() and self._spool.begun():
            raise UsageError(
                "DIR_IN_USE", "this folder holds a job that has begun", where=str(self._folder),
                fix="continue with --resume, or give another --dir",
            )  # fmt: skip
        with job_code(self._file, "initial", UsageError):
            model = self._file.job.initial(np.random.default_rng([self._settings.seed, 0]))
            arrays = {str(name): np.asarray(array) for name, array in model.items()}
        try:
            artifact = self._checkpoints.write_model(arrays)
        except TensorError as error:
            raise UsageError(
                "JOB_FILE", f"initial: {error.message}", where=self._file.path.name, fix=error.fix
            ) from error
        checkpoint = Checkpoint(key_text(self._settings.key), 0, artifact.digest.hex())
        self._checkpoints.commit(checkpoint)
        return checkpoint, artifact

    def _load(self) -> tuple[Checkpoint, Artifact]:
        return self._checkpoints.load(key_text(self._settings.key))

    def _bind(self, server: grpc.aio.Server) -> str:
        """Take a port, and say what devices connect to."""
        settings = self._settings
        credentials = None
        if not settings.insecure and not is_loopback(settings.bind):
            key, chain = self._certificate()
            credentials = grpc.ssl_server_credentials([(key, chain)])
        bound = bind(server, settings.bind, insecure=settings.insecure, credentials=credentials)
        address = resolved(settings.advertise or bound)
        if address.startswith(("0.0.0.0:", "[::]:")):
            raise UsageError(
                "ADDRESS",
                "devices cannot connect to this address",
                where=address,
                fix="name this machine's IP: --advertise IP:PORT",
            )
        healthy = Health((), settings.bounds, self._refusals)
        healthy.serving(True)
        healthy.add_to(server)
        return address

    def _certificate(self) -> tuple[bytes, bytes]:
        """The key and the certificate (PEM) of this driver, kept in its folder: a driver that starts again has the
        same. Devices are given the certificate with each lease, and trust it alone.
        """
        path, certificate = self._folder / KEY, self._folder / CERTIFICATE
        if not certificate.exists():
            made = new_key()
            write_private(path, made.pem())
            write_atomic(certificate, self_signed(driver_name(key_text(self._settings.key)), made), fsync=True)
        key, pem = read_key(path), certificate.read_bytes()
        self._der = ssl.PEM_cert_to_DER_cert(pem.decode())
        return key.pem(), pem

    def _assemble(
        self,
        login: Login,
        channel: grpc.aio.Channel,
        address: str,
        checkpoint: Checkpoint,
        model: Artifact,
        open_calls: OpenCalls,
        *,
        met: bool,
    ) -> tuple[TaskService, Uploads]:
        settings, artifacts = self._settings, Artifacts()
        submission = pb.SubmitJobRequest(
            key=settings.key,
            spec=settings.spec(self._file.job),
            driver_incarnation=max(int(time.time() * 1000), checkpoint.driver_incarnation + 1),
            address=address,
            certificate=self._der,
        )
        self._link = Link(
            channel, f"coordinator at {settings.coordinator}", submission,
            patience_s=settings.patience_s, met=met, restarted=lambda: self._training.restarted(),  # noqa: PLW0108 - made below
        )  # fmt: skip
        collector = Collector(
            settings.responses_needed,
            rounds=settings.limit,
            closed=checkpoint.round,
            asynchronous=settings.buffer is not None,
            max_staleness=settings.max_staleness,
            repeat=settings.repeat == "allow",
        )
        self._recorder = Recorder(self._link)
        responses = Responses(Receipts(collector), self._spool, self._recorder)
        free_disk = settings.bounds.free_disk
        self._uploads = Uploads(responses, self._spool, self._threads, free_disk=free_disk, refusals=self._refusals)
        self._versions = Versions(self._checkpoints)
        code = self._folder / "code.zip"
        write_atomic(code, self._file.code)
        bundle = Artifact.of_file(code, self._file.digest)
        artifacts.add(bundle)
        signature = signed_code(login, settings.key, self._file.digest, self._folder)
        log(logger, logging.INFO, f"code {self._file.digest.hex()} is signed", owner=id_of(signature[0]).hex())
        tools = Tools(
            self._file, settings, self._link, self._uploads, self._recorder, self._spool, self._checkpoints,
            self._versions, artifacts, bundle, self._thread, self._log, self._on_round, signature,
        )  # fmt: skip
        self._training = TrainingLoop(tools, checkpoint, model, tensors.open_file(self._checkpoints.model))
        return TaskService(self._link, artifacts, self._uploads, open_calls), self._uploads

    # -- the work

    async def _work(self, uploads: Uploads) -> None:
        """Run all rounds. Raises what ends the job early."""
        follower = Follower(uploads, self._versions, self._training)
        lag = LagMonitor(self._folder / "load.jsonl")
        beside = (
            self._link.follow(follower.handle, self._training.ask_again), self._record(),
            self._report_activity(uploads), uploads.responses.disk.fail(), lag.run(),
        )  # fmt: skip
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(each) for each in beside]
                await self._training.run()
                await self._recorder.flushed()
                await self._finish()
                for task in running:
                    task.cancel()
        except ExceptionGroup as group:
            raise next(leaves(group)) from group

    async def _record(self) -> None:
        """Tell the coordinator what was decided, and end the attempts that it says are over."""
        async for end in self._recorder.run():
            self._training.end(*end)

    async def _finish(self) -> None:
        while not await self._link.tell(self._link.stub.FinishJob, pb.FinishJobRequest):
            pass

    async def _report_activity(self, uploads: Uploads) -> None:
        """Report devices whose bytes move as alive, however long it takes; and this driver, whatever there is to do."""
        link = self._link
        while True:
            await asyncio.sleep(min(ACTIVITY_EVERY_S, link.heartbeat_s))
            if uploads.active or time.monotonic() - link.heard_at >= link.heartbeat_s:
                leases = sorted(uploads.active)
                uploads.active.clear()
                await link.tell(link.stub.ReportActivity, pb.ReportActivityRequest, leases=leases)

    # -- the end

    def _result(self, phase: str, message: str) -> JobResult:
        training = self._training
        return JobResult(
            key_text(self._settings.key), phase == "finished", phase, message, training.rounds, training.arrays
        )

    async def _give_up(self, error: BaseException) -> None:
        """End the job at the coordinator, unless a driver that starts again may go on with it."""
        match error:
            case Ended():
                over, waits = not error.told, False
            case PeerError() if error.reason != "OUT_OF_SPACE":  # the coordinator is away, or refuses this driver
                over, waits = False, False
            case _:
                over, waits = self._settings.folder is None, self._settings.folder is not None
        if waits:
            message = "the job waits for its driver: continue with --resume, or end it with `venn job cancel`"
            log(logger, logging.WARNING, message, job=key_text(self._settings.key), dir=self._folder)
        if over:
            failed = not isinstance(error, asyncio.CancelledError)
            request = pb.CancelJobRequest(
                job=self._link.job,
                reason=str(error) or "its driver was stopped",
                failed=failed,
                driver_incarnation=self._link.driver_incarnation,
            )
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self._link.stub.CancelJob(request, timeout=GOODBYE_S)


class Follower:
    """Hands each frame of the coordinator to whom it concerns."""

    def __init__(self, uploads: Uploads, versions: Versions, training: TrainingLoop) -> None:
        self._uploads, self._versions, self._training = uploads, versions, training
        self._problem = ""

    def handle(self, frame: pb.FollowJobResponse) -> None:
        """Take a frame. Raises Ended."""
        match frame.WhichOneof("frame"):
            case "granted":
                self._versions.lease_granted(frame.granted.attempt.round, frame.granted.lease)
            case "ended":
                self._lease_ended(frame.ended)
            case "attempt_ended":
                self._attempt_ended(frame.attempt_ended)
            case "job_ended":
                self._job_ended(frame.job_ended)
            case "alive":
                self._alive(frame.alive)
            case "filled" | None:
                pass  # the driver need not know that its places are taken; nor what only a newer coordinator says
            case other:
                assert_never(other)

    def _lease_ended(self, ended: pb.LeaseEnded) -> None:
        self._versions.lease_over(ended.attempt.round, ended.lease)
        if ended.reason not in DECIDED:
            why = enum_name(common.LeaseEnd, ended.reason)
            self._uploads.responses.receipts.lease_ended(number(ended.attempt), ended.lease, why)
            self._uploads.review()
        if ended.reason == common.LEASE_END_FAILED:
            phase = enum_name(common.Phase, ended.phase)
            log(logger, logging.WARNING, f"a device failed in {phase}: {printable(ended.message, 500)}",
                device=ended.device, round=ended.attempt.round, attempt=ended.attempt.attempt)  # fmt: skip

    def _attempt_ended(self, ended: pb.AttemptEnded) -> None:
        if ended.status in STATUS:
            reason = enum_name(pb.AttemptEndReason, ended.reason)
            self._training.end(number(ended.attempt), STATUS[ended.status], reason)

    def _job_ended(self, ended: pb.JobEnded) -> None:
        """End this driver. FINISHED is what it said itself; the answer to that may have been lost."""
        phase = enum_name(pb.JobPhase, ended.phase)
        raise Ended(phase, printable(ended.message, 2000), told=True)

    def _alive(self, alive: pb.DriverAlive) -> None:
        paused = alive.paused
        if paused.reason == CRASHES:
            message = printable(paused.message.partition("\n")[0], 500)  # output follows: it was logged as it came
            refusal = self._uploads.responses.refusal
            message += f": {refusal}" if refusal else ""
            raise Ended("failed", f"the job crashed on several devices: {message}", told=False)
        problem = printable(alive.problem, 500)
        if problem != self._problem:
            self._problem = problem
            if problem:
                log(logger, logging.WARNING, "the coordinator cannot verify this driver", why=problem)


def number(attempt: common.AttemptKey) -> AttemptNo:
    """The number of an attempt."""
    return AttemptNo(attempt.round, attempt.attempt)
