"""Messages of drivers to the engine's values, checked and bounded; effects to frames of the follow stream."""

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from coordinator.engine import effects
from coordinator.engine.ids import JobId, LeaseSeq
from coordinator.engine.model import Asynchronous, JobSpec, Outcome, Workload
from coordinator.service.convert import fields
from coordinator.service.convert.devices import seconds
from coordinator.service.convert.fields import MalformedError, known, requirement_from_wire
from venn.v1 import common_pb2, job_pb2
from venn.wire.chunks import DIGEST_BYTES, joined
from venn.wire.text import printable

DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
MIN_RESPONSE = Fraction(4, 5)  # when a job does not say


def job_id(key: common_pb2.JobKey) -> JobId:
    """The job id ``owner/name/run`` of a key. Raises MalformedError."""
    owner, name, run = (
        fields.name(part, f"job.{field}")
        for part, field in ((key.owner, "owner"), (key.name, "name"), (key.run, "run"))
    )
    return JobId(f"{owner}/{name}/{run}")


def job_key(job: JobId) -> common_pb2.JobKey:
    owner, name, run = job.split("/")
    return common_pb2.JobKey(owner=owner, name=name, run=run)


@lru_cache(maxsize=1024)
def attempt_key(job: JobId, round_: int, attempt: int) -> common_pb2.AttemptKey:
    """The key of an attempt. It is shared: read or copy it only."""
    return common_pb2.AttemptKey(job=job_key(job), round=round_, attempt=attempt)


def attempt_of(key: common_pb2.AttemptKey) -> tuple[JobId, int, int]:
    """The job, round and attempt of a key. Raises MalformedError."""
    for value, field in ((key.round, "round"), (key.attempt, "attempt")):
        if value < 1:
            raise MalformedError(f"attempt.{field}", "it counts from 1")
    return job_id(key.job), key.round, key.attempt


def job_spec(job: JobId, message: job_pb2.JobSpec) -> JobSpec:
    """The specification in a message, checked. Raises MalformedError."""
    if not 1 <= message.demand <= fields.MOST_DEMAND:
        raise MalformedError("spec.demand", f"{message.demand} is not between 1 and {fields.MOST_DEMAND}")
    requirement = requirement_from_wire(message.requirement)
    deadline_s = _positive(seconds(message.deadline, "spec.deadline"), "spec.deadline")
    lease_s = deadline_s
    if message.HasField("lease"):
        lease_s = _positive(seconds(message.lease, "spec.lease"), "spec.lease")
    shown = message.requirement_name or str(requirement)
    return JobSpec(
        job=job,
        requirement=requirement,
        requirement_name=printable(shown, limit=fields.MOST_NAME_BYTES),
        rounds=fields.at_most(message.rounds, fields.MOST_ROUNDS, "spec.rounds") or None,
        demand=message.demand,
        min_response=_min_response(message.min_response),
        over_commit=_fraction(message.over_commit, "spec.over_commit", most=100),
        deadline_s=deadline_s,
        lease_s=lease_s,
        stragglers=known(fields.STRAGGLERS_FROM_WIRE, message.stragglers, "spec.stragglers"),
        workload=Workload(
            seconds(message.workload.compute, "spec.workload.compute"),
            fields.at_most(message.workload.download_bytes, fields.MOST_COUNT, "spec.workload.download_bytes"),
            fields.at_most(message.workload.upload_bytes, fields.MOST_COUNT, "spec.workload.upload_bytes"),
        ),
        asynchronous=_asynchronous(message.asynchronous) if message.HasField("asynchronous") else None,
        repeat=known(fields.REPEAT_FROM_WIRE, message.repeat, "spec.repeat"),
    )


def _asynchronous(message: job_pb2.Asynchronous) -> Asynchronous:
    if not 1 <= message.buffer <= fields.MOST_DEMAND:
        where = "spec.asynchronous.buffer"
        raise MalformedError(where, f"{message.buffer} is not between 1 and {fields.MOST_DEMAND}")
    return Asynchronous(message.buffer, message.max_staleness if message.HasField("max_staleness") else None)


def _min_response(text: str) -> Fraction:
    if not text:
        return MIN_RESPONSE
    value = _fraction(text, "spec.min_response", most=1)
    if value == 0:
        raise MalformedError("spec.min_response", "a round needs at least one response")
    return value


def _fraction(text: str, where: str, *, most: int) -> Fraction:
    """An exact decimal of at most ``most``, never through a float; the empty text is 0. Raises MalformedError."""
    if not text:
        return Fraction(0)
    if not DECIMAL.fullmatch(text) or Fraction(text) > most:
        raise MalformedError(where, f"{text[:32]!r} is not a decimal between 0 and {most}, e.g. 0.8")
    return Fraction(text)


def _positive(value: float, where: str) -> float:
    if value <= 0:
        raise MalformedError(where, "it must be longer than 0 s")
    return value


def check_task(task: common_pb2.Task) -> None:
    """Check a task that every offer of an attempt will carry. Raises MalformedError."""
    fields.at_most(task.ByteSize(), fields.MOST_TASK_BYTES, "task (bytes)")
    for artifact, where in ((task.code, "task.code.digest"), (task.model, "task.model.digest")):
        if artifact.digest and len(artifact.digest) != DIGEST_BYTES:
            raise MalformedError(
                where, f"{len(artifact.digest)} bytes; a digest has {DIGEST_BYTES}, or none: there is no such artifact"
            )


def recorded(message: job_pb2.RecordResponsesRequest) -> tuple[tuple[LeaseSeq, Outcome], ...]:
    """The driver's decisions, in its order. Raises MalformedError."""
    fields.at_most(len(message.responses), fields.MOST_RESPONSES, "responses")
    return tuple((LeaseSeq(item.lease), _outcome(item.outcome)) for item in message.responses)


def _outcome(value: int) -> Outcome:
    outcome = fields.OUTCOME_FROM_WIRE.get(value)
    if outcome is None:
        raise MalformedError("responses.outcome", f"{value} is not COUNTED, STRAGGLER or REJECTED")
    return outcome


def metrics(message: Mapping[str, float]) -> dict[str, float]:
    """The finite metrics of a message whose names can be shown; others are left out, for no round is lost for them.

    Raises MalformedError.
    """
    fields.at_most(len(message), fields.MOST_METRICS, "metrics")
    shown = {key: value for key, value in message.items() if key.isprintable() and math.isfinite(value)}
    return {fields.short(key, "metrics"): value for key, value in shown.items()}


# -- frames of the follow stream


def in_one(frames: Sequence[bytes], now_ms: int) -> bytes:
    """Numbered frames as one message. A field that is appended to a serialised message is set in it."""
    now = job_pb2.FollowJobResponse(now_ms=now_ms).SerializeToString()
    return joined([frames[0] + now, *frames[1:]], job_pb2.FollowJobResponse.MORE_FIELD_NUMBER)


@lru_cache(maxsize=256)
def _granted(job: JobId, round_: int, attempt: int) -> job_pb2.FollowJobResponse:
    return job_pb2.FollowJobResponse(granted=job_pb2.LeaseGranted(attempt=attempt_key(job, round_, attempt)))


@lru_cache(maxsize=256)
def _ended(job: JobId, round_: int, attempt: int) -> job_pb2.FollowJobResponse:
    return job_pb2.FollowJobResponse(ended=job_pb2.LeaseEnded(attempt=attempt_key(job, round_, attempt)))


def granted_frame(effect: effects.OfferLease, ends_ms: int) -> job_pb2.FollowJobResponse:
    """A frame that is good until the next one of its attempt, which is filled into the same message."""
    frame = _granted(effect.job, effect.round, effect.attempt)
    granted = frame.granted
    granted.lease, granted.device, granted.ends_ms = effect.lease, effect.device, ends_ms
    return frame


def lease_ended_frame(effect: effects.EndLease) -> job_pb2.FollowJobResponse:
    """A frame that is good until the next one of its attempt, which is filled into the same message."""
    frame = _ended(effect.job, effect.round, effect.attempt)
    ended = frame.ended
    ended.lease, ended.device, ended.message = effect.lease, effect.device, effect.message
    ended.reason = fields.LEASE_END[effect.reason]
    ended.phase = fields.PHASE[effect.phase] if effect.phase is not None else common_pb2.PHASE_UNSPECIFIED
    ended.failure = (
        fields.FAILURE[effect.failure] if effect.failure is not None else common_pb2.FAILURE_REASON_UNSPECIFIED
    )
    return frame


def filled_frame(effect: effects.FillAttempt) -> job_pb2.FollowJobResponse:
    attempt = attempt_key(effect.job, effect.round, effect.attempt)
    return job_pb2.FollowJobResponse(filled=job_pb2.AttemptFilled(attempt=attempt))


def attempt_ended_frame(effect: effects.EndAttempt) -> job_pb2.FollowJobResponse:
    ended = job_pb2.AttemptEnded(
        attempt=attempt_key(effect.job, effect.round, effect.attempt),
        status=fields.ATTEMPT_STATUS[effect.status],
        reason=fields.ATTEMPT_END[effect.reason],
    )
    return job_pb2.FollowJobResponse(attempt_ended=ended)


def job_ended_frame(effect: effects.EndJob) -> job_pb2.FollowJobResponse:
    phase = fields.JOB_END[effect.end]
    return job_pb2.FollowJobResponse(job_ended=job_pb2.JobEnded(phase=phase, message=effect.message))
