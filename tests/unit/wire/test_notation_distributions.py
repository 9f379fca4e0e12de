from pathlib import Path

import numpy as np
import pytest

from venn.wire.notation import Constant, NotationError, Unit, parse_distribution


@pytest.mark.parametrize(
    ("text", "unit", "mean"),
    [
        ("8s", "duration", 8),
        ("exp(8s)", "duration", 8),
        ("exp( 2m )", "duration", 120),
        ("1s..4s", "duration", 2.5),
        ("1..4", "number", 2.5),
        ("-1..1", "number", 0),
        ("2 GB..4 GB", "bytes", 3e9),
        ("lognormal(8s; 1.0)", "duration", 8 * np.exp(0.5)),
        ("lognormal(4 Mbit/s; 0)", "rate", 4e6),
        (7, "number", 7),
        (7.5, "number", 7.5),
    ],
)
def test_read_sampled_and_written_back(text: str, unit: Unit, mean: float) -> None:
    distribution = parse_distribution(text, unit)
    assert distribution.mean == pytest.approx(mean)
    rng = np.random.default_rng(7)
    samples = [distribution.sample(rng) for _ in range(20_000)]
    assert np.mean(samples) == pytest.approx(mean, rel=0.05, abs=0.02)
    assert parse_distribution(str(distribution), unit) == distribution
    assert distribution.scaled(0.5).mean == pytest.approx(mean / 2)
    assert all(type(sample) is float for sample in samples[:3]) or isinstance(distribution, Constant)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("8", "duration"),
        ("1..4", "duration"),
        ("4s..1s", "duration"),
        ("exp(0s)", "duration"),
        ("exp(8)", "duration"),
        ("exp(8s; 2)", "duration"),
        ("lognormal(8s)", "duration"),
        ("lognormal(8s; -1)", "duration"),
        ("weibull(8s)", "duration"),
        ("exp(8s", "duration"),
        ("", "duration"),
        ("none.csv:x", "duration"),
        (8, "duration"),
        (True, "number"),
    ],
)
def test_refused_with_an_example(text: str, unit: Unit) -> None:
    with pytest.raises(NotationError) as error:
        parse_distribution(text, unit)
    assert error.value.fix


def test_a_column_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "phones.csv").write_text("cpu,memory\n1,2e9\n3,4e9\n")
    distribution = parse_distribution("phones.csv:cpu", "number", folder=tmp_path)
    assert distribution.mean == 2
    rng = np.random.default_rng(1)
    assert {distribution.sample(rng) for _ in range(50)} == {1.0, 3.0}
    assert parse_distribution(str(distribution), "number") == distribution
    with pytest.raises(NotationError, match="it has cpu, memory"):
        parse_distribution("phones.csv:ram", "number", folder=tmp_path)
    with pytest.raises(NotationError, match="cannot be scaled"):
        distribution.scaled(2)


@pytest.mark.parametrize("rows", ["", "x\n", "x\n1\ntwo\n", "x\n-1\n", "x\nnan\n", "x,y\n1,2\n\n3\n,4\n"])
def test_a_file_that_is_no_numbers_is_refused(tmp_path: Path, rows: str) -> None:
    (tmp_path / "bad.csv").write_text(rows)
    with pytest.raises(NotationError):
        parse_distribution("bad.csv:x", "number", folder=tmp_path)
