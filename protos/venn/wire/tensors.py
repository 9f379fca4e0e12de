"""Named arrays as bytes: on the wire, in spool files and checkpoints. No pickle.

    magic (8 bytes) | length of the header (8 bytes, little-endian) | header | arrays

The header is JSON, a list of [name, dtype, shape]. Each array is raw, little-endian, C order, and begins at the next
multiple of 64 bytes. Nothing is allocated or mapped before every size has been checked against the bytes at hand, and
reading copies nothing: the arrays are read-only views of the buffer.
"""

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from venn.wire.errors import PeerError
from venn.wire.text import printable

Array = npt.NDArray[Any]
Entry = tuple[str, np.dtype[Any], tuple[int, ...]]  # of a header: name, dtype and shape of an array

MAGIC = b"VENNTSR1"
PREFIX = len(MAGIC) + 8
ALIGNMENT = 64
MAX_HEADER_BYTES = 1 << 20
HEADERS_KNOWN = 8  # that were read last: a model and all responses to it have the same one
MAX_TENSORS = 4096
MAX_NAME = 256
MAX_RANK = 8
MAX_EXTENT = 2**63 - 1  # bytes, with each dimension of 0 taken as 1: NumPy makes no larger shape, not even an empty one
DTYPES = {
    np.dtype(kind).newbyteorder("<").str: np.dtype(kind).newbyteorder("<")
    for kind in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
}


class TensorError(PeerError):
    """An error of an encoding or an array: TENSOR_MALFORMED, TENSOR_DTYPE or TENSOR_NOT_FINITE."""


class Place(NamedTuple):
    """The place of an array in an encoding."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int  # bytes from the beginning

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


def encode(arrays: Mapping[str, Array]) -> bytes:
    """Encode arrays, with one copy of each. Raises TensorError for a dtype, rank or name that does not travel."""
    return b"".join(parts(arrays))


def decode(buffer: bytes | bytearray | memoryview, *, refuse_nan: bool = False) -> dict[str, Array]:
    """Decode a buffer into read-only views of it, by name. Raises TensorError."""
    arrays = _views(memoryview(buffer).cast("B").toreadonly())
    for name, array in arrays.items() if refuse_nan else ():
        if not finite(array):
            message, fix = f"array {printable(name, 80)} holds NaN or infinity", "check that training does not diverge"
            raise TensorError("TENSOR_NOT_FINITE", message, fix=fix)
    return arrays


def header_end(head: bytes | bytearray) -> int:
    """The number of first bytes of an encoding that ``places`` needs, to find the arrays or that there are none."""
    if len(head) < PREFIX:
        return PREFIX
    return PREFIX + min(MAX_HEADER_BYTES, int.from_bytes(head[len(MAGIC) : PREFIX], "little"))


def places(head: memoryview, size: int) -> list[Place]:
    """The places of the arrays in an encoding of ``size`` bytes that begins so. Raises TensorError, as decode would;
    and where not all of the header is in ``head``.
    """
    header, at = _read_header(head)
    found = []
    for name, dtype, shape in header:
        found.append(Place(name, dtype, shape, at + -at % ALIGNMENT))
        at = found[-1].end
    if at != size:
        raise _malformed(f"it should have {at} bytes and has {size}")
    return found


def finite(array: Array) -> bool:
    """Whether an array has neither NaN nor infinity. No sum with one of them is finite, and a sum takes one pass and no
    memory; where it is not, large numbers may have made it so: then each number is looked at.
    """
    if array.dtype.kind != "f":
        return True
    return bool(np.isfinite(np.einsum("i->", array.reshape(-1))) or np.isfinite(array).all())


def open_file(path: Path) -> dict[str, Array]:
    """Decode a file that is mapped into memory: its pages are read when they are used. Raises TensorError, OSError."""
    if path.stat().st_size == 0:
        raise _malformed("it is empty", str(path))
    mapped = np.memmap(path, dtype=np.uint8, mode="r")
    try:
        return _views(memoryview(mapped.data).cast("B"))
    except TensorError as error:
        error.where = str(path)
        raise


def parts(arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    """The encoding of arrays, part by part, without a copy of them. Raises TensorError as ``encode`` does."""
    header, bodies = [], []
    for name, array in arrays.items():
        dtype = _dtype_text(name, array)
        header.append([_checked_name(name), dtype, list(np.shape(array))])
        bodies.append(np.asarray(array, dtype=DTYPES[dtype], order="C").reshape(-1).view(np.uint8).data)
    text = json.dumps(header, separators=(",", ":")).encode()
    if len(bodies) > MAX_TENSORS or len(text) > MAX_HEADER_BYTES:
        raise TensorError("TENSOR_MALFORMED", f"more than {MAX_TENSORS} arrays, or their names are too long")
    yield MAGIC + len(text).to_bytes(8, "little") + text
    at = PREFIX + len(text)
    for body in bodies:
        yield bytes(-at % ALIGNMENT)
        yield body
        at += -at % ALIGNMENT + len(body)


def _views(view: memoryview) -> dict[str, Array]:
    return {
        name: np.frombuffer(view, dtype, math.prod(shape), start).reshape(shape)
        if math.prod(shape)
        else np.empty(shape, dtype)
        for name, dtype, shape, start in places(view, len(view))
    }


def _read_header(view: memoryview) -> tuple[tuple[Entry, ...], int]:
    if view[: len(MAGIC)] != MAGIC or len(view) < PREFIX:
        raise _malformed("it does not begin with the header of tensors")
    length = int.from_bytes(view[len(MAGIC) : PREFIX], "little")
    if length > min(MAX_HEADER_BYTES, len(view) - PREFIX):
        raise _malformed("its header is cut short or too long")
    return _read_entries(bytes(view[PREFIX : PREFIX + length])), PREFIX + length


@lru_cache(HEADERS_KNOWN)
def _read_entries(header: bytes) -> tuple[Entry, ...]:
    try:
        entries = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise _malformed("its header cannot be read") from error
    if not isinstance(entries, list) or len(entries) > MAX_TENSORS:
        raise _malformed(f"its header is not a list of at most {MAX_TENSORS} arrays")
    read = tuple(map(_read_entry, entries))
    if len({name for name, _, _ in read}) < len(read):
        raise _malformed("two arrays have one name")
    return read


def _read_entry(entry: object) -> Entry:
    match entry:
        case [str(name), str(dtype), list(shape)] if all(type(n) is int and 0 <= n < 2**48 for n in shape):
            if dtype not in DTYPES:
                raise TensorError("TENSOR_DTYPE", f"array {printable(name, 80)} has dtype {printable(dtype, 20)}")
            return _checked_name(name), DTYPES[dtype], _checked_shape(name, tuple(shape), DTYPES[dtype].itemsize)
        case _:
            raise _malformed("an entry of its header is not a name, dtype and shape")


def _dtype_text(name: str, array: Array) -> str:
    dtype = np.asarray(array).dtype.newbyteorder("<").str
    if dtype not in DTYPES:
        raise TensorError(
            "TENSOR_DTYPE",
            f"array {printable(str(name), 80)} has dtype {printable(str(np.asarray(array).dtype), 40)}",
            fix="use booleans, integers or floats of at most 64 bits",
        )
    _checked_shape(name, np.shape(array), DTYPES[dtype].itemsize)
    return dtype


def _checked_shape(name: str, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    if len(shape) > MAX_RANK:
        raise TensorError(
            "TENSOR_MALFORMED", f"array {printable(str(name), 80)} has {len(shape)} dimensions, allowed are {MAX_RANK}"
        )
    if math.prod(extent or 1 for extent in shape) * itemsize > MAX_EXTENT:
        raise TensorError("TENSOR_MALFORMED", f"array {printable(str(name), 80)} has dimensions that are too large")
    return shape


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= MAX_NAME:
        raise TensorError(
            "TENSOR_MALFORMED",
            f"{printable(repr(name), 80)} is not an array name",
            fix=f"use a text of 1 to {MAX_NAME} printable characters",
        )
    return name


def _malformed(problem: str, where: str = "") -> TensorError:
    return TensorError("TENSOR_MALFORMED", f"these bytes are not tensors: {problem}", where=where)
