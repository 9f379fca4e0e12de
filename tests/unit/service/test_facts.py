"""Facts of the services: the newest of a key stands, and what is gone takes with it what belongs to it."""

import json
from typing import get_args

import pytest

from coordinator.engine.ids import JobId
from coordinator.engine.record import RecordError, text_of
from coordinator.service import facts
from coordinator.service.facts import (
    DriverAt,
    DriverVerified,
    Fact,
    Facts,
    JobForgotten,
    RoundReported,
    TaskDropped,
    TaskOpened,
    fact_from_json,
)
from tests.golden.fields import example

DIGITS, WORDS = JobId("ann/digits/1"), JobId("ann/words/1")


def test_the_newest_fact_of_a_key_stands() -> None:
    standing = Facts([DriverAt(DIGITS, "127.0.0.1:1", 1), DriverAt(WORDS, "127.0.0.1:2", 1)])
    standing.note(DriverAt(DIGITS, "127.0.0.1:3", 2))
    assert list(standing) == [DriverAt(DIGITS, "127.0.0.1:3", 2), DriverAt(WORDS, "127.0.0.1:2", 1)]


def test_a_task_is_dropped_and_a_forgotten_job_takes_all_its_facts_along() -> None:
    standing = Facts()
    for job in (DIGITS, WORDS):
        standing.note(DriverAt(job, "127.0.0.1:1", 1))
        standing.note(DriverVerified(job, "127.0.0.1:1", 0))
        standing.note(TaskOpened(job, 1, 1, 0, "AA=="))
        standing.note(RoundReported(job, 1, {"accuracy": 0.5}))
    standing.note(TaskDropped(DIGITS))
    assert [fact.job for fact in standing.of(TaskOpened)] == [WORDS]
    standing.note(JobForgotten(DIGITS))
    assert {fact.key[1] for fact in standing} == {WORDS}
    assert len(standing) == 4


def test_a_job_of_which_another_name_begins_with_its_own_is_another() -> None:
    standing = Facts([DriverAt(JobId("ann/digits/1"), "a:1", 1), DriverAt(JobId("ann/digits/10"), "a:1", 1)])
    standing.note(JobForgotten(JobId("ann/digits/1")))
    assert [fact.job for fact in standing.of(DriverAt)] == ["ann/digits/10"]


def test_reported_rounds_are_bounded() -> None:
    standing = Facts(RoundReported(DIGITS, round_, {}) for round_ in range(1, 200))
    assert sorted(fact.round for fact in standing.of(RoundReported)) == list(range(200 - facts.ROUNDS_KEPT, 200))


@pytest.mark.parametrize("kind", get_args(Fact))
def test_every_fact_is_read_as_it_was_written(kind: type) -> None:
    fact = example(kind)
    assert fact_from_json(json.loads(text_of(fact))) == fact


@pytest.mark.parametrize("record", [None, [], ["DriverAt"], ["Unheard", 1], {"fact": 1}])
def test_what_is_no_fact_is_refused(record: object) -> None:
    with pytest.raises(RecordError):
        fact_from_json(record)
