"""The terms on which a device takes an offer."""

from pathlib import Path

import pytest

from device_agent.bounds import AgentBounds
from device_agent.machine import AllowedCode
from device_agent.spec import DeviceSpec
from device_agent.terms import Terms, free_bytes
from venn.v1 import common_pb2 as common
from venn.v1 import device_pb2 as pb

SPEC = DeviceSpec(device="d", data={"digits": Path("digits.npz")})
CODE = common.Artifact(digest=b"c" * 32, size=10)
PLENTY = 10**12


def refusal(task: common.Task, *, allowed: AllowedCode | None = None, free: int = PLENTY) -> tuple[int, float] | None:
    terms = Terms(allowed or AllowedCode(everything=True), AgentBounds(), Path("runs"), lambda folder: free)
    found = terms.refusal(pb.Offer(lease=1, task=task), SPEC)
    return None if found is None else (found.reason, found.retry_after_s)


def task(model_bytes: int = 1000, **fields: object) -> common.Task:
    return common.Task(code=CODE, model=common.Artifact(digest=b"m" * 32, size=model_bytes), **fields)  # type: ignore[arg-type]


def test_an_offer_within_its_terms_is_taken() -> None:
    assert refusal(task(data="digits")) is None
    assert refusal(task(model_bytes=AgentBounds().artifact)) is None


@pytest.mark.parametrize("size", [AgentBounds().artifact + 1, 2**60])
def test_a_model_or_code_that_is_too_large_is_declined_before_a_byte_is_fetched(size: int) -> None:
    assert refusal(task(model_bytes=size)) == (common.FAILURE_REASON_OUT_OF_SPACE, 3600.0)
    code = common.Task(code=common.Artifact(digest=b"c" * 32, size=size), model=common.Artifact(size=1))
    assert refusal(code) == (common.FAILURE_REASON_OUT_OF_SPACE, 3600.0)


def test_offers_are_declined_for_a_while_where_the_disk_is_nearly_full() -> None:
    assert refusal(task(), free=AgentBounds().free_disk - 1) == (common.FAILURE_REASON_OUT_OF_SPACE, 60.0)
    assert refusal(task(), free=AgentBounds().free_disk) is None


def test_code_that_was_not_named_and_data_that_is_not_here_are_declined() -> None:
    allowed = AllowedCode(digests=frozenset({bytes(32)}))
    assert refusal(task(), allowed=allowed) == (common.FAILURE_REASON_CODE_NOT_ALLOWED, 3600.0)
    assert refusal(task(data="faces")) == (common.FAILURE_REASON_DATA_MISSING, 3600.0)
    assert refusal(common.Task()) == (common.FAILURE_REASON_CODE_NOT_ALLOWED, 3600.0)


def test_the_free_bytes_of_a_disk(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) > 0
    assert free_bytes(tmp_path / "nowhere") == 0
