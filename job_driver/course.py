"""The course of a job: round after round, attempt after attempt, a checkpoint after each."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from job_driver.aggregation import Aggregation, Part, ResponseForm
from job_driver.artifacts import Artifact, Artifacts
from job_driver.bundle import JobFile, job_code
from job_driver.checkpoint import Checkpoint, Checkpoints
from job_driver.client import Link, Restarted
from job_driver.collecting import Attempt, AttemptNo, Outcome, Status
from job_driver.intake import Intake
from job_driver.job import Arrays, Round
from job_driver.recorder import Recorder
from job_driver.settings import Settings
from job_driver.spool import MANIFEST, Spool, Story
from job_driver.versions import Versions
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.wire import tensors
from venn.wire.errors import PeerError
from venn.wire.files import JsonLines, file_error
from venn.wire.logs import log

logger = logging.getLogger(__name__)

OTHER_TASK = "KEY_REUSED"  # an attempt was opened with another task

STATUS: Mapping[int, Status] = {pb.ATTEMPT_STATUS_CLOSED: Status.CLOSED, pb.ATTEMPT_STATUS_ABORTED: Status.ABORTED}


@dataclass(frozen=True)
class Parts:
    """What a course works with."""

    file: JobFile
    settings: Settings
    link: Link
    intake: Intake
    recorder: Recorder
    spool: Spool
    checkpoints: Checkpoints
    artifacts: Artifacts
    code: Artifact
    thread: ThreadPoolExecutor  # runs the job's own code, one piece at a time
    log: JsonLines  # a line per attempt that ended
    on_round: Callable[[Round], None]


@dataclass
class _Open:
    """The attempt that is open now."""

    attempt: Attempt
    incarnation: int  # of the coordinator that grants its leases
    aggregation: Aggregation
    opened_at: float  # Unix seconds
    ended: "asyncio.Future[str]"  # the reason, once it has ended
    ended_at: float = math.nan  # Unix seconds, once it has ended
    ending: "asyncio.Task[None] | None" = None  # writes its end


class Course:
    """Runs the rounds that are left. What ends an attempt is told to it from outside (``attempt_ended``)."""

    def __init__(self, parts: Parts, checkpoint: Checkpoint, model: Artifact, arrays: Arrays) -> None:
        """``arrays`` is the model, as read from its artifact's file."""
        self._parts, self._checkpoint = parts, checkpoint
        self._model, self.arrays = model, arrays
        self._former: list[tuple[Artifact, Arrays]] = []  # the model before
        self._open: _Open | None = None
        self._anew = False  # the next attempt has a new request, whatever became of the one before
        self._versions = Versions(parts.checkpoints)
        for former in checkpoint.former:
            self._versions.load(former, time.monotonic())
        for artifact in (*self._versions.artifacts().values(), model):
            parts.artifacts.add(artifact)

    @property
    def rounds(self) -> Sequence[Round]:
        """Those that have closed."""
        return self._checkpoint.rounds

    def keep_receipts(self, seconds: float) -> None:
        """So long after an attempt's end its devices may ask; before this is known they may for ever."""
        self._parts.intake.rounds.keep_s = self._versions.keep_s = seconds

    async def prepare(self, stories: Sequence[Story]) -> None:
        """Know again what an earlier process decided; done before devices are served, so that none is answered wrongly.

        ``stories``: what the manifest tells of the attempts since the round before the checkpoint.
        """
        done = len(self.rounds)
        last = stories[-1] if stories and stories[-1].no.round == done + 1 else None
        taken_up = last if last is not None and last.status is not Status.ABORTED else None
        for story in stories:
            if story is not taken_up:
                self._recall(story, done)
        if taken_up is not None:
            loop, responses = asyncio.get_running_loop(), taken_up.responses
            await loop.run_in_executor(self._parts.thread, self._parts.spool.verify, responses)
            self._begin(taken_up.no, taken_up.incarnation)
            self._take_up(taken_up)
        elif not self._over():
            self._begin(AttemptNo(done + 1, last.no.attempt + 1 if last else 1))

    async def run(self) -> None:
        """To the end of the job.

        Raises JobError where the job's own code fails, PeerError where the coordinator refuses or the disk is full.
        """
        while not self._over():
            await self._round()
        self._parts.intake.finish()

    def attempt_ended(self, no: AttemptNo, status: Status, reason: str) -> None:
        """The coordinator's one word on an attempt; heard again, or about another than the open one, it is ignored."""
        now = self._open
        if now is not None and now.attempt.no == no and not now.ended.done():
            self._end(now, status, reason)
            now.ending = asyncio.create_task(self._write_end(now))

    async def _write_end(self, now: _Open) -> None:
        """Before the next model or attempt, and not on the loop: with fsync that takes as long as the disk likes. A
        driver that is killed meanwhile asks the coordinator again.
        """
        attempt, at = now.attempt, round(now.ended_at, 6)
        line = attempt.no, attempt.status, list(attempt.counted), now.incarnation, at
        try:
            await asyncio.to_thread(self._parts.spool.end, *line)
        except OSError as error:
            raise file_error(error, MANIFEST) from error

    async def settled(self) -> None:
        """Until no end is being written."""
        if self._open is not None and self._open.ending is not None:
            await asyncio.wait({self._open.ending})

    def restarted(self) -> None:
        """The coordinator is another one: it does not know the open attempt, and nobody will end it."""
        self._anew = True
        self._versions.forget_leases()
        if self._open is not None:
            self.attempt_ended(self._open.attempt.no, Status.ABORTED, "unknown")

    async def ask_again(self) -> None:
        """Some of what the coordinator told was missed: the end of the open attempt may be part of that."""
        self._versions.miss(len(self.rounds) + 1)
        if self._open is not None and not self._open.ended.done():
            await self._ask(self._open.attempt.no)

    def lease_granted(self, no: AttemptNo, lease: int) -> None:
        self._versions.lease_granted(no.round, lease)

    def lease_over(self, no: AttemptNo, lease: int) -> None:
        self._versions.lease_over(no.round, lease)

    # -- rounds

    @property
    def _asynchronous(self) -> bool:
        return self._parts.settings.buffer is not None

    def _over(self) -> bool:
        settings, stop = self._parts.settings, self._parts.file.job.stop
        if len(self.rounds) >= settings.limit:
            return True
        if settings.rounds is not None or stop is None or not self.rounds:
            return False
        with job_code(self._parts.file, "stop"):
            return bool(stop(self.rounds))

    async def _round(self) -> None:
        """The next round: attempts until one is closed, then the next model, its evaluation and its checkpoint."""
        began = time.monotonic()
        if self._open is None:
            self._begin(AttemptNo(len(self.rounds) + 1, 1))
        while True:
            assert self._open is not None
            now, no = self._open, self._open.attempt.no
            if not now.ended.done():
                await self._ask(no)
            reason = await now.ended
            if now.ending is not None:
                await asyncio.shield(now.ending)
            if now.attempt.status is Status.CLOSED:
                break
            await now.aggregation.drop()
            await asyncio.to_thread(self._parts.spool.discard, no)
            self._write_line(now, reason, {})
            have = f"{len(now.attempt.counted)} of {now.attempt.needed}"
            log(logger, logging.WARNING, "attempt aborted", round=no.round, attempt=no.attempt, why=reason, has=have)
            self._begin(AttemptNo(no.round, no.attempt + 1))
        await self._publish(now, began)
        self._open = None

    def _begin(self, no: AttemptNo, granted_by: int = 0) -> None:
        """From here on responses to this attempt are taken. ``granted_by``: a former coordinator."""
        parts, job = self._parts, self._parts.file.job
        aggregation = Aggregation(
            parts.file, self.arrays, parts.thread, in_lease_order=parts.settings.deterministic,
            round_=no.round, former=self._versions.models,
        )  # fmt: skip
        same = bool(getattr(job.aggregate, "same_as_model", False))
        most = parts.settings.most_response_bytes
        form = ResponseForm(self.arrays, self._model.size, same_as_model=same, most_bytes=most)
        rounds = parts.intake.rounds
        rounds.collector.oldest = min([*self._versions.models, no.round])
        if self._anew:
            rounds.collector.forget_request()
        incarnation = granted_by or parts.link.incarnation
        attempt = rounds.open(no, incarnation=incarnation)
        self._anew = False
        self._open = _Open(attempt, incarnation, aggregation, time.time(), asyncio.get_running_loop().create_future())
        parts.intake.collect(form, aggregation)

    def _end(self, now: _Open, status: Status, reason: str) -> None:
        now.ended_at = time.time()
        self._parts.intake.rounds.end(now.attempt.no, status, time.monotonic())
        now.ended.set_result(reason)
        self._parts.intake.sweep()

    def _recall(self, story: Story, done: int) -> None:
        """An attempt that is over: its receipts may still be asked for."""
        rounds, no = self._parts.intake.rounds, story.no
        status = story.status
        if status is Status.OPEN:  # killed before the line of its end
            status = Status.CLOSED if no.round <= done else Status.ABORTED
            counted = [r.decision.lease for r in story.responses if r.decision.outcome is Outcome.COUNTED]
            self._parts.spool.end(no, status, counted, story.incarnation, round(time.time(), 6))
        rounds.open(no, incarnation=story.incarnation)
        for each in story.responses:
            rounds.restore(each.of, each.decision, each.device)
        rounds.end(no, status, time.monotonic())
        self._parts.spool.discard(no)

    def _take_up(self, story: Story) -> None:
        """Go on where an earlier process stopped: the same decisions, the same sum, all told again."""
        assert self._open is not None
        parts, no, now = self._parts, story.no, self._open
        now.opened_at = min(response.at for response in story.responses)
        for each in story.responses:
            parts.intake.rounds.restore(each.of, each.decision, each.device)
        for response in story.responses:
            lease = response.decision.lease
            if response.decision.outcome is Outcome.COUNTED:
                path, given = parts.spool.path(no, lease), response.of.round
                now.aggregation.add(Part(lease, path, response.weight, response.metrics, given, response.size))
        if story.status is Status.CLOSED:
            self._end(now, Status.CLOSED, "enough")
        elif {response.incarnation for response in story.responses} != {parts.link.incarnation}:
            self.restarted()
        else:
            for response in story.responses:
                parts.recorder.put(response.decision, urgent=False)

    async def _ask(self, no: AttemptNo) -> None:
        """Open it at the coordinator, where it may stand already."""
        parts, settings = self._parts, self._parts.settings
        request = pb.OpenAttemptRequest(
            key=common.AttemptKey(job=settings.key, round=no.round, attempt=no.attempt),
            driver_incarnation=parts.link.driver_incarnation,
            task=self._task(),
            rounds_left=settings.rounds - len(self.rounds) if settings.rounds is not None else 0,
        )
        try:
            answer = await parts.link.open_attempt(request)
        except Restarted:
            self.restarted()
            return
        except PeerError as error:
            if error.reason != OTHER_TASK:
                raise
            await self._give_up(no)
            return
        if answer.status in STATUS:
            self.attempt_ended(no, STATUS[answer.status], "unknown")

    async def _give_up(self, no: AttemptNo) -> None:
        """An earlier process opened it with other code or parameters. Unless it has closed, the next one has ours."""
        link = self._parts.link
        await self._parts.recorder.flushed()
        request = pb.RecordResponsesRequest(
            attempt=common.AttemptKey(job=link.job, round=no.round, attempt=no.attempt),
            driver_incarnation=link.driver_incarnation,
        )
        try:
            answer = await link.record(request)
        except Restarted:
            self.restarted()
            return
        log(logger, logging.WARNING, "the job's code or parameters have changed", round=no.round, attempt=no.attempt)
        self.attempt_ended(no, STATUS.get(answer.status, Status.ABORTED), "given_up")

    def _task(self) -> common.Task:
        settings, code = self._parts.settings, self._parts.code
        return common.Task(
            code=common.Artifact(digest=code.digest, size=code.size),
            model=common.Artifact(digest=self._model.digest, size=self._model.size),
            params=settings.param_values(),
            data=settings.data,
            workload=settings.workload,
            seed=settings.seed,
            code_name=self._parts.file.path.name,
        )

    # -- the next model

    async def _publish(self, ended: _Open, began: float) -> None:
        """The sum becomes the next model: checked, on disk, evaluated, and from here on the one that is served."""
        parts = self._parts
        loop = asyncio.get_running_loop()
        artifact, arrays, checkpoint = await loop.run_in_executor(parts.thread, self._next_model, ended, began)
        self._checkpoint, closed = checkpoint, checkpoint.rounds[-1]
        parts.artifacts.add(artifact)
        wanted = {parts.code.digest, self._model.digest, artifact.digest, *self._versions.digests()}
        parts.artifacts.keep_only(wanted)
        # Its file was replaced: who lets go of it last deletes it, and waits for the disk.
        parts.thread.submit(self._former.clear)
        self._former = [(self._model, self.arrays)]
        self._model, self.arrays = artifact, arrays
        self._write_line(ended, "enough", finite(closed.metrics))
        parts.on_round(closed)
        await self._report(closed)

    def _next_model(self, ended: _Open, began: float) -> tuple[Artifact, Arrays, Checkpoint]:
        """All that the job's thread does for it, at one go."""
        parts, attempt = self._parts, ended.attempt
        artifact = parts.checkpoints.write_model(ended.aggregation.close())
        arrays = tensors.open_file(parts.checkpoints.next_model)  # it is read from its file from here on
        metrics = ended.aggregation.metrics() | self._evaluate(arrays)
        self._keep_former(attempt.no.round)
        closed = Round(attempt.no.round, len(attempt.counted), attempt.stragglers, time.monotonic() - began, metrics)
        checkpoint = Checkpoint(
            self._checkpoint.job,
            closed.number,
            artifact.digest.hex(),
            (*self.rounds, closed),
            parts.link.driver_incarnation,
            self._versions.former(),
        )
        parts.checkpoints.commit(checkpoint)
        parts.spool.discard(attempt.no)
        return artifact, arrays, checkpoint

    def _keep_former(self, round_: int) -> None:
        """Devices go on with the model of the round that has closed; former ones may be of no use any more."""
        if self._asynchronous:
            self._versions.drop(time.monotonic())
            self._versions.keep(round_, self._model, self.arrays, time.monotonic())

    def _evaluate(self, arrays: Arrays) -> dict[str, float]:
        evaluate, held_out = self._parts.file.job.evaluate, self._parts.settings.held_out
        if evaluate is None or held_out is None:
            return {}
        with job_code(self._parts.file, "evaluate"):
            return {str(name): float(value) for name, value in evaluate(arrays, held_out).items()}

    async def _report(self, closed: Round) -> None:
        link = self._parts.link
        request = pb.ReportRoundRequest(
            job=link.job,
            driver_incarnation=link.driver_incarnation,
            round=closed.number,
            metrics=finite(closed.metrics),
        )
        with contextlib.suppress(Restarted):  # the metrics are for people; the checkpoint has them
            await link.call(link.stub.ReportRound, request)

    def _write_line(self, ended: _Open, reason: str, metrics: Mapping[str, float]) -> None:
        attempt = ended.attempt
        line: dict[str, Any] = {"round": attempt.no.round, "attempt": attempt.no.attempt}
        line |= {"status": attempt.status.value, "reason": reason}
        line |= {"opened_at": round(ended.opened_at, 6), "ended_at": round(ended.ended_at, 6)}
        line |= {"responses": len(attempt.counted), "needed": attempt.needed, "stragglers": attempt.stragglers}
        if self._asynchronous and attempt.staleness:
            mean = sum(attempt.staleness) / len(attempt.staleness)
            line["staleness"] = {"mean": round(mean, 6), "max": max(attempt.staleness)}
        self._parts.log.write(line | {"metrics": dict(metrics)})


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Those that can be told to others: NaN and infinity are not JSON."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}
