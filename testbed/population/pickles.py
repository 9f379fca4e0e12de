"""Pickled files read as data: numbers, texts, lists, tuples and dictionaries, and nothing that could run code.

A pickle is a program: it may name any function of any module and call it. Here it may name four, which are what NumPy's
numbers are written with, and even those are not NumPy's: what stands in for them takes bytes and gives a number.
"""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np

from venn.wire.errors import UsageError
from venn.wire.notation import format_bytes
from venn.wire.text import printable

MOST_BYTES = 128 * 1024 * 1024  # three times the largest file of FedScale
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


class _RefusedError(Exception):
    """What the file asks for and does not get."""


class _Dtype:
    """In place of ``numpy.dtype``: the type of one number."""

    __slots__ = ("name", "order")

    def __init__(self, name: object) -> None:
        if name not in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1"):
            raise _RefusedError(f"holds values of type {printable(str(name), 40)}")
        self.name, self.order = str(name), "<"

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
            raise _RefusedError("holds a type of numbers that is none")
        self.order = state[1]


class _MakeDtype:
    """Slots and no names: what a file may call it may not change."""

    __slots__ = ()

    def __call__(self, name: object, *_: object) -> _Dtype:
        return _Dtype(name)


class _MakeScalar:
    """In place of ``numpy.core.multiarray.scalar``."""

    __slots__ = ()

    def __call__(self, dtype: object, data: object) -> int | float | bool:
        if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
            raise _RefusedError("holds a number that is none")
        numbers = np.frombuffer(data, dtype.order + dtype.name)
        if len(numbers) != 1:
            raise _RefusedError("holds a number that is none")
        number: int | float | bool = numbers[0].item()
        return number


class _Encode:
    """In place of ``_codecs.encode``, with which old pickles hold bytes."""

    __slots__ = ()

    def __call__(self, text: object, encoding: object) -> bytes:
        if not isinstance(text, str) or encoding != "latin1":
            raise _RefusedError("holds bytes in an encoding other than latin1")
        return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], object] = {
    ("numpy", "dtype"): _MakeDtype(),
    ("numpy.core.multiarray", "scalar"): _MakeScalar(),
    ("numpy._core.multiarray", "scalar"): _MakeScalar(),
    ("_codecs", "encode"): _Encode(),
}


def _refuse(_: pickle.Unpickler) -> None:
    raise _RefusedError("holds more than numbers, texts, lists and dictionaries")


class _DataUnpickler(pickle._Unpickler):
    """The one in Python: the compiled one allocates for its memo whatever size a file tells it (CVE-2018-20406)."""

    dispatch: ClassVar[dict[int, Callable[[pickle.Unpickler], None]]] = {
        **dict.fromkeys(range(256), _refuse),
        **{opcode[0]: pickle._Unpickler.dispatch[opcode[0]] for opcode in _OPCODES},
    }

    def find_class(self, module: str, name: str, /) -> object:
        if (module, name) not in _STAND_INS:
            raise _RefusedError(f"asks for {printable(f'{module}.{name}', 80)}, and a file of data runs no code")
        return _STAND_INS[module, name]


def read_pickle(path: Path) -> object:
    """What a pickled file holds. Raises UsageError."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError("POPULATION", f"cannot be read: {error.strerror or error}", where=str(path)) from error
    if len(data) > MOST_BYTES:
        message = f"is larger than {format_bytes(MOST_BYTES)}"
        raise UsageError("POPULATION", message, where=str(path), fix="make it a CSV file, which is read in parts")
    if not data:
        raise UsageError("POPULATION", "is empty", where=str(path), fix=FIX)
    try:
        return _DataUnpickler(io.BytesIO(data)).load()
    except _RefusedError as error:
        raise UsageError("POPULATION", str(error), where=str(path), fix=FIX) from None
    except Exception as error:
        told = printable(f"{type(error).__name__}: {error}", 80)
        raise UsageError("POPULATION", f"is no whole pickle: {told}", where=str(path), fix=FIX) from error
