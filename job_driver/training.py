"""Trains a job's model: round after round, attempt after attempt, with a checkpoint after each round."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from job_driver.aggregation import Aggregation
from job_driver.artifacts import Artifact, Artifacts
from job_driver.bundle import JobFile, job_code
from job_driver.checkpoint import Checkpoint, Checkpoints, Versions
from job_driver.client import STATUS, Link, Recorder, Restarted
from job_driver.counting import AttemptNo, Status
from job_driver.form import ResponseForm
from job_driver.job import Arrays, Round
from job_driver.metrics import tellable
from job_driver.responses import Collection
from job_driver.settings import Settings
from job_driver.spool import MANIFEST, Spool
from job_driver.upload import Uploads
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.wire import tensors
from venn.wire.errors import PeerError
from venn.wire.files import JsonLines, file_error
from venn.wire.logs import log

logger = logging.getLogger(__name__)

OTHER_TASK = "KEY_REUSED"  # an attempt was opened with another task


@dataclass(frozen=True)
class Tools:
    """The tools of a training loop."""

    file: JobFile
    settings: Settings
    link: Link
    uploads: Uploads
    recorder: Recorder
    spool: Spool
    checkpoints: Checkpoints
    versions: Versions
    artifacts: Artifacts
    code: Artifact
    thread: ThreadPoolExecutor  # runs the job's own code, one piece at a time
    log: JsonLines  # a line per attempt that ended
    on_round: Callable[[Round], None]
    signature: tuple[bytes, bytes]  # the owner's public key, and its signature of the code


class TrainingLoop:
    """Runs the rounds that are left. Whoever hears of the end of an attempt tells it (``end``)."""

    def __init__(self, tools: Tools, checkpoint: Checkpoint, model: Artifact, arrays: Arrays) -> None:
        """``arrays`` is the model, as read from its artifact's file."""
        self._tools, self._checkpoint = tools, checkpoint
        self._uploads, self._responses = tools.uploads, tools.uploads.responses
        self._collector = self._responses.receipts.collector
        self._ending: asyncio.Task[None] | None = None  # writes the end of an attempt
        self._model, self.arrays = model, arrays
        self._former: list[tuple[Artifact, Arrays]] = []  # the model before
        for former in checkpoint.former:
            tools.versions.load(former, time.monotonic())
        for artifact in (*tools.versions.artifacts().values(), model):
            tools.artifacts.add(artifact)

    @property
    def rounds(self) -> Sequence[Round]:
        """The rounds that have closed."""
        return self._checkpoint.rounds

    async def prepare(self) -> None:
        """Submit the job and restore what an earlier process decided; done before devices are served, so that none is
        answered wrongly.
        """
        tools, done = self._tools, len(self.rounds)
        await tools.link.submit()
        self._keep_receipts()
        oldest = min([done, *(former.round for former in self._checkpoint.former)])
        attempts = tools.spool.attempts(after_round=oldest - 1)
        resumed = attempts[-1] if attempts else None
        if resumed is not None and (resumed.no.round != done + 1 or resumed.status is Status.ABORTED):
            resumed = None
        for found in attempts:
            if found is not resumed:
                over = Status.CLOSED if found.no.round <= done else Status.ABORTED
                self._responses.recall(found, over if found.status is Status.OPEN else found.status)
        if resumed is not None:
            await asyncio.get_running_loop().run_in_executor(tools.thread, tools.spool.verify, resumed.responses)
            self._open(resumed.no, resumed.incarnation or tools.link.incarnation)
            if not self._responses.resume(resumed, tools.link.incarnation):
                self._forget_coordinator()
        elif not self._over():
            self._open_next()

    async def run(self) -> None:
        """Run to the end of the job.

        Raises JobError where the job's own code fails, PeerError where the coordinator refuses or the disk is full.
        """
        while not self._over():
            await self._round()
        self._collector.finish()
        self._uploads.review()

    def end(self, no: AttemptNo, status: Status, reason: str) -> None:
        """Take the coordinator's one word on the open attempt; about another one, or heard again, it is ignored."""
        current = self._responses.current
        if current is not None and self._responses.receipts.end(no, status, time.monotonic()):
            current.end(reason)
            self._ending = asyncio.create_task(self._write_end(current))
            self._uploads.review()

    async def settled(self) -> None:
        """Wait until no end of an attempt is being written."""
        if self._ending is not None:
            await asyncio.wait({self._ending})

    def restarted(self) -> None:
        """Go on with another coordinator: it does not know the open attempt, and nobody will end it."""
        self._tools.recorder.drop()
        self._keep_receipts()
        self._forget_coordinator()

    async def ask_again(self) -> None:
        """Ask for the open attempt again: some of what the coordinator told was missed, perhaps its end."""
        self._tools.versions.miss(len(self.rounds) + 1)
        current = self._responses.current
        if current is not None and not current.ended.done():
            await self._ask(current.attempt.no)

    # -- rounds

    @property
    def _asynchronous(self) -> bool:
        return self._tools.settings.buffer is not None

    def _over(self) -> bool:
        settings, stop = self._tools.settings, self._tools.file.job.stop
        if len(self.rounds) >= settings.limit:
            return True
        if settings.rounds is not None or stop is None or not self.rounds:
            return False
        with job_code(self._tools.file, "stop"):
            return bool(stop(self.rounds))

    def _keep_receipts(self) -> None:
        """Set how long after an attempt's end its devices may ask; before this is known they may for ever."""
        seconds = self._tools.settings.keep_receipts_s(self._tools.link.driver_grace_s)
        self._responses.receipts.keep_s = self._tools.versions.keep_s = seconds

    def _forget_coordinator(self) -> None:
        """Let no lease of the coordinator before count any more."""
        self._collector.forget_request()
        self._tools.versions.forget_leases()
        if self._responses.current is not None:
            self.end(self._responses.current.attempt.no, Status.ABORTED, "unknown")

    async def _round(self) -> None:
        """Run the next round: attempts until one is closed, then the next model, its evaluation and its checkpoint."""
        began = time.monotonic()
        current = self._responses.current or self._open_next()
        while True:
            no = current.attempt.no
            if not current.ended.done():
                await self._ask(no)
            reason = await current.ended
            if self._ending is not None:
                await asyncio.shield(self._ending)
            if current.attempt.status is Status.CLOSED:
                break
            await current.aggregation.drop()
            await asyncio.to_thread(self._tools.spool.discard, no)
            self._write_line(current, reason, {})
            have = f"{len(current.attempt.counted)} of {current.attempt.needed}"
            log(logger, logging.WARNING, "attempt aborted", round=no.round, attempt=no.attempt, why=reason, has=have)
            current = self._open_next()
        await self._publish(current, began)
        self._responses.current = None

    async def _write_end(self, ended: Collection) -> None:
        """Write an attempt's end, before the next model or attempt, and not on the loop: with fsync that takes as long
        as the disk likes. A driver that is killed meanwhile asks the coordinator again.
        """
        attempt, at = ended.attempt, round(ended.ended_at, 6)
        line = attempt.no, attempt.status, list(attempt.counted), ended.incarnation, at
        try:
            await asyncio.to_thread(self._tools.spool.end, *line)
        except OSError as error:
            raise file_error(error, MANIFEST) from error

    def _open_next(self) -> Collection:
        no = self._collector.next
        assert no is not None, "a round is left"
        return self._open(no, self._tools.link.incarnation)

    def _open(self, no: AttemptNo, incarnation: int) -> Collection:
        """Open an attempt, to which responses are taken from here on. ``incarnation``: of its leases' coordinator."""
        tools, job = self._tools, self._tools.file.job
        settings = tools.settings
        form = ResponseForm(
            self.arrays, self._model.size, job,
            responses=settings.responses_needed, most_bytes=settings.most_response_bytes,
        )  # fmt: skip
        aggregation = Aggregation(
            tools.file, self.arrays, tools.thread, in_lease_order=settings.deterministic,
            round_=no.round, former=tools.versions.models, limits=form.limits,
        )  # fmt: skip
        self._collector.oldest = min([*tools.versions.models, no.round])
        opened = self._responses.open(no, form, aggregation, incarnation=incarnation)
        self._uploads.review()
        return opened

    async def _ask(self, no: AttemptNo) -> None:
        """Open an attempt at the coordinator, where it may stand already."""
        tools, settings = self._tools, self._tools.settings
        left = settings.rounds - len(self.rounds) if settings.rounds is not None else 0
        try:
            answer = await tools.link.open_attempt(no, self._task(), rounds_left=left)
        except Restarted:
            self._forget_coordinator()
            return
        except PeerError as error:
            if error.reason != OTHER_TASK:
                raise
            await self._give_up(no)
            return
        if answer.status in STATUS:
            self.end(no, STATUS[answer.status], "unknown")

    async def _give_up(self, no: AttemptNo) -> None:
        """Give up an attempt that an earlier process opened with other code or parameters, unless it has closed."""
        await self._tools.recorder.flushed()
        try:
            answer = await self._tools.link.record(no)
        except Restarted:
            self._forget_coordinator()
            return
        log(logger, logging.WARNING, "the job's code or parameters have changed", round=no.round, attempt=no.attempt)
        self.end(no, STATUS.get(answer.status, Status.ABORTED), "given_up")

    def _task(self) -> common.Task:
        settings, code = self._tools.settings, self._tools.code
        owner_key, signature = self._tools.signature
        return common.Task(
            code=common.Artifact(digest=code.digest, size=code.size),
            model=common.Artifact(digest=self._model.digest, size=self._model.size),
            params=settings.param_values(),
            data=settings.data,
            workload=settings.workload,
            seed=settings.seed,
            code_name=self._tools.file.path.name,
            owner_key=owner_key,
            code_signature=signature,
        )

    # -- the next model

    async def _publish(self, ended: Collection, began: float) -> None:
        """Make the sum the next model: checked, on disk, evaluated, and from here on the one that is served."""
        tools = self._tools
        loop = asyncio.get_running_loop()
        artifact, arrays, checkpoint = await loop.run_in_executor(tools.thread, self._next_model, ended, began)
        self._checkpoint, closed = checkpoint, checkpoint.rounds[-1]
        tools.artifacts.add(artifact)
        wanted = {tools.code.digest, self._model.digest, artifact.digest, *tools.versions.digests()}
        tools.artifacts.keep_only(wanted)
        # Its file was replaced: who lets go of it last deletes it, and waits for the disk.
        tools.thread.submit(self._former.clear)
        self._former = [(self._model, self.arrays)]
        self._model, self.arrays = artifact, arrays
        self._write_line(ended, "enough", tellable(closed.metrics))
        tools.on_round(closed)
        await self._report(closed)

    def _next_model(self, ended: Collection, began: float) -> tuple[Artifact, Arrays, Checkpoint]:
        """Do all of it that the job's thread does, at one go."""
        tools, attempt = self._tools, ended.attempt
        artifact = tools.checkpoints.write_model(ended.aggregation.close())
        arrays = tensors.open_file(tools.checkpoints.next_model)  # it is read from its file from here on
        metrics = self._evaluate(arrays)
        metrics |= {name: value for name, value in ended.aggregation.metrics().items() if name not in metrics}
        self._keep_former(attempt.no.round)
        closed = Round(attempt.no.round, len(attempt.counted), attempt.stragglers, time.monotonic() - began, metrics)
        checkpoint = Checkpoint(
            self._checkpoint.job,
            closed.number,
            artifact.digest.hex(),
            (*self.rounds, closed),
            tools.link.driver_incarnation,
            tools.versions.former(),
        )
        tools.checkpoints.commit(checkpoint)
        tools.spool.discard(attempt.no)
        return artifact, arrays, checkpoint

    def _keep_former(self, round_: int) -> None:
        """Keep the model of the round that has closed: devices go on with it. Drop those that nobody needs."""
        if self._asynchronous:
            self._tools.versions.drop(time.monotonic())
            self._tools.versions.keep(round_, self._model, self.arrays, time.monotonic())

    def _evaluate(self, arrays: Arrays) -> dict[str, float]:
        evaluate, held_out = self._tools.file.job.evaluate, self._tools.settings.held_out
        if evaluate is None or held_out is None:
            return {}
        with job_code(self._tools.file, "evaluate"):
            return {str(name): float(value) for name, value in evaluate(arrays, held_out).items()}

    async def _report(self, closed: Round) -> None:
        """Tell a round's metrics, which are for people; the checkpoint has them."""
        link, metrics = self._tools.link, tellable(closed.metrics)
        await link.tell(link.stub.ReportRound, pb.ReportRoundRequest, round=closed.number, metrics=metrics)

    def _write_line(self, ended: Collection, reason: str, metrics: Mapping[str, float]) -> None:
        attempt = ended.attempt
        line: dict[str, Any] = {"round": attempt.no.round, "attempt": attempt.no.attempt}
        line |= {"status": attempt.status.value, "reason": reason}
        line |= {"opened_at": round(ended.opened_at, 6), "ended_at": round(ended.ended_at, 6)}
        line |= {"responses": len(attempt.counted), "needed": attempt.needed, "stragglers": attempt.stragglers}
        if self._asynchronous and attempt.staleness:
            mean = sum(attempt.staleness) / len(attempt.staleness)
            line["staleness"] = {"mean": round(mean, 6), "max": max(attempt.staleness)}
        self._tools.log.write(line | {"metrics": dict(metrics)})
