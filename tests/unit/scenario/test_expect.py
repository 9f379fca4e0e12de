"""Expectations: a path into the summary, an operator, a number."""

import pytest

from testbed.scenario.expect import evaluate, look_up, parse_expectation, with_defaults

SUMMARY = {
    "unfinished_jobs": 1,
    "finished": True,
    "policy": "venn",
    "jobs": [{"name": "a", "jct_s": 12.5, "accuracy": None}, {"name": "b-2", "jct_s": 30}],
    "host": {"saturated": False, "cores": [0.5, 0.75]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("unfinished_jobs", 1.0),
        ("jobs.a.jct_s", 12.5),
        ("jobs.b-2.jct_s", 30.0),
        ("jobs.1.jct_s", 30.0),
        ("jobs.a.accuracy", None),
        ("jobs.c.jct_s", None),
        ("jobs.7.jct_s", None),
        ("jobs.-1.jct_s", None),
        ("jobs", None),
        ("policy", None),
        ("policy.0", None),
        ("finished", 1.0),
        ("host.saturated", 0.0),
        ("host.cores.1", 0.75),
        ("nothing.here", None),
    ],
)
def test_a_path_finds_a_number(path: str, found: float | None) -> None:
    assert look_up(SUMMARY, path.split(".")) == found


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("jobs.a.jct_s < 12.5", False),
        ("jobs.a.jct_s <= 12.5", True),
        ("jobs.a.jct_s == 12.5", True),
        ("jobs.a.jct_s != 12.5", False),
        ("jobs.a.jct_s >= 12.5", True),
        ("jobs.a.jct_s > 12.5", False),
        ("jobs.a.jct_s>-1", True),
        ("jobs.a.accuracy != 1", False),
        ("nothing == 0", False),
    ],
)
def test_operators(text: str, holds: bool) -> None:
    assert evaluate([parse_expectation(text)], SUMMARY)[0].ok is holds


def test_the_text_keeps_how_the_number_was_written() -> None:
    (verdict,) = evaluate([parse_expectation("  jobs.a.jct_s   <=  12.50 ")], SUMMARY)
    assert verdict == ("jobs.a.jct_s <= 12.50", 12.5, True)


def test_that_every_job_finishes_is_expected_unless_something_else_is() -> None:
    jct = parse_expectation("jobs.a.jct_s < 60")
    lenient = parse_expectation("unfinished_jobs <= 1")
    assert [str(each) for each in with_defaults([jct])] == ["unfinished_jobs == 0", "jobs.a.jct_s < 60"]
    assert with_defaults([jct, lenient]) == (jct, lenient)
    assert [verdict.ok for verdict in evaluate(with_defaults([]), SUMMARY)] == [False]


@pytest.mark.parametrize(
    "text", ["", "a", "a 1", "a == ", "a == b", "a == 2%", "a ==== 1", "a..b == 1", 3, None, "a" * 300]
)
def test_what_is_no_expectation(text: object) -> None:
    with pytest.raises(ValueError, match=r"write e\.g\.|known are"):
        parse_expectation(text)
