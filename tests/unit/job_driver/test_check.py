"""``venn job check``: one round on two shares, and the example jobs."""

import json
from pathlib import Path

import numpy as np
import pytest

from job_driver.bundle import load
from job_driver.check import check_job, find_data
from job_driver.cli import main, params_of
from venn.wire.errors import UsageError

EXAMPLES = Path(__file__).parents[3] / "examples"
FORM = (
    "import numpy as np\nfrom job_driver import Job, Result\njob = Job(initial=lambda rng: {{'w': np.zeros(3)}}, {})\n"
)


def run_check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main(["check", *arguments, "--json"])
    said: dict[str, object] = json.loads(capsys.readouterr().out)
    return code, said


def test_the_digits_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run_check(capsys, str(EXAMPLES / "digits.py"), "--param", "epochs=40")
    assert code == 0
    metrics = said["metrics"]
    assert isinstance(metrics, dict)
    assert metrics["accuracy"] > 0.9
    assert said["download_bytes"] == said["upload_bytes"]
    assert str(said["workload"]).startswith("workload: {compute: ")
    assert str(said["workload"]).endswith("download: 5.264 kB, upload: 5.264 kB}")
    assert "max_rounds" in str(said["notes"])


def test_the_starter_is_right_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from testbed.cli.scenario import write_starter

    write_starter(tmp_path)
    code, said = run_check(capsys, str(tmp_path / "job.py"))
    assert code == 0, said


def test_a_parameter_that_is_missing_is_named_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(EXAMPLES / "digits.py")]) == 2
    told = capsys.readouterr().err
    assert "the task reads the parameter epochs, which has no value" in told
    assert "--param epochs=VALUE" in told


def test_the_digits_example_learns_the_real_digits(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn supplies the data set")
    shares, held_out = find_data(["sklearn-digits"], None, tmp_path)
    finding = check_job(load(EXAMPLES / "digits.py"), shares=shares, held_out=held_out, params={"epochs": 40})
    assert finding.metrics["accuracy"] > 0.85


def test_the_labels_example_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, labels in (("a", [0, 1, 1]), ("b", [9])):
        np.savez(tmp_path / f"{name}.npz", x=np.zeros((len(labels), 64)), y=np.array(labels))
    shares = [part for name in "ab" for part in ("--data", str(tmp_path / f"{name}.npz"))]
    assert main(["check", str(EXAMPLES / "labels.py"), *shares]) == 0
    assert "one round on 2 shares works" in capsys.readouterr().out
    job = load(EXAMPLES / "labels.py").job
    total = job.aggregate(job.initial(np.random.default_rng(0)))
    from job_driver import Task

    for name in "ab":
        total.add(job.on_device({}, Task(tmp_path / f"{name}.npz")))
    assert total.close()["counts"].tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0, 1]


def test_the_torch_example_learns(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed here")
    shares, held_out = find_data([], None, tmp_path)
    finding = check_job(load(EXAMPLES / "torch_digits.py"), shares=shares, held_out=held_out, params={"epochs": 8})
    assert finding.metrics["accuracy"] > 0.5


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("on_device=lambda m, t: 1 / 0", "on_device failed: ZeroDivisionError"),
        ("on_device=lambda m, t: m", "on_device returned dict, not a Result"),
        ("on_device=lambda m, t: Result({'w': np.zeros(4)})", "float64[4]"),
        ("on_device=lambda m, t: Result({'w': np.full(3, np.nan)})", "NaN"),
        ("on_device=lambda m, t: Result({'w': np.array(['x'])})", "dtype"),
        ("on_device=lambda m, t: Result(m), evaluate=lambda m, p: {'a': 'b'}", "evaluate failed"),
        ("on_device=lambda m, t: Result(m), stop=lambda rounds: rounds[-1].metrics['a']", "stop failed: KeyError"),
    ],
)
def test_what_is_wrong_with_a_job_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rest: str, words: str
) -> None:
    file = tmp_path / "job.py"
    file.write_text(FORM.format(rest))
    assert main(["check", str(file)]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert "job.py" in said.err
    assert said.out == ""


def test_a_share_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run_check(capsys, str(EXAMPLES / "labels.py"), "--data", "/nowhere.npz")
    assert (code, said["error"]["reason"]) == (2, "DATA")  # type: ignore[index]


def test_a_job_with_evaluate_needs_held_out_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(EXAMPLES / "digits.py"), "--rounds", "1"]) == 2
    assert "--held-out" in capsys.readouterr().err


def test_params_have_types() -> None:
    assert params_of(["epochs=40", "rate=0.5", "fast=true", "name=x=y"]) == {
        "epochs": 40,
        "rate": 0.5,
        "fast": True,
        "name": "x=y",
    }
    with pytest.raises(UsageError, match="--param"):
        params_of(["epochs"])
