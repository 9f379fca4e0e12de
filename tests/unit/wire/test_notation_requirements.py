from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venn.v1.common_pb2 import (
    AllDevices,
    Comparison,
    DeviceIds,
    Operator,
    Requirement,
    Requirements,
)
from venn.wire.notation import NotationError
from venn.wire.requirements import format_requirement, parse_requirement


def number(name: str, operator: Operator.ValueType, value: float) -> Requirement:
    return Requirement(comparison=Comparison(name=name, operator=operator, number=value))


def label(name: str, value: str, operator: Operator.ValueType = Operator.OPERATOR_EQUAL) -> Requirement:
    return Requirement(comparison=Comparison(name=name, operator=operator, text=value))


MEMORY = number("memory", Operator.OPERATOR_AT_LEAST, 4e9)
CPU = number("cpu", Operator.OPERATOR_GREATER, 7)
LAB = label("site", "lab")


@pytest.mark.parametrize(
    ("text", "requirement"),
    [
        ("all", Requirement(all=AllDevices())),
        ("memory >= 4 GB", MEMORY),
        ("memory>=4GB", MEMORY),
        ("cpu > 7", CPU),
        ("site = lab", LAB),
        ('site = "north lab"', label("site", "north lab")),
        ('site = " lab "', label("site", " lab ")),
        ('version = "7"', label("version", "7")),
        ("site != lab", label("site", "lab", Operator.OPERATOR_NOT_EQUAL)),
        ("uptime >= 2m", number("uptime", Operator.OPERATOR_AT_LEAST, 120)),
        ("battery >= 50 %", number("battery", Operator.OPERATOR_AT_LEAST, 0.5)),
        ("memory >= 4 GB and cpu > 7", Requirement(every=Requirements(items=[MEMORY, CPU]))),
        (
            "memory >= 4 GB and cpu > 7 or site = lab",
            Requirement(any=Requirements(items=[Requirement(every=Requirements(items=[MEMORY, CPU])), LAB])),
        ),
        (
            "memory >= 4 GB and (cpu > 7 or site = lab)",
            Requirement(every=Requirements(items=[MEMORY, Requirement(any=Requirements(items=[CPU, LAB]))])),
        ),
        ("not site = lab and cpu > 7", Requirement(every=Requirements(items=[Requirement(negated=LAB), CPU]))),
        ("not not site = lab", Requirement(negated=Requirement(negated=LAB))),
        ("id in (a; b-1 ;3)", Requirement(ids=DeviceIds(ids=["a", "b-1", "3"]))),
        ("((cpu > 7))", CPU),
    ],
)
def test_read(text: str, requirement: Requirement) -> None:
    assert parse_requirement(text) == requirement


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "its end"),
        ("memory", "after memory"),
        ("memory >=", "'its end' after memory >="),
        ("memory >= 4 GX", "GX"),
        ("memory >= 4GX", "unknown unit"),
        ("memory >= 4 GB cpu > 7", "'cpu'"),
        ("memory >= lots", "texts are compared by = and !="),
        ("(cpu > 7", "lacks a ')'"),
        ("cpu > 7)", "')'"),
        ("id = a", "id in (a; b)"),
        ("id in (a, b)", "where a device's id should be"),
        ("id in ()", "where a device's id should be"),
        ("id in (a b)", "where ';' or ')' should be"),
        ("and", "name of a capability"),
        ("site = and", "where a value should be"),
        ("site = (", "where a value should be"),
        ('site = "lab', "cannot be read"),
        ("cpu == 7", "where a value should be"),
        ("cpu >= 1e999", "too large"),
        ("(" * 500 + "cpu > 7" + ")" * 500, "nested"),
        ("not " * 500 + "cpu > 7", "nested"),
        ("a" * 5000, "longer"),
        ('site = ""', "bytes that can be shown"),
        ('site = "a\x1b[2J"', "bytes that can be shown"),
        ('site = "\u202elab"', "bytes that can be shown"),
        (f"site = {'ü' * 65}", "bytes that can be shown"),
    ],
)
def test_refused_with_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(NotationError) as error:
        parse_requirement(text)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_what_no_notation_gives_is_still_shown() -> None:
    assert format_requirement(number("memory", Operator.OPERATOR_LESS, float("inf"))) == "memory < inf"
    assert format_requirement(number("cpu", Operator.OPERATOR_UNSPECIFIED, float("nan"))) == "cpu ? nan"
    assert format_requirement(label("site", "a\x1b[2J")) == 'site = "a[2J"'


def test_written_for_people() -> None:
    assert format_requirement(Requirement()) == "all"
    text = "memory >= 4 GB and not (cpu > 7 or site = lab) and id in (a; b)"
    assert format_requirement(parse_requirement(text)) == text


comparisons = st.builds(
    number,
    st.sampled_from(["memory", "cpu", "os.level"]),
    st.sampled_from(sorted(set(Operator.values()) - {0})),
    st.floats(0, 1e15, allow_subnormal=False),
) | st.builds(label, st.sampled_from(["site", "data"]), st.from_regex(r"[A-Za-z0-9 ._-]{1,12}", fullmatch=True))
requirements = st.recursive(
    comparisons
    | st.builds(lambda ids: Requirement(ids=DeviceIds(ids=ids)), st.lists(st.sampled_from("abc"), min_size=1))
    | st.just(Requirement(all=AllDevices())),
    lambda inner: (
        st.builds(lambda item: Requirement(negated=item), inner)
        | st.builds(lambda items: Requirement(every=Requirements(items=items)), st.lists(inner, min_size=2, max_size=3))
        | st.builds(lambda items: Requirement(any=Requirements(items=items)), st.lists(inner, min_size=2, max_size=3))
    ),
    max_leaves=6,
)


@given(requirements)
def test_what_is_written_reads_back(requirement: Requirement) -> None:
    text = format_requirement(requirement)
    assert format_requirement(parse_requirement(text)) == text


@given(st.text(alphabet='andort ()<>=!;"idcpu4 GBs%', max_size=60))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    with suppress(NotationError):
        parse_requirement(text)
