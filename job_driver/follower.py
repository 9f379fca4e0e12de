"""Hands on what the coordinator tells a job's driver, frame by frame."""

import logging
from typing import assert_never

from job_driver.client import Ended
from job_driver.counting import AttemptNo
from job_driver.recorder import STATUS
from job_driver.responses import Responses
from job_driver.versions import Versions
from venn.v1 import common_pb2 as common
from venn.v1 import job_pb2 as pb
from venn.wire.logs import log
from venn.wire.text import printable

logger = logging.getLogger(__name__)

DECIDED = (common.LEASE_END_COUNTED, common.LEASE_END_STRAGGLER, common.LEASE_END_REJECTED)  # by us, before
CRASHES = "JOB_CRASHES"


class Follower:
    """Hands each frame to whom it concerns."""

    def __init__(self, responses: Responses, versions: Versions) -> None:
        self._responses, self._versions = responses, versions
        self._problem = ""

    def handle(self, frame: pb.FollowJobResponse) -> None:
        """Raises Ended."""
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
            why = common.LeaseEnd.Name(ended.reason).removeprefix("LEASE_END_").lower()
            self._responses.lease_over(number(ended.attempt), ended.lease, why)
        if ended.reason == common.LEASE_END_FAILED:
            phase = common.Phase.Name(ended.phase).removeprefix("PHASE_").lower()
            log(logger, logging.WARNING, f"a device failed in {phase}: {printable(ended.message, 500)}",
                device=ended.device, round=ended.attempt.round, attempt=ended.attempt.attempt)  # fmt: skip

    def _attempt_ended(self, ended: pb.AttemptEnded) -> None:
        if ended.status in STATUS:
            reason = pb.AttemptEndReason.Name(ended.reason).removeprefix("ATTEMPT_END_REASON_").lower()
            self._responses.end(number(ended.attempt), STATUS[ended.status], reason)

    def _job_ended(self, ended: pb.JobEnded) -> None:
        """Finished is our own word; here it is as good as the answer to it, which may have been lost."""
        phase = pb.JobPhase.Name(ended.phase).removeprefix("JOB_PHASE_").lower()
        raise Ended(phase, printable(ended.message, 2000), told=True)

    def _alive(self, alive: pb.DriverAlive) -> None:
        paused = alive.paused
        if paused.reason == CRASHES:
            message = printable(paused.message.partition("\n")[0], 500)  # output follows: it was logged as it came
            refusal = self._responses.refusal
            message += f": {refusal}" if refusal else ""
            raise Ended("failed", f"the job crashed on several devices: {message}", told=False)
        problem = printable(alive.problem, 500)
        if problem != self._problem:
            self._problem = problem
            if problem:
                log(logger, logging.WARNING, "the coordinator cannot verify this driver", why=problem)


def number(attempt: common.AttemptKey) -> AttemptNo:
    return AttemptNo(attempt.round, attempt.attempt)
