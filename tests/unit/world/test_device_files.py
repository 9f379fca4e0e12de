"""Devices from files: CSV, Parquet, FedScale and Venn."""

import builtins
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator.engine.requirements import Capabilities
from testbed.world import columns
from testbed.world.trace_files import DeviceFile, read_devices
from venn.wire.errors import UsageError

LAB = Capabilities({"cpu": 8.0, "memory": 4e9}, {"site": frozenset(["lab"])})
CSV = "device,cpu,site,memory\na,8,lab,4e9\nb,,12,\nc, 2.5 , lab ,1000000000\n"


def csv(folder: Path, text: str) -> DeviceFile:
    (folder / "phones.csv").write_text(text)
    return read_devices(folder / "phones.csv")


def refused(folder: Path, text: str) -> str:
    with pytest.raises(UsageError) as caught:
        csv(folder, text)
    return str(caught.value).removeprefix(str(folder / "phones.csv")).split("; see docs")[0]


def pickled(folder: Path, value: object) -> DeviceFile:
    (folder / "client_device_capacity").write_bytes(pickle.dumps(value))
    return read_devices(folder / "client_device_capacity")


def test_numbers_labels_and_what_is_not_reported(tmp_path: Path) -> None:
    file = csv(tmp_path, CSV)
    assert file.ids == {"a": 0, "b": 1, "c": 2}
    assert file.columns.row(0) == LAB
    assert file.columns.row(1) == Capabilities({}, {"site": frozenset(["12"])})
    assert file.columns.row(2) == Capabilities({"cpu": 2.5, "memory": 1e9}, {"site": frozenset(["lab"])})
    assert file.devices.names == ("cpu", "memory", "site")


def test_more_devices_than_the_file_has_are_the_same_again(tmp_path: Path) -> None:
    columns = csv(tmp_path, CSV).devices.columns(2, 5)
    np.testing.assert_array_equal(columns.numbers["cpu"], [2.5, 8, np.nan, 2.5, 8])
    assert columns.row(1) == LAB


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ":1: is empty; its first line names the columns device"),
        ("cpu\n1\n", ":1: has no column device"),
        ("device,cpu\n", ": has no device"),
        ("device,cpu\n,1\n", ":2: has no device"),
        ("device,cpu\na,1\na,2\n", ":3: device a occurs twice"),
        ("device,cpu\na,1\nb,1O\n", ":3: cpu is '1O', a text, and above it are numbers"),
        ("device,cpu\na,nan\n", ":2: cpu is nan, which is not a finite number"),
        ("device,cpu score\na,1\n", ":2: 'cpu score' is not the name of a capability"),
        ("device,site\na," + "x" * 129 + "\n", ":2: site has more than 128 bytes"),
        ("device,site\na,\x1b[2Jlab\n", ":2: site is '\\x1b[2Jlab', with a character that cannot be shown"),
        ("device,cpu\na,1,2\n", ":2: has 3 values, and the first line names 2 columns"),
    ],
)
def test_bad_lines(tmp_path: Path, text: str, told: str) -> None:
    assert refused(tmp_path, text) == told


def test_too_many_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST_COLUMNS", 2)
    assert refused(tmp_path, "device,a,b,c\nx,1,2,3\n") == ":2: there are more than 2 capabilities"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("none.csv", "none.parquet", "none.pickle"):
        with pytest.raises(UsageError, match=r"cannot be read|Parquet files need pyarrow"):
            read_devices(tmp_path / name)


def test_capacities_of_fedscale_in_our_units(tmp_path: Path) -> None:
    file = pickled(tmp_path, {1: {"computation": 162.0, "communication": np.float64(5648.5)}})
    assert file.ids is None  # each of FedScale's files has numbers of its own
    assert file.columns.row(0) == Capabilities({"inference": 0.162, "link": 5_648_500.0})


def test_specifications_of_venn_as_they_are(tmp_path: Path) -> None:
    spec = {"cpu_f": 7, "ram": 8.0, "fp16_mem": 1000, "android_os": 11, "speed": 1.5, "model": "CPH1801", "x": None}
    for clients in ({0: spec, 1: {}}, [spec, {}]):
        columns = pickled(tmp_path, clients).columns
        numbers = {"cpu_f": 7.0, "ram": 8.0, "fp16_mem": 1000.0, "android_os": 11.0, "speed": 1.5}
        assert columns.row(0) == Capabilities(numbers, {"model": frozenset(["CPH1801"])})
        assert columns.row(1) == Capabilities()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({1: {"active": [1], "inactive": [2]}}, "is a trace of sessions, and devices were wanted"),
        ({1: {"cpu": [1]}}, "client 1: cpu is neither a number nor a text"),
        ({1: {"cpu": 10**400}}, "client 1: int too large to convert to float"),
        ({1: {"cpu": 1}, 2: {"cpu": "a"}}, "client 2: cpu is 'a', a text, and above it are numbers"),
        ({1: {"": 1}}, "client 1: '' is not the name of a capability"),
    ],
)
def test_dictionaries_that_are_none(tmp_path: Path, value: object, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        pickled(tmp_path, value)
    assert caught.value.message.startswith(told)


def parquet(folder: Path, columns: Mapping[str, object]) -> DeviceFile:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    write_table(pyarrow.table(columns), folder / "phones.parquet")
    return read_devices(folder / "phones.parquet")


def test_parquet(tmp_path: Path) -> None:
    columns = {"device": ["a", "b"], "cpu": [8, None], "site": ["lab", None], "memory": [4e9, float("nan")]}
    file = parquet(tmp_path, columns)
    assert file.ids == {"a": 0, "b": 1}
    assert file.columns.row(0) == LAB
    assert file.columns.row(1) == Capabilities()


def test_devices_of_parquet_may_be_numbers(tmp_path: Path) -> None:
    assert parquet(tmp_path, {"device": [7, 8], "cpu": [1, 2]}).ids == {"7": 0, "8": 1}


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"cpu": [1]}, "has no column device"),
        ({"device": ["a"], "cpu": [[1]]}, "row 1: cpu holds neither numbers nor texts"),
        ({"device": ["a", "a"], "cpu": [1, 2]}, "row 1: device a occurs twice"),
        ({"device": [None], "cpu": [1]}, "row 0: has no device"),
        ({"device": [], "cpu": []}, "has no device"),
    ],
)
def test_parquet_that_cannot_be_used(tmp_path: Path, columns: Mapping[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parquet(tmp_path, columns)
    assert caught.value.message == told


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "phones.parquet").write_text(CSV)
    with pytest.raises(UsageError, match="cannot be read"):
        read_devices(tmp_path / "phones.parquet")


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UsageError, match=r"pip install 'venn-testbed\[parquet\]'"):
        read_devices(tmp_path / "phones.parquet")
