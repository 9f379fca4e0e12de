"""Which devices meet a requirement, as the coordinator will judge it."""

from collections.abc import Iterator, Mapping, Sequence

from venn.v1.common_pb2 import Comparison, Operator, Requirement

_TESTS = {
    Operator.OPERATOR_LESS: lambda number, bound: number < bound,
    Operator.OPERATOR_AT_MOST: lambda number, bound: number <= bound,
    Operator.OPERATOR_EQUAL: lambda number, bound: number == bound,
    Operator.OPERATOR_NOT_EQUAL: lambda number, bound: number != bound,
    Operator.OPERATOR_AT_LEAST: lambda number, bound: number >= bound,
    Operator.OPERATOR_GREATER: lambda number, bound: number > bound,
}


def comparisons(requirement: Requirement) -> Iterator[Comparison]:
    """Every comparison in it."""
    match requirement.WhichOneof("kind"):
        case "comparison":
            yield requirement.comparison
        case "every":
            for item in requirement.every.items:
                yield from comparisons(item)
        case "any":
            for item in requirement.any.items:
                yield from comparisons(item)
        case "negated":
            yield from comparisons(requirement.negated)


def matches(
    requirement: Requirement, device: str, numbers: Mapping[str, float], labels: Mapping[str, Sequence[str]]
) -> bool:
    """Whether a device meets it. A comparison on what the device does not report is false."""
    match requirement.WhichOneof("kind"):
        case "comparison":
            return _holds(requirement.comparison, numbers, labels)
        case "every":
            return all(matches(item, device, numbers, labels) for item in requirement.every.items)
        case "any":
            return any(matches(item, device, numbers, labels) for item in requirement.any.items)
        case "negated":
            return not matches(requirement.negated, device, numbers, labels)
        case "ids":
            return device in requirement.ids.ids
    return True


def _holds(comparison: Comparison, numbers: Mapping[str, float], labels: Mapping[str, Sequence[str]]) -> bool:
    if comparison.WhichOneof("value") == "text":
        values = labels.get(comparison.name)
        if values is None:
            return False
        return (comparison.text in values) == (comparison.operator == Operator.OPERATOR_EQUAL)
    number = numbers.get(comparison.name)
    return number is not None and _TESTS[comparison.operator](number, comparison.number)
