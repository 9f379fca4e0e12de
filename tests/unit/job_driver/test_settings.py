"""Settings: K and C exactly, and which devices are asked for."""

from fractions import Fraction
from typing import Any

import pytest

from job_driver.job import Job
from job_driver.settings import Settings, with_labels
from venn.v1 import common_pb2 as common
from venn.wire.errors import UsageError
from venn.wire.requirements import format_requirement, parse_requirement


def settings(**changes: Any) -> Settings:
    return Settings(**({"name": "digits", "run": "1", "rounds": 3} | changes))


@pytest.mark.parametrize(
    ("fraction", "demand", "needed"), [("0.55", 100, 55), ("0.8", 16, 13), ("1", 7, 7), ("0.01", 1, 1)]
)
def test_k_is_the_exact_ceiling(fraction: str, demand: int, needed: int) -> None:
    assert settings(min_response=Fraction(fraction), demand=demand).responses_needed == needed


@pytest.mark.parametrize(
    ("text", "data", "packages", "whole"),
    [
        ("all", "", (), "all"),
        ("all", "digits", (), "data = digits"),
        ("memory >= 4 GB", "", (), "memory >= 4 GB"),
        (
            "a > 1 or b > 1",
            "digits",
            ("torch", "numpy"),
            "(a > 1 or b > 1) and data = digits and package = torch and package = numpy",
        ),
    ],
)
def test_a_device_must_have_the_data_and_the_packages(
    text: str, data: str, packages: tuple[str, ...], whole: str
) -> None:
    assert format_requirement(with_labels(parse_requirement(text), data, packages)) == whole


def test_an_empty_requirement_is_all_devices() -> None:
    assert with_labels(common.Requirement(), "", ()).WhichOneof("kind") == "all"


def test_the_spec_carries_exact_fractions() -> None:
    job = Job(initial=dict, on_device=dict)  # type: ignore[arg-type]
    spec = settings(min_response=Fraction("0.85"), over_commit=Fraction("0.2"), deadline_s=1.5).spec(job)
    assert (spec.min_response, spec.over_commit) == ("0.85", "0.2")
    assert (spec.deadline.seconds, spec.deadline.nanos, spec.HasField("lease")) == (1, 500_000_000, False)
    assert settings(rounds=None, max_rounds=4).spec(job).rounds == 0


@pytest.mark.parametrize(
    ("wrong", "flag"),
    [
        ({"rounds": None}, "--rounds"),
        ({"max_rounds": 3}, "--max-rounds"),
        ({"rounds": 0}, "--rounds"),
        ({"demand": 0}, "--demand"),
        ({"deadline_s": 0.0}, "--deadline"),
        ({"min_response": Fraction(0)}, "--min-response"),
        ({"min_response": Fraction(2)}, "--min-response"),
        ({"over_commit": Fraction(-1)}, "--over-commit"),
        ({"lease_s": 0.0}, "--lease"),
        ({"resume": True}, "--dir"),
        ({"demand": 4, "buffer": 5}, "--buffer"),
        ({"demand": 4, "buffer": 0}, "--buffer"),
        ({"demand": 4, "buffer": 2, "over_commit": Fraction(1, 5)}, "--over-commit"),
        ({"max_staleness": 3}, "--max-staleness"),
    ],
)
def test_settings_that_do_not_go_together_are_told(wrong: dict[str, Any], flag: str) -> None:
    with pytest.raises(UsageError, match=flag):
        settings(**wrong)


def test_a_buffer_makes_it_asynchronous() -> None:
    job = Job(initial=dict, on_device=dict)  # type: ignore[arg-type]
    flying = settings(demand=20, buffer=8)
    assert flying.responses_needed == 8
    spec = flying.spec(job)
    assert (spec.asynchronous.buffer, spec.asynchronous.HasField("max_staleness")) == (8, False)
    assert settings(demand=20, buffer=8, max_staleness=0).spec(job).asynchronous.HasField("max_staleness")
    assert not settings(demand=20).spec(job).HasField("asynchronous")


def test_params_keep_their_types() -> None:
    values = settings(params={"a": True, "b": 2, "c": 0.5, "d": "x"}).param_values()
    assert [values[name].WhichOneof("kind") for name in "abcd"] == ["boolean", "integer", "number", "text"]


def test_receipts_are_kept_while_a_ticket_of_the_coordinators_grace_may_be_shown() -> None:
    assert settings(deadline_s=100.0).keep_receipts_s(driver_grace_s=300.0) == 100 + 300 + 60
    assert settings(deadline_s=100.0, lease_s=20.0).keep_receipts_s(driver_grace_s=0.0) == 20 + 60
