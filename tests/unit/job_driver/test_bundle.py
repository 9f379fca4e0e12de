"""Job files: loaded with one clear line where they are wrong, and packed the same everywhere."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from job_driver.bundle import job_code, load, pack
from venn.wire.chunks import digest_of
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
    assert load(first).digest == digest_of(pack(second))
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


def test_what_a_jobs_code_raises_has_its_line_also_where_the_file_is_named_from_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "import numpy as np\n" + GOOD.replace("{}", "np.zeros((5, 63)) @ np.zeros((64, 10))"))
    monkeypatch.chdir(tmp_path)
    file = load(Path("job.py"))
    with (
        pytest.raises(UsageError, match=r"job\.py:3: initial failed: ValueError: matmul"),
        job_code(file, "initial", UsageError),
    ):
        file.job.initial(np.random.default_rng(0))


def test_a_file_that_is_not_there_or_not_python(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "absent.py")
    with pytest.raises(UsageError, match="not a Python file"):
        load(written(tmp_path, "hello", "notes.txt"))
