"""Code that its owner has signed: for one job at one coordinator."""

import pytest

from venn.v1.common_pb2 import Artifact, JobKey, Task
from venn.wire.keys import Key, new_key
from venn.wire.signed_code import code_owner, code_statement

JOB = JobKey(owner="ada", name="digits", run="1")
DIGEST, AUTHORITY = b"c" * 32, b"a" * 32


def signed(key: Key, *, authority: bytes = AUTHORITY, job: JobKey = JOB, digest: bytes = DIGEST) -> Task:
    signature = key.sign(code_statement(authority, job, digest))
    return Task(code=Artifact(digest=DIGEST), owner_key=key.public, code_signature=signature)


def test_the_owner_is_the_key_that_has_signed() -> None:
    key = new_key()
    assert code_owner(AUTHORITY, JOB, signed(key)) == key.id


@pytest.mark.parametrize(
    "other",
    [
        {"authority": b""},
        {"digest": b"d" * 32},
        {"job": JobKey(owner="bob", name="digits", run="1")},
        {"job": JobKey(owner="ada", name="faces", run="1")},
        {"job": JobKey(owner="ada", name="digits", run="2")},
        {"job": JobKey(owner="adad", name="igits", run="1")},
    ],
    ids=str,
)
def test_what_was_signed_for_something_else_is_not_signed(other: dict[str, JobKey]) -> None:
    assert code_owner(AUTHORITY, JOB, signed(new_key(), **other)) is None  # type: ignore[arg-type]


def test_a_signature_stands_for_its_own_key_only() -> None:
    task = signed(new_key())
    task.owner_key = new_key().public
    assert code_owner(AUTHORITY, JOB, task) is None


@pytest.mark.parametrize("key", [b"", b"no key", b"k" * 10_000])
@pytest.mark.parametrize("signature", [b"", b"none", b"s" * 10_000])
def test_bytes_that_are_no_signature_are_none(key: bytes, signature: bytes) -> None:
    task = Task(code=Artifact(digest=DIGEST), owner_key=key, code_signature=signature)
    assert code_owner(AUTHORITY, JOB, task) is None
