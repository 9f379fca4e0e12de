"""A data set split over devices, and what is said when it cannot be."""

import builtins
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.world.data import HELD_OUT, load, parse_split, split
from venn.wire.errors import PeerError, UsageError

FIFTH = Fraction(1, 5)


@pytest.fixture
def source(tmp_path: Path) -> str:
    """200 samples of 4 classes; sample i is i and has class i % 4."""
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.arange(200).reshape(200, 1), y=np.arange(200) % 4)
    return str(path)


def dealt(source: str, out: Path, way: str = "dirichlet(3.0)", devices: int = 10, seed: int = 7) -> list[Path]:
    return split(source, devices=devices, split=way, held_out=FIFTH, seed=seed, out=out)


def rows(path: Path) -> set[int]:
    with np.load(path, allow_pickle=False) as arrays:
        assert (arrays["x"][:, 0] % 4 == arrays["y"]).all()
        return set(arrays["x"][:, 0].tolist())


@pytest.mark.parametrize("way", ["dirichlet(3.0)", "dirichlet(0.01)", "iid"])
def test_every_sample_goes_to_one_place(source: str, tmp_path: Path, way: str) -> None:
    paths = dealt(source, tmp_path / "out", way)
    assert [path.name for path in paths] == [f"share-{number:04d}.npz" for number in range(1, 11)]
    held_out = rows(tmp_path / "out" / HELD_OUT)
    parts = [rows(path) for path in paths]
    assert len(held_out) == 40
    assert all(parts)
    assert sum(map(len, parts)) + len(held_out) == 200
    assert set().union(held_out, *parts) == set(range(200))


def test_iid_is_even(source: str, tmp_path: Path) -> None:
    assert {len(rows(path)) for path in dealt(source, tmp_path / "out", "iid", devices=12)} == {13, 14}


def test_a_small_alpha_gives_a_device_few_classes(source: str, tmp_path: Path) -> None:
    def classes(way: str) -> float:
        paths = dealt(source, tmp_path / way, way)
        return float(np.mean([len({row % 4 for row in rows(path)}) for path in paths]))

    assert classes("dirichlet(0.05)") < 2.5 < classes("dirichlet(100)")


def test_the_same_seed_gives_the_same_bytes(source: str, tmp_path: Path) -> None:
    def contents(name: str, seed: int) -> Mapping[str, bytes]:
        dealt(source, tmp_path / name, seed=seed)
        return {path.name: path.read_bytes() for path in sorted((tmp_path / name).iterdir())}

    assert contents("a", 7) == contents("b", 7)
    assert contents("c", 8) != contents("a2", 7)


def test_nothing_held_out_is_no_file(source: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    paths = split(source, devices=3, split="iid", held_out=Fraction(0), seed=0, out=out)
    assert sorted(out.iterdir()) == paths


def test_as_many_devices_as_samples_get_one_each(source: str, tmp_path: Path) -> None:
    paths = dealt(source, tmp_path / "out", devices=160)
    assert {len(rows(path)) for path in paths} == {1}


def test_the_digits() -> None:
    samples = load("sklearn-digits")
    assert samples.x.shape == (1797, 64)
    assert set(samples.y.tolist()) == set(range(10))


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_sklearn(name: str, *rest: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *rest)

    for name in [name for name in sys.modules if name.startswith("sklearn")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without_sklearn)
    with pytest.raises(UsageError, match=r"needs scikit-learn; pip install 'venn-testbed\[data\]'"):
        load("sklearn-digits")


def test_an_earlier_split_is_never_mixed_with(source: str, tmp_path: Path) -> None:
    dealt(source, tmp_path / "out")
    with pytest.raises(UsageError, match="out: already holds a split; name an empty folder"):
        dealt(source, tmp_path / "out", devices=3)


def test_more_devices_than_samples(source: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="161 devices are more than the 160 samples"):
        dealt(source, tmp_path / "out", devices=161)
    assert not (tmp_path / "out").exists()


def test_no_devices_and_nothing_left(source: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="0 devices"):
        dealt(source, tmp_path / "out", devices=0)
    with pytest.raises(UsageError, match="nothing would be left"):
        split(source, devices=1, split="iid", held_out=Fraction(1), seed=0, out=tmp_path / "out")


@pytest.mark.parametrize(
    "way", ["dirichlet", "dirichlet()", "dirichlet(0)", "dirichlet(-1)", "dirichlet(x)", "IID", ""]
)
def test_no_way_to_split(way: str) -> None:
    with pytest.raises(UsageError):
        parse_split(way)


def test_no_such_source() -> None:
    with pytest.raises(UsageError, match="no data set 'sklearn-digit'; did you mean sklearn-digits"):
        load("sklearn-digit")


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x": np.zeros((3, 2))}, "has no arrays x and y"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2)}, "are not samples and a class for each"),
        ({"x": np.zeros((3, 2)), "y": np.zeros((3, 1))}, "are not samples and a class for each"),
        ({"x": np.zeros(2), "y": np.array([1.0, np.nan])}, "values that are not finite"),
        ({"x": np.zeros(1), "y": np.array([{}], dtype=object)}, "is not a data set"),
    ],
)
def test_a_file_that_is_no_data_set(tmp_path: Path, arrays: dict[str, Any], says: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(UsageError, match=says):
        load(str(tmp_path / "bad.npz"))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut"])
def test_a_broken_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"bad\.npz: "):
        load(str(tmp_path / "bad.npz"))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.npz: cannot be read: No such file"):
        load(str(tmp_path / "none.npz"))


def test_a_folder_that_cannot_be_made(source: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        dealt(source, tmp_path / "file" / "out")


def test_a_full_disk(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(PeerError, match="no space is left"):
        dealt(source, tmp_path / "out")
