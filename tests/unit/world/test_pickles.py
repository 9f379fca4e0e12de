"""Pickled files are data: what could run code is refused before it does."""

import os
import pickle
import pickletools
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from testbed.world import fedscale
from testbed.world.fedscale import read_behaviour, read_pickle
from venn.wire.errors import UsageError

PLAIN = {1: {"computation": 162.0, "communication": 5648.1}, "b": [1, -2, 2**70, (True, None), (), (1, 2, 3, 4)]}


class Runs:
    """What pickle would call ``function(*arguments)`` for."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._call


def touched(path: Path) -> Runs:
    return Runs(os.system, f"touch {path}")


def refused(folder: Path, data: bytes) -> str:
    path = folder / "file.pickle"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_pickle(path)
    assert caught.value.exit_code == 2
    assert caught.value.where == str(path)
    return caught.value.message


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_come_back_whatever_the_protocol(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "plain"
    path.write_bytes(pickle.dumps(PLAIN, protocol))
    assert read_pickle(path) == PLAIN


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_numbers_of_numpy_come_back_as_plain_ones(tmp_path: Path, protocol: int) -> None:
    numbers = [np.float64(1.5), np.float32(-2), np.int64(7), np.uint8(3), np.bool_(True)]
    path = tmp_path / "numpy"
    path.write_bytes(pickle.dumps({"all": numbers}, protocol))
    read = read_pickle(path)
    assert isinstance(read, dict)
    assert read["all"] == [1.5, -2.0, 7, 3, True]
    assert [type(each) for each in read["all"]] == [float, float, int, int, bool]


def test_the_order_of_bytes_counts(tmp_path: Path) -> None:
    big = DTYPE + b"\x8c\x02i2\x85R(K\x03\x8c\x01>NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    path = tmp_path / "numpy"
    path.write_bytes(SCALAR + big[2:] + b"C\x02\x01\x00\x86R.")
    assert read_pickle(path) == 256


def test_pickles_of_the_other_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy 1 and 2 keep the function in different modules."""
    data = pickle.dumps(np.float64(2.5), 0)
    path = tmp_path / "numpy"
    for module in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        path.write_bytes(data.replace(b"numpy._core.multiarray", module).replace(b"numpy.core.multiarray", module))
        assert read_pickle(path) == 2.5


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("wrap", ["bare", "key", "nested", "argument"])
def test_no_function_is_called(tmp_path: Path, protocol: int, wrap: str) -> None:
    proof = tmp_path / "proof"
    evil = touched(proof)
    value = {
        "bare": evil,
        "key": {evil: 1},
        "nested": {1: {"computation": [[(evil,)]]}},
        "argument": Runs(len, evil),
    }[wrap]
    told = refused(tmp_path, pickle.dumps(value, protocol))
    assert "and a file of data runs no code" in told
    assert not proof.exists()


@pytest.mark.parametrize(
    "value",
    [OrderedDict(a=1), date(2026, 1, 1), Path("a"), np.arange(3), {1, 2}, complex(1, 2), len, int, bytearray(b"a")],
    ids=repr,
)
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_nothing_but_data(tmp_path: Path, value: object, protocol: int) -> None:
    told = refused(tmp_path, pickle.dumps({1: value}, protocol))
    assert told.startswith(("asks for ", "holds more than numbers, texts, lists and dictionaries"))


@pytest.mark.parametrize(
    "data",
    [
        b"cos\nsystem\n(S'true'\ntR.",  # GLOBAL, REDUCE
        b"(S'true'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'true'\no.",  # OBJ
        b"\x80\x02cos\nsystem\n)\x81.",  # NEWOBJ
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",  # STACK_GLOBAL
        b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.",
        b"\x80\x04\x8c\x05numpy\x8c\x0bdtype.mro__\x93.",  # a dotted name
        b"\x80\x04\x8c\x05numpy\x8c\x04load\x93\x8c\x01x\x85R.",
        b"\x80\x02\x82\x01.",  # EXT1
        b"P1\n.",  # PERSID
        b"\x80\x04N\x8c\x01a\x86Q.",  # BINPERSID
    ],
)
def test_every_way_to_name_code(tmp_path: Path, data: bytes) -> None:
    told = refused(tmp_path, data)
    assert told.startswith(("asks for ", "holds more than numbers")), told


DTYPE = b"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93"
SCALAR = b"\x80\x04\x8c\x15numpy.core.multiarray\x8c\x06scalar\x93"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (DTYPE + b"\x8c\x01O\x85R.", "holds values of type 'O'"),
        (DTYPE + b"\x8c\x02V9\x85R.", "holds values of type 'V9'"),
        (DTYPE + b"\x8c\x02f8\x85R(K\x03\x8c\x01!NNNtb.", "holds an invalid type of numbers"),
        (SCALAR + b"K\x01K\x02\x86R.", "holds an invalid number"),
        (SCALAR + DTYPE[2:] + b"\x8c\x02f8\x85RC\x10" + bytes(16) + b"\x86R.", "holds an invalid number"),
        (DTYPE + b"}\x8c\x07__doc__\x8c\x01x\x86s\x86b.", "holds a dictionary with keys other than"),
        (DTYPE + b"N}\x8c\x08__call__\x8c\x01xs\x86b.", "holds a tuple of lists"),  # sets an attribute
        (b"\x80\x04\x8c\x07_codecs\x8c\x06encode\x93\x8c\x01a\x8c\x04utf8\x86R.", "holds bytes in an encoding"),
        (b"]K\x01b.", "is not a complete pickle"),  # BUILD on a list
    ],
)  # fmt: skip
def test_what_may_be_called_takes_nothing_else(tmp_path: Path, data: bytes, told: str) -> None:
    assert refused(tmp_path, data).startswith(told)
    assert not hasattr(fedscale._MakeDtype, "__dict__") or "x" not in vars(fedscale._MakeDtype)
    path = tmp_path / "numpy"
    path.write_bytes(pickle.dumps(np.float64(2.5)))
    assert read_pickle(path) == 2.5  # nothing was changed for those that come after


def test_a_module_that_lies_about_its_name_is_not_even_imported(tmp_path: Path) -> None:
    name = "module_that_nobody_imported"
    module = types.ModuleType(name)
    module.__dict__["function"] = len
    assert name not in sys.modules
    assert "module_that_nobody_imported.function" in refused(tmp_path, f"c{name}\nfunction\n.".encode())
    assert name not in sys.modules


@pytest.mark.parametrize("cut", [0, 1, 2, 5, 20, 40])
def test_a_file_that_is_cut_off(tmp_path: Path, cut: int) -> None:
    assert refused(tmp_path, pickle.dumps(PLAIN)[:cut]) in ("is empty",) or cut


def test_garbage_and_text(tmp_path: Path) -> None:
    for data in (b"device,start_s,end_s\n", bytes(range(256)), b".", b"\x80\x63K\x01."):
        refused(tmp_path, data)


def test_sizes_that_a_file_claims_cost_no_memory(tmp_path: Path) -> None:
    """A memo of four thousand million places, a text of 2**60 bytes: refused, or taken for the few bytes that it is."""
    path = tmp_path / "memo"
    path.write_bytes(b"\x80\x02K\x01r\xff\xff\xff\xff.")
    assert read_pickle(path) == 1
    refused(tmp_path, b"\x80\x04\x8d" + (2**60).to_bytes(8, "little") + b"a.")
    refused(tmp_path, b"\x80\x04\x8e" + (2**60).to_bytes(8, "little") + b"a.")
    path.write_bytes(b"\x80\x04\x95" + (2**60).to_bytes(8, "little") + b"N.")
    assert read_pickle(path) is None


def test_a_dictionary_has_plain_keys(tmp_path: Path) -> None:
    """The hash of a nested tuple takes the stack; of one with shared parts, twice as long at each level."""
    keys = "holds a dictionary with keys other than whole numbers and texts"
    tuples = "holds a tuple of lists, tuples or dictionaries"
    deep = b"\x80\x02})" + b"\x85" * 100_000 + b"K\x01s."
    doubled = b"\x80\x02}K\x01\x85" + b"".join(b"q%ch%c\x86" % (n, n) for n in range(40)) + b"K\x01s."
    assert refused(tmp_path, deep) == tuples
    assert refused(tmp_path, doubled) == tuples
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for key in ((1, 2), None, 1.5, b"a"):
            assert refused(tmp_path, pickle.dumps({"a": {key: 1, "b": 2}}, protocol)) in (keys, tuples)
    assert refused(tmp_path, b"(I1\nI2\ntI3\ns.") == keys  # of nothing


def test_what_is_shared_is_shown_without_going_into_it(tmp_path: Path) -> None:
    """The text of a list that holds the one below it twice is twice as long at each level."""
    doubled = b"]K\x01a" + b"".join(b"q%c0](h%ch%ce" % (n, n, n) for n in range(40))
    assert refused(tmp_path, DTYPE + doubled + b"\x85R.") == "holds a tuple of lists, tuples or dictionaries"
    path = tmp_path / "shared"
    path.write_bytes(b"\x80\x04}K\x01}(\x8c\x06active](" + doubled + b"e\x8c\x08inactive](K\x02eus.")
    with pytest.raises(UsageError, match=r"client 1: active\[0\] is not a time: list"):
        read_behaviour(path)
    path.write_bytes(b"\x80\x04}K\x01}(\x8c\x06active](L0x" + b"f" * 10_000 + b"\ne\x8c\x08inactive](K\x02eus.")
    with pytest.raises(UsageError, match=r"client 1: active\[0\] is not a time: int"):
        read_behaviour(path)


def test_a_list_that_clients_share_counts_for_each(tmp_path: Path) -> None:
    times = [float(second) for second in range(1000)]
    shared = {client: {"active": times, "inactive": times} for client in range(fedscale.MOST_SHARED // 2000 + 1)}
    assert refused(tmp_path, pickle.dumps(shared)) == "holds the same lists again and again"
    path = tmp_path / "few"
    path.write_bytes(pickle.dumps({client: shared[client] for client in range(10)}))
    read_pickle(path)
    itself: dict[str, object] = {}
    itself["a"] = itself
    path.write_bytes(pickle.dumps(itself))
    read_pickle(path)


def test_bytes_are_those_of_a_number(tmp_path: Path) -> None:
    """Each call would make a copy of a text that the file holds once."""
    encode = (
        b"\x80\x02c_codecs\nencode\n(X" + (1000).to_bytes(4, "little") + b"a" * 1000 + b"X\x06\x00\x00\x00latin1tR."
    )
    assert refused(tmp_path, encode) == "holds bytes that are no number"


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fedscale, "MOST_BYTES", 100)
    assert refused(tmp_path, pickle.dumps(list(range(200)))) == "is larger than 100 B"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_pickle(tmp_path / "none.pickle")


def test_every_opcode_that_is_admitted_is_known_to_pickle() -> None:
    known = {each.code for each in pickletools.opcodes}
    assert {opcode.decode("latin1") for opcode in fedscale._OPCODES} <= known
