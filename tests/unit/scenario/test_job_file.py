"""A job file looked at without running it."""

from pathlib import Path

import pytest

from testbed.scenario import load
from testbed.scenario.checks import MOST_SOURCE, problem_of_job_file
from tests.unit.scenario.conftest import PLAIN, problems


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
    assert problem_of_job_file(tmp_path / "job.py") is None


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
        (b"#" * (MOST_SOURCE + 1), " is larger than 1 MB"),
    ],
)  # fmt: skip
def test_files_that_do_not(tmp_path: Path, source: bytes, message: str) -> None:
    path = tmp_path / "job.py"
    path.write_bytes(source)
    problem = problem_of_job_file(path)
    assert problem is not None
    assert problem[0].startswith(str(path))
    assert message in problem[0]
    assert "\n" not in problem[0]


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    assert problem_of_job_file(tmp_path / "job.py") == (
        f"there is no file {tmp_path}/job.py",
        "a relative path starts at the scenario's folder",
    )
    assert problem_of_job_file(tmp_path) == (f"{tmp_path} is a folder", "name the Python file in it")


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("import nowhere_to_be_found.part as part", "nowhere_to_be_found"),
        ("import json\nfrom nowhere_to_be_found.part import this", "nowhere_to_be_found"),
        ("try:\n    import nowhere_to_be_found\nexcept ImportError:\n    pass", ""),
        ("def on_device():\n    import nowhere_to_be_found", ""),
        ("import numpy.random\nfrom job_driver import Job", ""),
    ],
)
def test_what_it_imports_is_installed_where_it_runs(tmp_path: Path, source: str, package: str) -> None:
    file = tmp_path / "job.py"
    file.write_text(f"{source}\njob = 1\n")
    line = source.count("\n") + 1
    told = (f"{file}:{line}: needs the Python package {package}, which is not installed", f"pip install {package}")
    assert problem_of_job_file(file, runs_here=True) == (told if package else None)
    assert problem_of_job_file(file) is None


def test_only_a_run_on_this_machine_needs_it(folder: Path) -> None:
    Path("job.py").write_text("import nowhere_to_be_found\njob = 1\n")
    text = PLAIN.replace("digits.py", "job.py")
    assert any("needs the Python package nowhere_to_be_found" in each for each in problems(text))
    Path("scenario.yaml").write_text(text)
    assert load("scenario.yaml", ["backend=sim"]).backend == "sim"
