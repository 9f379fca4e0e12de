"""Sessions from files: what is read, in which order, and what is told of bad lines."""

import pickle
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.sessions import Block
from testbed.world import trace_files
from testbed.world.trace_files import SessionFile, read_sessions
from venn.wire.errors import UsageError

COUNT = "count seconds from the beginning of the trace"
HEAD = "device,start_s,end_s\n"
FINE = HEAD + "b,0,5\na,1.5,2\nb,5,6\na,5,100\n"
TRACE = {
    7: {"duration": 9, "inactive": [5, 20], "finish_time": 30, "active": [0, 10], "model": "CPH1801"},
    9: {"duration": 1, "inactive": [12, 12, 30.5], "finish_time": 30, "active": [10, 12, 21], "model": "Z"},
}


def rows(file: SessionFile) -> list[tuple[float, float, int, int]]:
    whole = Block.of(list(file.blocks()))
    columns = (whole.start_s, whole.end_s, whole.device, whole.number)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def csv(folder: Path, text: str, ids: dict[str, int] | None = None) -> SessionFile:
    (folder / "sessions.csv").write_text(text)
    return read_sessions(folder / "sessions.csv", ids)


def refused(folder: Path, text: str, ids: dict[str, int] | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        csv(folder, text, ids)
    assert caught.value.exit_code == 2
    return re.split(r"(?:;|(?<=\?)) [Ss]ee docs", str(caught.value).removeprefix(str(folder / "sessions.csv")))[0]


def pickled(folder: Path, value: object, ids: dict[str, int] | None = None) -> SessionFile:
    (folder / "client_behave_trace").write_bytes(pickle.dumps(value))
    return read_sessions(folder / "client_behave_trace", ids)


@pytest.mark.parametrize("lines", [1, 3, 65_536])
def test_devices_are_numbered_as_they_come_and_so_are_their_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    monkeypatch.setattr(trace_files, "PART", lines)
    file = csv(tmp_path, FINE)
    assert (file.devices, file.rows) == (2, 4)
    assert rows(file) == [(0, 5, 0, 1), (1.5, 2, 1, 1), (5, 6, 0, 2), (5, 100, 1, 2)]
    assert rows(file) == rows(file)


def test_names_that_are_known_keep_their_numbers(tmp_path: Path) -> None:
    file = csv(tmp_path, FINE, {"a": 0, "c": 1, "b": 2})
    assert file.devices == 3
    assert [row[2] for row in rows(file)] == [2, 0, 2, 0]


def test_other_columns_blank_lines_and_quotes(tmp_path: Path) -> None:
    text = '\ufeffmodel,end_s, start_s,device\n"a, b",2,1,x\n\n"two\nlines",3,2,y\n'
    assert rows(csv(tmp_path, text)) == [(1, 2, 0, 1), (2, 3, 1, 1)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ":1: is empty; its first line names the columns device, start_s, end_s"),
        ("device,start_s\n", ":1: has no column end_s"),
        ("device,start_s,end_s,device\n", ":1: has the column device twice"),
        (HEAD, ": has no session"),
        (HEAD + "a,1\n", ":2: has 2 values, and the first line names 3 columns"),
        (HEAD + "a,1,2\n,3,4\n", ":3: names no device"),
        (HEAD + "a,1,2\n\na,x,4\n", ":4: 'x' is not a number of seconds"),
        (HEAD + "a,1,\n", ":2: '' is not a number of seconds"),
        (HEAD + "a,nan,2\n", ":2: holds a time that is not finite"),
        (HEAD + "a,1,inf\n", ":2: holds a time that is not finite"),
        (HEAD + "a,inf,inf\n", ":2: holds a time that is not finite"),
        (HEAD + "a,-1,2\n", ":2: begins before 0"),
        (HEAD + "a,1,1e308\n", ":2: lies after 366 days: " + COUNT),
        (HEAD + "a,1,1.0000001\n", ":2: has no length: end_s is not after start_s"),
        (HEAD + "a,1,1\n", ":2: has no length: end_s is not after start_s"),
        (HEAD + "a,1,2\nb,3,2.5\n", ":3: has no length: end_s is not after start_s"),
        (HEAD + "a,5,6\nb,3,4\n", ":3: begins before the session above it: sort the file by start_s"),
        (HEAD + "a,1,6\nb,2,3\na,3,7\n", ":4: begins before the last session of its device has ended"),
        (HEAD + "a,1700000000,1700000009\n", ":2: lies after 366 days: " + COUNT),
        (HEAD + 'a,1,"2\n', ":2: is not CSV: unexpected end of data"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lines", [1, 65_536])
def test_bad_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, text: str, told: str) -> None:
    monkeypatch.setattr(trace_files, "PART", lines)
    assert refused(tmp_path, text) == told


def test_a_device_that_is_not_among_the_devices(tmp_path: Path) -> None:
    assert refused(tmp_path, HEAD + "phone-1,1,2\n", {"phone-01": 0}) == (
        ":2: device phone-1 is not among the devices; did you mean phone-01?"
    )


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "sessions.csv").write_bytes(b"device,start_s,end_s\n\xff,1,2\n")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_sessions(tmp_path / "sessions.csv", None)


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it is, no more than a part is read at once."""
    monkeypatch.setattr(trace_files, "PART", 100)
    lines = (f"d{second % 7},{second},{second + 1}\n" for second in range(5000))
    file = csv(tmp_path, HEAD + "".join(lines))
    blocks = file.blocks()
    assert len(next(blocks)) == 100
    assert [len(block) for block in blocks] == [100] * 49


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=60),
    st.integers(1, 70),
)
def test_whatever_is_fine_is_read_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, given: list[tuple[int, int, int]], lines: int
) -> None:
    """Sessions of devices one after the other, sorted: in order, not overlapping, numbered from 1."""
    folder = tmp_path_factory.mktemp("sessions")
    free = [0] * 5
    wanted = []
    for device, gap, length in given:
        start = free[device] + gap
        free[device] = start + length
        wanted.append((float(start), float(start + length), device))
    wanted.sort()
    names = [str(device) for device in range(5)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_files, "PART", lines)
        text = "".join(f"{names[device]},{start},{end}\n" for start, end, device in wanted)
        file = csv(folder, HEAD + text, {name: number for number, name in enumerate(names)})
        found = rows(file)
    assert [row[:3] for row in found] == wanted
    _check_numbers(found)


def _check_numbers(found: Sequence[tuple[float, float, int, int]]) -> None:
    seen = dict.fromkeys(range(5), 0)
    for *_, device, number in found:
        seen[device] += 1
        assert number == seen[device]


def test_a_trace_of_fedscale(tmp_path: Path) -> None:
    file = pickled(tmp_path, TRACE)
    assert rows(file) == [(0, 5, 0, 1), (10, 20, 0, 2), (10, 12, 1, 1), (21, 30.5, 1, 2)]
    assert (file.devices, file.rows, file.empty) == (2, 4, 1)
    assert [row[2] for row in rows(pickled(tmp_path, TRACE, {"9": 0, "8": 1, "7": 2}))] == [2, 2, 0, 0]


def test_times_of_numpy(tmp_path: Path) -> None:
    trace = {1: {"active": list(np.array([1, 5])), "inactive": list(np.array([2.5, 6]))}}
    assert rows(pickled(tmp_path, trace)) == [(1, 2.5, 0, 1), (5, 6, 0, 2)]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "is not a dictionary with an entry per client"),
        (3, "is not a dictionary with an entry per client"),
        ({1: 3}, "holds 1 where a client and a dictionary should be"),
        ({(1,): {}}, "holds a dictionary with keys other than whole numbers and texts"),
        ({1: {2: 3}}, "client 1: has keys that are not texts"),
        ({1: {"inactive": [1]}}, "client 1: has no list active"),
        ({1: {"active": [1, 2], "inactive": [2]}}, "client 1: 2 times active and 1 inactive"),
        ({1: {"active": [3], "inactive": [2]}}, "client 1: session 1 ends before it begins"),
        ({1: {"active": [1, 2], "inactive": [3, 4]}}, "client 1: session 1 ends after the next one begins"),
        ({1: {"active": ["x"], "inactive": [2]}}, "client 1: active[0] is not a time: 'x'"),
        ({1: {"active": [-1], "inactive": [2]}}, "client 1: active[0] is not a time: -1"),
        ({1: {"active": [1], "inactive": [float("nan")]}}, "client 1: inactive[0] is not a time: nan"),
        ({1: {"active": [10**400], "inactive": [2]}}, "client 1: active[0] is not a time: int"),
        ({1: {"active": [], "inactive": []}}, "has no session"),
    ],
)  # fmt: skip
def test_a_trace_that_is_none(tmp_path: Path, value: object, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        pickled(tmp_path, value)
    assert caught.value.message.startswith(told)


def test_a_client_that_is_not_among_the_devices(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="device 7 is not among the devices"):
        pickled(tmp_path, TRACE, {"9": 0})
