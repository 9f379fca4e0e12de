"""Requirements from the wire's tree to the engine's, bounded in depth and size."""

from collections.abc import Mapping
from typing import assert_never

from coordinator.engine import requirements as model
from coordinator.engine.ids import DeviceId
from coordinator.service.convert import limits
from coordinator.service.convert.limits import MalformedError
from venn.v1 import common_pb2

WHERE = "spec.requirement"

OPERATORS: Mapping[int, model.Operator] = {
    common_pb2.OPERATOR_LESS: "<",
    common_pb2.OPERATOR_AT_MOST: "<=",
    common_pb2.OPERATOR_EQUAL: "=",
    common_pb2.OPERATOR_NOT_EQUAL: "!=",
    common_pb2.OPERATOR_AT_LEAST: ">=",
    common_pb2.OPERATOR_GREATER: ">",
}


def requirement_from_wire(message: common_pb2.Requirement) -> model.Requirement:
    """The engine's requirement for a message; one of no kind means every device. Raises MalformedError."""
    return _Reader().read(message, 1)


class _Reader:
    """Reads one requirement. It counts the nodes, so that a small message cannot make a large predicate."""

    def __init__(self) -> None:
        self._nodes = 0

    def read(self, message: common_pb2.Requirement, depth: int) -> model.Requirement:
        self._nodes += 1
        if self._nodes > limits.MOST_REQUIREMENT_NODES:
            raise MalformedError(WHERE, f"more than {limits.MOST_REQUIREMENT_NODES} parts")
        if depth > limits.MOST_REQUIREMENT_DEPTH:
            raise MalformedError(WHERE, f"nested deeper than {limits.MOST_REQUIREMENT_DEPTH}")
        match message.WhichOneof("kind"):
            case "comparison":
                return _comparison(message.comparison)
            case "every":
                return model.Every(self._items(message.every, depth))
            case "any":
                return model.Any(self._items(message.any, depth))
            case "negated":
                return model.Not(self.read(message.negated, depth + 1))
            case "ids":
                return _ids(message.ids)
            case "all" | None:
                return model.AllDevices()
            case other:
                assert_never(other)

    def _items(self, message: common_pb2.Requirements, depth: int) -> tuple[model.Requirement, ...]:
        if not message.items:
            raise MalformedError(WHERE, "'and' and 'or' need at least one part")
        return tuple(self.read(item, depth + 1) for item in message.items)


def _comparison(message: common_pb2.Comparison) -> model.Comparison:
    operator = OPERATORS.get(message.operator)
    if operator is None:
        raise MalformedError(WHERE, f"operator {message.operator} is not known")
    name = limits.short(message.name, WHERE)
    value: float | str
    match message.WhichOneof("value"):
        case "number":
            value = limits.number(message.number, WHERE)
        case "text":
            value = limits.short(message.text, WHERE)
        case None:
            raise MalformedError(WHERE, f"{name} is compared with nothing")
        case other:
            assert_never(other)
    try:
        return model.Comparison(name, operator, value)
    except ValueError as error:
        raise MalformedError(WHERE, str(error)) from error


def _ids(message: common_pb2.DeviceIds) -> model.Ids:
    limits.at_most(len(message.ids), limits.MOST_REQUIREMENT_IDS, WHERE)
    if not message.ids:
        raise MalformedError(WHERE, "'id in' needs at least one id")
    return model.Ids(tuple(DeviceId(limits.name(device, WHERE)) for device in message.ids))
