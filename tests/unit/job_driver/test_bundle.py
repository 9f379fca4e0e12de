"""Job files: loaded with one clear line where they are wrong, and packed the same everywhere."""

import hashlib
import io
import os
import zipfile
from pathlib import Path

import pytest

from job_driver.bundle import load, pack
from venn.wire.errors import ExitCode, UsageError

GOOD = "from job_driver import Job\njob = Job(initial=lambda rng: {}, on_device=lambda m, t: None)\n"


def written(folder: Path, text: str, name: str = "job.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_bundle_depends_on_the_file_alone(tmp_path: Path) -> None:
    first = written(tmp_path, GOOD)
    (tmp_path / "other").mkdir()
    second = written(tmp_path / "other", GOOD)
    os.utime(second, (0, 0))
    second.chmod(0o700)
    assert pack(first) == pack(second)
    assert load(first).sha256 == hashlib.sha256(pack(second)).digest()
    with zipfile.ZipFile(io.BytesIO(pack(first))) as bundle:
        assert bundle.namelist() == ["job.py"]
        assert bundle.read("job.py").decode() == GOOD


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", ["no Job named job"]),
        ("job = 3\n", ["no Job named job"]),
        ("\n\ndef f(:\n", ["job.py:3", "SyntaxError"]),
        ("import numpy\n\nraise RuntimeError('no luck')\n", ["job.py:3", "no luck"]),
        ("import not_there_at_all\n", ["job.py:1", "not_there_at_all", "packages"]),
        ("from job_driver import Job\njob = Job(initial=1, on_device=2)\n", ["job.py:2", "initial must be a function"]),
    ],
)
def test_a_file_that_is_no_job_is_told_in_one_line(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        load(written(tmp_path, text))
    assert caught.value.exit_code == ExitCode.USAGE
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_file_that_is_not_there_or_not_python(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "absent.py")
    with pytest.raises(UsageError, match="not a Python file"):
        load(written(tmp_path, "hello", "notes.txt"))
