"""``venn data split``."""

import json
from pathlib import Path

import numpy as np
import pytest

from testbed.cli.main import main


@pytest.fixture
def source(tmp_path: Path) -> str:
    np.savez(tmp_path / "samples.npz", x=np.arange(50).reshape(50, 1), y=np.arange(50) % 3)
    return str(tmp_path / "samples.npz")


def test_for_people(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "shares"
    code = main(["data", "split", source, "--devices", "4", "--split", "iid", "--held-out", "20%", "--out", str(out)])
    assert code == 0
    assert capsys.readouterr().out == f"{out}: 4 shares, 10 to 10 samples each, 40 in all; 10 held out\n"
    assert sorted(path.name for path in out.iterdir()) == [
        "held_out.npz",
        *(f"share-000{number}.npz" for number in range(1, 5)),
    ]


def test_for_programs(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "shares"
    assert main(["data", "split", source, "--devices", "3", "--seed", "5", "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["shares"] == [str(out / f"share-000{number}.npz") for number in (1, 2, 3)]
    assert sum(said["samples"]) == 40
    assert (said["held_out"], said["held_out_samples"]) == (str(out / "held_out.npz"), 10)


def test_a_mistake_is_one_line(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "shares")
    assert main(["data", "split", source, "--devices", "41", "--out", out]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["data", "split", source, "--devices", "4", "--split", "dirichlet", "--out", out, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["reason"] == "SPLIT"
    assert main(["data", "split", source, "--devices", "4", "--held-out", "much", "--out", out]) == 2
    assert "'much' is not a fraction" in capsys.readouterr().err
