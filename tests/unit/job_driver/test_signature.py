"""The signature of a job's code: one as long as owner, job and code are the same, so that an attempt stays the same."""

from pathlib import Path

from job_driver.signature import FILE, signed_code
from venn.v1.common_pb2 import Artifact, JobKey, Task
from venn.wire.keys import new_key
from venn.wire.login import Login
from venn.wire.signed_code import code_owner

JOB = JobKey(owner="ada", name="digits", run="1")
DIGEST = b"c" * 32


def test_a_driver_that_comes_back_shows_the_same_signature(tmp_path: Path) -> None:
    key = new_key()
    login = Login("127.0.0.1:9", key, "job")
    first = signed_code(login, JOB, DIGEST, tmp_path)
    assert signed_code(login, JOB, DIGEST, tmp_path) == first
    task = Task(code=Artifact(digest=DIGEST), owner_key=first[0], code_signature=first[1])
    assert code_owner(b"", JOB, task) == key.id


def test_another_code_job_or_owner_has_another_one(tmp_path: Path) -> None:
    login = Login("127.0.0.1:9", new_key(), "job")
    seen = [
        signed_code(login, JOB, DIGEST, tmp_path),
        signed_code(login, JOB, b"d" * 32, tmp_path),
        signed_code(login, JobKey(owner="ada", name="digits", run="2"), b"d" * 32, tmp_path),
        signed_code(Login("127.0.0.1:9", new_key(), "job"), JOB, DIGEST, tmp_path),
    ]
    assert len(set(seen)) == len(seen)


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    login = Login("127.0.0.1:9", new_key(), "job")
    for text in ("", "[]", '{"key": 1}', '{"key": "zz", "signature": ""}', '{"key": "00", "signature": "00"}'):
        (tmp_path / FILE).write_text(text)
        made = signed_code(login, JOB, DIGEST, tmp_path)
        assert signed_code(login, JOB, DIGEST, tmp_path) == made
