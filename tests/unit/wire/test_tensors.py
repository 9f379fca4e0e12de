import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from venn.wire.tensors import (
    ALIGNMENT,
    DTYPES,
    MAGIC,
    PREFIX,
    TensorError,
    _read_entries,
    decode,
    encode,
    open_file,
    parts,
)

arrays = st.dictionaries(
    st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8),
    hnp.arrays(st.sampled_from(sorted(DTYPES)), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)),
    max_size=4,
)


def framed(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    head = MAGIC + len(text).to_bytes(8, "little") + text
    return head + (bytes(-len(head) % ALIGNMENT) + body if body else b"")


@given(arrays)
def test_what_is_written_reads_back_exactly(model: dict[str, np.ndarray]) -> None:
    data = encode(model)
    back = decode(data)
    assert list(back) == list(model)
    for name, array in model.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()
    file = io.BytesIO()
    assert sum(file.write(part) for part in parts(model)) == len(data)
    assert file.getvalue() == data


def test_any_layout_and_byte_order_travels() -> None:
    model = {
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "strided": np.arange(10)[::3],
        "big-endian": np.arange(4, dtype=">i4"),
        "scalar": np.asarray(3.5),
        "none": np.zeros((0, 3), dtype=np.float32),
    }
    back = decode(encode(model))
    for name, array in model.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].shape == array.shape
    assert back["big-endian"].dtype == np.dtype("<i4")


def test_reading_copies_nothing_and_is_aligned_and_read_only() -> None:
    data = encode({"a": np.arange(3.0), "b": np.arange(5, dtype=np.int8), "c": np.arange(1000.0)})
    raw = np.frombuffer(data, np.uint8)
    for array in decode(data).values():
        assert np.shares_memory(array, raw)
        assert (array.ctypes.data - raw.ctypes.data) % ALIGNMENT == 0
        assert not array.flags.writeable


def test_a_file_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "update"
    with open(path, "wb") as file:
        file.writelines(parts({"a": np.arange(3.0)}))
    np.testing.assert_array_equal(open_file(path)["a"], [0, 1, 2])
    path.write_bytes(b"")
    with pytest.raises(TensorError, match="empty"):
        open_file(path)
    path.write_bytes(b"junk")
    with pytest.raises(TensorError) as error:
        open_file(path)
    assert error.value.where == str(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"VENN",
        MAGIC,
        MAGIC + (2**63).to_bytes(8, "little"),
        framed(b"{"),
        framed(b"[" * 100_000),
        framed({"a": 1}),
        framed([["a", "<f8"]]),
        framed([["a", "<f8", [2**60, 2**60]]]),
        framed([["a", "<f8", [2**40, 2**40, 2**40]]]),
        framed([["a", "<f4", [0, 2**47, 2**47]]]),  # empty, and yet no array of NumPy
        framed([["a", "<f4", [2**47, 2**47, 0]], ["b", "|u1", [0]]]),
        framed(b"[" * 900 + b"]" * 900),
        framed([["a", "<f8", [-1]]]),
        framed([["a", "<f8", [1.0]]], bytes(8)),
        framed([["a", "<f8", [True]]], bytes(8)),
        framed([["a", "<f8", [1] * 9]], bytes(8)),
        framed([["a", "<f8", [2]]], bytes(8)),
        framed([["a", "<f8", [1]]], bytes(9)),
        framed([["a", "<f8", [1]], ["a", "<f8", [0]]], bytes(8)),
        framed([["", "<f8", [1]]], bytes(8)),
        framed([["a\n", "<f8", [1]]], bytes(8)),
        framed([["a\u202eb", "<f8", [1]]], bytes(8)),  # turns the direction of writing
        framed([["a\u200bb", "<f8", [1]]], bytes(8)),  # has no width
        framed([["\ud800", "<f8", [1]]], bytes(8)),  # half a character
        framed([["a", "|O", [1]]], bytes(8)),
        framed([["a", ">f8", [1]]], bytes(8)),
        framed([["a", [["x", "<f8"]], [1]]], bytes(8)),
    ],
)
def test_hostile_bytes_are_refused_before_anything_is_allocated(data: bytes) -> None:
    with pytest.raises(TensorError) as error:
        decode(data)
    assert error.value.reason in ("TENSOR_MALFORMED", "TENSOR_DTYPE")
    assert str(error.value).isprintable()


def test_an_empty_array_may_have_large_dimensions() -> None:
    assert decode(encode({"a": np.zeros((0, 2**40), np.float32)}))["a"].shape == (0, 2**40)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_damage_is_an_error_and_nothing_else(junk: bytes, at: int) -> None:
    data = bytearray(encode({"a": np.arange(4.0), "b": np.ones((2, 2), np.float32)}))
    data[at : at + len(junk)] = junk
    with suppress(TensorError):
        decode(data)


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array(["text"]), np.array([1j]), np.array(["2020"], "M8[D]"), np.zeros((1,) * 9)]
)
def test_what_does_not_travel_is_refused(array: np.ndarray) -> None:
    with pytest.raises(TensorError, match="array weights"):
        encode({"weights": array})


@pytest.mark.parametrize("name", ["", "x" * 257, "a\x1bb", "a\u202eb", "a\ud800", 7])
def test_names_that_do_not_travel_are_refused(name: Any) -> None:
    with pytest.raises(TensorError, match="not an array name"):
        encode({name: np.zeros(1)})


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_uploads_that_are_not_finite_are_refused(dtype: str, bad: float) -> None:
    model = {"fine": np.zeros((0,)), "counts": np.arange(3), "weights": np.ones((5, 7), dtype)}
    decode(encode(model), refuse_nan=True)
    model["weights"][3, 2] = bad
    data = encode(model)
    decode(data)
    with pytest.raises(TensorError, match="weights holds NaN or infinity") as error:
        decode(data, refuse_nan=True)
    assert error.value.reason == "TENSOR_NOT_FINITE"


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
def test_numbers_whose_sum_is_too_large_are_finite(dtype: str) -> None:
    largest = np.full(70, np.finfo(dtype).max, dtype)
    decode(encode({"up": largest, "down": -largest}), refuse_nan=True)


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
def test_infinities_that_cancel_out_are_found(dtype: str) -> None:
    weights = np.zeros(70, dtype)
    weights[[3, 50]] = np.inf, -np.inf
    with pytest.raises(TensorError, match="weights holds NaN or infinity"):
        decode(encode({"weights": weights}), refuse_nan=True)


def test_the_prefix_is_as_documented() -> None:
    data = encode({"a": np.zeros(1)})
    length = int.from_bytes(data[8:16], "little")
    assert data[:8] == MAGIC
    assert json.loads(data[PREFIX : PREFIX + length]) == [["a", "<f8", [1]]]


def test_a_header_that_was_read_is_known_and_a_damaged_one_is_refused_each_time() -> None:
    """A model and all responses to it have the same one."""
    encoded = encode({"known": np.arange(5, dtype=np.float32)})
    decode(encoded)
    before = _read_entries.cache_info().hits
    assert decode(bytearray(encoded))["known"][3] == 3.0
    assert _read_entries.cache_info().hits == before + 1
    for _ in range(2):
        with pytest.raises(TensorError):
            decode(encoded.replace(b'"known"', b'"a\nbcd"'))
