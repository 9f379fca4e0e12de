"""The pickled files of FedScale and of the evaluation of Venn, read as data: dictionaries, one entry per client.

A pickle is a program: it may name any function of any module and call it. Here a file may hold numbers, texts, lists,
tuples and dictionaries, and name four functions, which are what NumPy's numbers are written with. Even those are not
NumPy's: what stands in for them takes bytes and gives a number.

FedScale (SymbioticLab/FedScale, docs of its device trace formats; Lai et al., ICML 2022) has two files.
``client_device_capacity``: ``{client: {"computation": ms per sample, "communication": kbit/s}}``.
``client_behave_trace``: ``{client: {"active": [s, ...], "inactive": [s, ...], "finish_time": s, "duration": s,
"model": text}}``: the n-th session is from the n-th active to the n-th inactive. Venn's evaluation
(SymbioticLab/Venn, Propius/evaluation/client/client_dispatcher.py) takes both, and ``client_spec_speed``:
``{client: {"cpu_f": score, "ram": GB, "fp16_mem": score, "android_os": level, "speed": factor, ...}}``. Clients of two
files are matched by their place, and round again, as those two do it; their numbers differ from file to file.
"""

import io
import os
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from device_agent.sessions import Block
from testbed.world.columns import LATEST_S, Cell, Columns, ColumnsBuilder, bad
from testbed.world.sessions import MOST_ROWS, numbered, ticks
from venn.wire.chance import Reals
from venn.wire.errors import UsageError
from venn.wire.notation import format_bytes
from venn.wire.text import printable

MOST_BYTES = 128 * 1024 * 1024  # three times the largest file of FedScale
MOST_SHARED = 1_000_000  # values of a small file, where clients share a list; of a larger one as many as it has bytes
LONGEST_ENCODED = 16  # characters; those of a number
FIX = "make it a CSV file, or pickle plain dictionaries, lists, numbers and texts"

_OPCODES = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.POP, pickle.POP_MARK, pickle.DUP),
    *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.INT, pickle.BININT, pickle.BININT1, pickle.BININT2),
    *(pickle.LONG, pickle.LONG1, pickle.FLOAT, pickle.BINFLOAT),
    *(pickle.UNICODE, pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE8),
    *(pickle.STRING, pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.BINBYTES, pickle.SHORT_BINBYTES),
    *(pickle.EMPTY_LIST, pickle.LIST, pickle.APPEND, pickle.APPENDS),
    *(pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
    *(pickle.EMPTY_DICT, pickle.DICT, pickle.SETITEM, pickle.SETITEMS),
    *(pickle.PUT, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.GET, pickle.BINGET, pickle.LONG_BINGET),
    *(pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.REDUCE, pickle.BUILD),
)


_NUMBERS = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1")


class _RefusedError(Exception):
    """What the file asks for and does not get."""


def _shown(value: object) -> str:
    """A value of the file in a few characters. Only the type of what may be of any size or depth."""
    if isinstance(value, str):
        return printable(repr(value[:40]), 40)
    small = value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**18)
    return repr(value) if small else type(value).__name__


class _Dtype:
    """A stand-in for ``numpy.dtype``: the type of one number."""

    __slots__ = ("name", "order")

    def __init__(self, name: object) -> None:
        if not isinstance(name, str) or name not in _NUMBERS:
            raise _RefusedError(f"holds values of type {_shown(name)}")
        self.name, self.order = name, "<"

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
            raise _RefusedError("holds an invalid type of numbers")
        self.order = state[1]


class _MakeDtype:
    """Slots and no names: what a file may call it may not change."""

    __slots__ = ()

    def __call__(self, name: object, *_: object) -> _Dtype:
        return _Dtype(name)


class _MakeScalar:
    """A stand-in for ``numpy.core.multiarray.scalar``."""

    __slots__ = ()

    def __call__(self, dtype: object, data: object) -> int | float | bool:
        if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
            raise _RefusedError("holds an invalid number")
        numbers = np.frombuffer(data, dtype.order + dtype.name)
        if len(numbers) != 1:
            raise _RefusedError("holds an invalid number")
        number: int | float | bool = numbers[0].item()
        return number


class _Encode:
    """A stand-in for ``_codecs.encode``, with which old pickles hold bytes."""

    __slots__ = ()

    def __call__(self, text: object, encoding: object) -> bytes:
        if not isinstance(text, str) or encoding != "latin1":
            raise _RefusedError("holds bytes in an encoding other than latin1")
        if len(text) > LONGEST_ENCODED:
            raise _RefusedError("holds bytes that are no number")
        return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], object] = {
    ("numpy", "dtype"): _MakeDtype(),
    ("numpy.core.multiarray", "scalar"): _MakeScalar(),
    ("numpy._core.multiarray", "scalar"): _MakeScalar(),
    ("_codecs", "encode"): _Encode(),
}


_Load = Callable[[Any], None]  # what an opcode does with an unpickler


def _refuse(_: pickle.Unpickler) -> None:
    raise _RefusedError("holds more than numbers, texts, lists and dictionaries")


def _flat(load: _Load) -> _Load:
    """Make a tuple that holds no other values than numbers and texts."""

    def loaded(unpickler: Any) -> None:
        load(unpickler)
        if any(isinstance(item, list | tuple | dict) for item in unpickler.stack[-1]):
            raise _RefusedError("holds a tuple of lists, tuples or dictionaries")

    return loaded


def _named(load: _Load, keys: slice) -> _Load:
    """Put values into a dictionary, under keys that are whole numbers or texts; these are on the stack."""

    def loaded(unpickler: Any) -> None:
        if not all(isinstance(key, int | str) for key in unpickler.stack[keys]):
            raise _RefusedError("holds a dictionary with keys other than whole numbers and texts")
        load(unpickler)

    return loaded


_LOADS: dict[int, _Load] = {opcode[0]: pickle._Unpickler.dispatch[opcode[0]] for opcode in _OPCODES}
_TUPLES = (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)
_KEYS = {pickle.SETITEM: slice(-2, -1), pickle.SETITEMS: slice(None, None, 2), pickle.DICT: slice(None, None, 2)}


class _DataUnpickler(pickle._Unpickler):
    """The one in Python: the compiled one allocates for its memo whatever size a file tells it (CVE-2018-20406).

    Nothing that it does goes into the depth of a value. The hash of a tuple would: of a nested one it takes the
    processor's stack, and of one whose parts are shared, time that doubles with each level.
    """

    dispatch: ClassVar[dict[int, _Load]] = {
        **dict.fromkeys(range(256), _refuse),
        **_LOADS,
        **{opcode[0]: _flat(_LOADS[opcode[0]]) for opcode in _TUPLES},
        **{opcode[0]: _named(_LOADS[opcode[0]], keys) for opcode, keys in _KEYS.items()},
    }

    def find_class(self, module: str, name: str, /) -> object:
        if (module, name) not in _STAND_INS:
            raise _RefusedError(f"asks for {printable(f'{module}.{name}', 80)}, and a file of data runs no code")
        return _STAND_INS[module, name]


def read_pickle(path: Path) -> object:
    """What a pickled file holds. Raises UsageError."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, MOST_BYTES))
    except OSError as error:
        raise UsageError("POPULATION", f"cannot be read: {error.strerror or error}", where=str(path)) from error
    if size > MOST_BYTES:
        message = f"is larger than {format_bytes(MOST_BYTES)}"
        raise UsageError("POPULATION", message, where=str(path), fix="make it a CSV file, which is read in parts")
    if not data:
        raise UsageError("POPULATION", "is empty", where=str(path), fix=FIX)
    try:
        root: object = _DataUnpickler(io.BytesIO(data)).load()
        _check_shared(root, max(len(data), MOST_SHARED))
        return root
    except _RefusedError as error:
        raise UsageError("POPULATION", str(error), where=str(path), fix=FIX) from None
    except Exception as error:
        told = printable(f"{type(error).__name__}: {error}", 80)
        raise UsageError("POPULATION", f"is not a complete pickle: {told}", where=str(path), fix=FIX) from error


def _check_shared(root: object, most: int) -> None:
    """Refuse a file in which so many clients share lists that they have more than ``most`` values together."""
    values = 0
    for entry in _parts(root):
        for value in _parts(entry):
            values += 1 + len(_parts(value))
            if values > most:
                raise _RefusedError("holds the same lists again and again")


def _parts(value: object) -> Collection[object]:
    match value:
        case dict():
            return value.values()
        case list() | tuple():
            return value
        case _:
            return ()


Entry = Mapping[str, object]
Entries = Mapping[str, Entry]

# What FedScale calls it -> what it is called here, and what it is multiplied by: ms -> s, kbit/s -> bit/s.
_RENAMED = {"computation": ("inference", 1e-3), "communication": ("link", 1e3)}


def read_dictionary(path: Path) -> "Columns | Behaviour":
    """Whichever a pickled dictionary holds, devices or sessions. Raises UsageError."""
    entries = _entries(path)
    if any("active" in entry for entry in entries.values()):
        return _behaviour(path, entries)
    return _capacities(path, entries)


def read_capacities(path: Path) -> Columns:
    """What the devices of a pickled dictionary report, in its order. Raises UsageError."""
    return _capacities(path, _entries(path))


def read_behaviour(path: Path) -> "Behaviour":
    """When the clients of a ``client_behave_trace`` are there. Raises UsageError."""
    return _behaviour(path, _entries(path))


def _capacities(path: Path, entries: Entries) -> Columns:
    builder = ColumnsBuilder()
    for client, entry in entries.items():
        if "active" in entry:
            raise bad(path, "is a trace of sessions, and devices were wanted: name it as population.sessions")
        try:
            cells = dict(_cell(name, value) for name, value in entry.items())
            builder.add(list(cells), list(cells.values()))
        except (ValueError, OverflowError) as error:
            raise bad(path, f"client {client}: {error}") from None
    return builder.columns()


def _cell(name: str, value: object) -> tuple[str, Cell]:
    ours, factor = _RENAMED.get(name, (name, 1.0))
    if value is None or isinstance(value, str):
        return ours, value
    if isinstance(value, bool | int | float):
        return ours, float(value) * factor
    raise ValueError(f"{name} is neither a number nor a text")


@dataclass(frozen=True, slots=True, eq=False)
class Behaviour:
    """All sessions of a trace, in order of start. They are kept: the file is whole in memory before it can be read."""

    start_s: Reals
    end_s: Reals
    device: NDArray[np.int32]
    devices: int
    ids: Mapping[str, int]  # by the client's name its number
    empty: int  # sessions without any length, which are left out

    def blocks(self) -> Iterator[Block]:
        seen = np.zeros(self.devices, np.int64)
        for first in range(0, len(self.start_s), MOST_ROWS):
            here = slice(first, first + MOST_ROWS)
            device = self.device[here].astype(np.int64)
            yield Block(self.start_s[here], self.end_s[here], device, numbered(device, seen))


def _behaviour(path: Path, clients: Entries) -> Behaviour:
    starts: list[Reals] = []
    ends: list[Reals] = []
    ids: dict[str, int] = {}
    empty = 0
    for client, entry in clients.items():
        ids[client] = len(ids)
        start, end = _sessions(path, client, entry)
        there = end > start
        empty += int((~there).sum())
        starts.append(start[there])
        ends.append(end[there])
    device = np.repeat(np.arange(len(ids), dtype=np.int32), [len(each) for each in starts])
    start, end = np.concatenate([*starts, np.empty(0)]), np.concatenate([*ends, np.empty(0)])
    order = np.lexsort((device, start))
    if not len(order):
        raise bad(path, "has no session")
    return Behaviour(start[order], end[order], device[order], len(ids), ids, empty)


def _sessions(path: Path, client: str, entry: Entry) -> tuple[Reals, Reals]:
    """Starts and ends of one client, in order, on ticks."""
    active, inactive = (_seconds(path, client, entry, name) for name in ("active", "inactive"))
    if len(active) != len(inactive):
        raise bad(path, f"client {client}: {len(active)} times active and {len(inactive)} inactive")
    wrong: tuple[tuple[Callable[[], NDArray[np.bool_]], str], ...] = (
        (lambda: inactive < active, "ends before it begins"),
        (lambda: active[1:] < inactive[:-1], "ends after the next one begins"),
    )
    for found, told in wrong:
        where = np.flatnonzero(found())
        if len(where):
            raise bad(path, f"client {client}: session {int(where[0]) + 1} {told}")
    return ticks(active), ticks(inactive)


def _seconds(path: Path, client: str, entry: Entry, name: str) -> Reals:
    times = entry.get(name)
    if not isinstance(times, list | tuple):
        raise bad(path, f"client {client}: has no list {name}")
    for place, each in enumerate(times):
        if isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each <= LATEST_S:
            raise bad(path, f"client {client}: {name}[{place}] is not a time: {_shown(each)}")
    return np.array(times, np.float64)


def _entries(path: Path) -> Entries:
    """The clients, by name, and what is told of them."""
    root = read_pickle(path)
    if isinstance(root, list):  # Venn numbers its clients from 0
        root = dict(enumerate(root))
    if not isinstance(root, dict) or not root:
        raise bad(path, "is not a dictionary with an entry per client")
    entries: dict[str, Entry] = {}
    for client, entry in root.items():
        if not isinstance(client, str | int) or not isinstance(entry, dict):
            raise bad(path, f"holds {_shown(client)} where a client and a dictionary should be")
        name = printable(client, 40) if isinstance(client, str) else _shown(client)
        if name in entries:
            raise bad(path, f"client {name} occurs twice")
        if not all(isinstance(key, str) for key in entry):
            raise bad(path, f"client {name}: has keys that are not texts")
        entries[name] = cast("Entry", entry)
    return entries
