"""The terms on which a device takes an offer."""

from pathlib import Path

import pytest

from device_agent.actions import Refusal
from device_agent.bounds import AgentBounds
from device_agent.machine import AllowedCode, parse_allowed
from device_agent.spec import DeviceSpec
from device_agent.terms import Terms, free_bytes
from venn.v1 import common_pb2 as common
from venn.v1 import device_pb2 as pb
from venn.wire.errors import UsageError
from venn.wire.keys import new_key, write_private
from venn.wire.signed_code import code_statement

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


def test_code_is_taken_of_an_owner_who_is_trusted_for_this_job_and_of_no_other() -> None:
    key, job = new_key(), common.JobKey(owner="ada", name="digits", run="1")
    signed = task(owner_key=key.public, code_signature=key.sign(code_statement(b"", job, CODE.digest)))

    def found(owner: bytes, name: str = "digits") -> Refusal | None:
        terms = Terms(AllowedCode(owners=frozenset({owner})), AgentBounds(), Path("runs"), lambda folder: PLENTY)
        offer = pb.Offer(lease=1, task=signed)
        offer.attempt.job.CopyFrom(job)
        offer.attempt.job.name = name
        return terms.refusal(offer, SPEC)

    assert found(key.id) is None
    other = found(bytes(32))
    assert other is not None
    assert other.message.endswith(f", or --trust-owner {key.id.hex()}")
    replayed = found(key.id, "faces")
    assert replayed is not None
    assert "--trust-owner" not in replayed.message


def test_an_owner_is_named_by_the_id_or_the_file_of_a_key(tmp_path: Path) -> None:
    key = new_key()
    file = tmp_path / "job.key"
    write_private(file, key.pem())

    def owners(value: str) -> frozenset[bytes]:
        return parse_allowed((), [value], coordinator="127.0.0.1:9", insecure=False).owners

    assert owners(key.id.hex()) == owners(str(file)) == {key.id}
    with pytest.raises(UsageError, match="neither the id of a key nor a key's file"):
        owners("nobody")
    assert not AllowedCode().admits(CODE.digest, None)


def test_code_that_was_not_named_and_data_that_is_not_here_are_declined() -> None:
    allowed = AllowedCode(digests=frozenset({bytes(32)}))
    assert refusal(task(), allowed=allowed) == (common.FAILURE_REASON_CODE_NOT_ALLOWED, 3600.0)
    assert refusal(task(data="faces")) == (common.FAILURE_REASON_DATA_MISSING, 3600.0)
    assert refusal(common.Task()) == (common.FAILURE_REASON_CODE_NOT_ALLOWED, 3600.0)


def test_the_free_bytes_of_a_disk(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) > 0
    assert free_bytes(tmp_path / "nowhere") == 0
