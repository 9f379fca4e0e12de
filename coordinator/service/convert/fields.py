"""The fields that messages of peers share: bounds of what they may send, enumerations and requirements.

The enumerations of the wire and of the engine have the same names, and their tables are built from these.
"""

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar, assert_never

from coordinator.engine import model, requirements
from coordinator.engine.ids import DeviceId
from venn.v1 import common_pb2, device_pb2, job_pb2
from venn.wire.errors import PeerError
from venn.wire.text import printable

MOST_FRAME_BYTES = 64 * 1024  # of a device's frame
MOST_HELD_LEASES = 16
MOST_CAPABILITIES = 64  # numbers, and as many labels
MOST_LABEL_VALUES = 64
MOST_NAME_BYTES = 128  # of a capability, a label's value, a metric, a parameter
MOST_TEXT = 512  # characters of a message for people
MOST_OUTPUT = 4096  # characters of a task's output
MOST_TASK_BYTES = 64 * 1024  # a task is carried by every offer
MOST_REQUIREMENT_NODES = 256
MOST_REQUIREMENT_DEPTH = 16
MOST_REQUIREMENT_IDS = 4096
MOST_DEMAND = 1_000_000
MOST_ROUNDS = 1_000_000
MOST_RESPONSES = 16_384  # of one call
MOST_METRICS = 64
MOST_SECONDS = 366 * 86_400.0
MOST_COUNT = 2**63 - 1  # of numbers that a peer makes up

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class MalformedError(PeerError):
    """A peer's message breaks the protocol. ``where`` names the field."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__("MALFORMED", printable(message, limit=MOST_TEXT), where=where)


def name(text: str, where: str) -> str:
    """Check a device's id, or a part of a job's key. Raises MalformedError."""
    if not NAME.fullmatch(text):
        raise MalformedError(where, f"{text[:64]!r} is not 1 to 64 of letters, digits, '.', '_' and '-'")
    return text


def short(text: str, where: str) -> str:
    """Check a name that a peer made up: it is short, and each of its characters can be shown. Raises MalformedError."""
    if not text or len(text.encode()) > MOST_NAME_BYTES:
        raise MalformedError(where, f"a name has 1 to {MOST_NAME_BYTES} bytes, this one has {len(text.encode())}")
    if not text.isprintable():  # controls, such as ESC, and what turns the direction of writing or has no width
        hidden = next(character for character in text if not character.isprintable())
        raise MalformedError(where, f"a name has only characters that can be shown, this one has U+{ord(hidden):04X}")
    return text


def number(value: float, where: str) -> float:
    """Check that a number is finite. Raises MalformedError."""
    if not math.isfinite(value):
        raise MalformedError(where, f"{value} is not a finite number")
    return value


def at_most(value: int, most: int, where: str) -> int:
    """Check that a count is within its bound. Raises MalformedError."""
    if value > most:
        raise MalformedError(where, f"{value} is more than {most}")
    return value


if TYPE_CHECKING:  # the name exists in the type stubs only
    from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper as EnumTypeWrapper

K = TypeVar("K")
M = TypeVar("M", bound=StrEnum)
W = TypeVar("W", bound=int)


def known(table: Mapping[int, K], value: int, where: str) -> K:
    """Look up what a number on the wire stands for. Raises MalformedError."""
    found = table.get(value)
    if found is None:
        raise MalformedError(where, f"{value} is not known")
    return found


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
STRAGGLERS_FROM_WIRE: Mapping[int, model.StragglerRule] = {
    job_pb2.STRAGGLER_RULE_UNSPECIFIED: model.StragglerRule.FINISH,
    job_pb2.STRAGGLER_RULE_FINISH: model.StragglerRule.FINISH,
    job_pb2.STRAGGLER_RULE_REVOKE: model.StragglerRule.REVOKE,
}
REPEAT_FROM_WIRE: Mapping[int, model.Repeat] = {
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


WHERE = "spec.requirement"

OPERATORS: Mapping[int, requirements.Operator] = {
    common_pb2.OPERATOR_LESS: "<",
    common_pb2.OPERATOR_AT_MOST: "<=",
    common_pb2.OPERATOR_EQUAL: "=",
    common_pb2.OPERATOR_NOT_EQUAL: "!=",
    common_pb2.OPERATOR_AT_LEAST: ">=",
    common_pb2.OPERATOR_GREATER: ">",
}


def requirement_from_wire(message: common_pb2.Requirement) -> requirements.Requirement:
    """The engine's requirement for a message; one of no kind means every device. Raises MalformedError."""
    return _Reader().read(message, 1)


class _Reader:
    """Reads one requirement. It counts the nodes, so that a small message cannot make a large predicate."""

    def __init__(self) -> None:
        self._nodes = 0

    def read(self, message: common_pb2.Requirement, depth: int) -> requirements.Requirement:
        self._nodes += 1
        if self._nodes > MOST_REQUIREMENT_NODES:
            raise MalformedError(WHERE, f"more than {MOST_REQUIREMENT_NODES} parts")
        if depth > MOST_REQUIREMENT_DEPTH:
            raise MalformedError(WHERE, f"nested deeper than {MOST_REQUIREMENT_DEPTH}")
        match message.WhichOneof("kind"):
            case "comparison":
                return _comparison(message.comparison)
            case "every":
                return requirements.Every(self._items(message.every, depth))
            case "any":
                return requirements.Any(self._items(message.any, depth))
            case "negated":
                return requirements.Not(self.read(message.negated, depth + 1))
            case "ids":
                return _ids(message.ids)
            case "all" | None:
                return requirements.AllDevices()
            case other:
                assert_never(other)

    def _items(self, message: common_pb2.Requirements, depth: int) -> tuple[requirements.Requirement, ...]:
        if not message.items:
            raise MalformedError(WHERE, "'and' and 'or' need at least one part")
        return tuple(self.read(item, depth + 1) for item in message.items)


def _comparison(message: common_pb2.Comparison) -> requirements.Comparison:
    operator = OPERATORS.get(message.operator)
    if operator is None:
        raise MalformedError(WHERE, f"operator {message.operator} is not known")
    subject = short(message.name, WHERE)
    value: float | str
    match message.WhichOneof("value"):
        case "number":
            value = number(message.number, WHERE)
        case "text":
            value = short(message.text, WHERE)
        case None:
            raise MalformedError(WHERE, f"{subject} is compared with nothing")
        case other:
            assert_never(other)
    try:
        return requirements.Comparison(subject, operator, value)
    except ValueError as error:
        raise MalformedError(WHERE, str(error)) from error


def _ids(message: common_pb2.DeviceIds) -> requirements.Ids:
    at_most(len(message.ids), MOST_REQUIREMENT_IDS, WHERE)
    if not message.ids:
        raise MalformedError(WHERE, "'id in' needs at least one id")
    return requirements.Ids(tuple(DeviceId(name(device, WHERE)) for device in message.ids))
