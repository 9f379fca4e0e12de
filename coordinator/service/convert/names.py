"""Tables between the enumerations of the wire and those of the engine, built from their names, which are the same."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from coordinator.engine import model
from venn.v1 import common_pb2, device_pb2, job_pb2

if TYPE_CHECKING:  # the name exists in the type stubs only
    from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper as EnumTypeWrapper

M = TypeVar("M", bound=StrEnum)
W = TypeVar("W", bound=int)


def _table(kind: type[M], wire: "EnumTypeWrapper[W]", prefix: str) -> Mapping[M, W]:
    return {member: wire.Value(f"{prefix}_{member.name}") for member in kind}


def _reverse(table: Mapping[M, W]) -> Mapping[int, M]:
    return {value: member for member, value in table.items()}


LEASE_END = _table(model.LeaseEnd, common_pb2.LeaseEnd, "LEASE_END")
PHASE = _table(model.Phase, common_pb2.Phase, "PHASE")
FAILURE = _table(model.FailureReason, common_pb2.FailureReason, "FAILURE_REASON")
ATTEMPT_STATUS = _table(model.AttemptStatus, job_pb2.AttemptStatus, "ATTEMPT_STATUS")
ATTEMPT_END = _table(model.AttemptEndReason, job_pb2.AttemptEndReason, "ATTEMPT_END_REASON")
COME_BACK = _table(model.ComeBackReason, device_pb2.ComeBackReason, "COME_BACK_REASON")
JOB_END = _table(model.JobEnd, job_pb2.JobPhase, "JOB_PHASE")

JOB_PHASE = {name.removeprefix("JOB_PHASE_").lower(): value for name, value in job_pb2.JobPhase.items()}
PHASE_FROM_WIRE = _reverse(PHASE)
FAILURE_FROM_WIRE = _reverse(FAILURE)
OUTCOME_FROM_WIRE = _reverse(_table(model.Outcome, common_pb2.Outcome, "OUTCOME"))
STRAGGLERS_FROM_WIRE = {
    job_pb2.STRAGGLER_RULE_UNSPECIFIED: model.StragglerRule.FINISH,
    job_pb2.STRAGGLER_RULE_FINISH: model.StragglerRule.FINISH,
    job_pb2.STRAGGLER_RULE_REVOKE: model.StragglerRule.REVOKE,
}
REPEAT_FROM_WIRE = {
    job_pb2.REPEAT_UNSPECIFIED: model.Repeat.ONCE,
    job_pb2.REPEAT_ONCE: model.Repeat.ONCE,
    job_pb2.REPEAT_ALLOW: model.Repeat.ALLOW,
}
GOODBYE_FROM_WIRE = {
    device_pb2.GOODBYE_REASON_UNSPECIFIED: model.SessionEnd.GOODBYE_STOPPED,
    device_pb2.GOODBYE_REASON_SESSION_OVER: model.SessionEnd.GOODBYE_SESSION_OVER,
    device_pb2.GOODBYE_REASON_STOPPED: model.SessionEnd.GOODBYE_STOPPED,
    device_pb2.GOODBYE_REASON_TOLD_TO: model.SessionEnd.GOODBYE_TOLD_TO,
}
