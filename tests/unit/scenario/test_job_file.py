"""A job file looked at without running it."""

from pathlib import Path

import pytest

from testbed.scenario.job_file import MOST_BYTES, problem_of


@pytest.mark.parametrize(
    "source",
    [
        "job = Job()",
        "job: Job = Job()",
        "from other import job",
        "import other as job",
        "try:\n    job = 1\nexcept ImportError:\n    pass",
        "raise SystemExit('never run')\njob = 1",
        "x = '\\d'  # an escape that Python warns of\njob = 1",
    ],
)
def test_files_that_define_a_job(tmp_path: Path, source: str) -> None:
    (tmp_path / "job.py").write_text(source)
    assert problem_of(tmp_path / "job.py") is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"x = 1\n", "defines no job"),
        (b"print(job)\n", "defines no job"),
        (b"", "defines no job"),
        (b"a = 1\ndef f(:\n", ":2: is not Python: invalid syntax"),
        (b"a = 'half\n", ":1: is not Python: unterminated string literal (detected at line 1)"),
        (b"\x00\x01", " is not Python: source code string cannot contain null bytes"),
        (b"job = '\xff'", ":1: is not Python: (unicode error) 'utf-8' codec can't decode byte 0xff"),
        (b"#" * (MOST_BYTES + 1), " is larger than 1 MB"),
    ],
)  # fmt: skip
def test_files_that_do_not(tmp_path: Path, source: bytes, message: str) -> None:
    path = tmp_path / "job.py"
    path.write_bytes(source)
    problem = problem_of(path)
    assert problem is not None
    assert problem[0].startswith(str(path))
    assert message in problem[0]
    assert "\n" not in problem[0]


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    assert problem_of(tmp_path / "job.py") == (
        f"there is no file {tmp_path}/job.py",
        "a relative path starts at the scenario's folder",
    )
    assert problem_of(tmp_path) == (f"{tmp_path} is a folder", "name the Python file in it")
