"""What is found in a response while it comes, whatever the pieces it comes in."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from job_driver.form import NO_LIMITS
from job_driver.inspection import Inspection
from venn.wire import tensors
from venn.wire.chunks import digest_of

MODEL = {
    "counts": np.arange(7),
    "w": np.linspace(-1, 1, 201, dtype=np.float32),
    "none": np.zeros((0, 3)),
    "half": np.ones(33, np.float16),
    "n": np.array(2.5),
}


def inspect(body: bytes, cuts: list[int], digest: bytes = b"", limits: Mapping[str, float] = NO_LIMITS) -> str:
    """The problem, if the response comes in pieces that end at each of the cuts."""
    looked, begin = Inspection(len(body), limits), 0
    for end in (*sorted(min(cut, len(body)) for cut in cuts), len(body)):
        looked.take(memoryview(body)[begin:end])
        begin = end
    return looked.problem(digest or digest_of(body))


@given(st.lists(st.integers(0, 3000), max_size=6), st.sampled_from(["", "w", "half", "n"]), st.data())
def test_what_is_not_finite_is_found_and_named(cuts: list[int], poisoned: str, chance: st.DataObject) -> None:
    model = {name: array.copy() for name, array in MODEL.items()}
    if poisoned:
        at = chance.draw(st.integers(0, model[poisoned].size - 1))
        model[poisoned].reshape(-1)[at] = chance.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    said = inspect(tensors.encode(model), cuts)
    assert said == (f"TENSOR_NOT_FINITE: {poisoned} holds NaN or infinity" if poisoned else "")


@given(st.lists(st.integers(0, 3000), max_size=6), st.sampled_from(["counts", "w", "n"]), st.sampled_from([1, -1]))
def test_a_number_beyond_the_limit_of_its_array_is_found(cuts: list[int], name: str, sign: int) -> None:
    limits = {"counts": 6, "w": 1.0, "n": 2.5}
    assert inspect(tensors.encode(MODEL), cuts, limits=limits) == ""
    model = {other: array.copy() for other, array in MODEL.items()}
    model[name].reshape(-1)[-1] = sign * 7
    assert inspect(tensors.encode(model), cuts) == ""
    said = inspect(tensors.encode(model), cuts, limits=limits)
    assert said.startswith(f"VALUE: {name} holds a number beyond {limits[name]:g}")


def test_a_flipped_bit_is_found() -> None:
    body = bytearray(tensors.encode(MODEL))
    digest = digest_of(body)
    body[len(body) // 2] ^= 1
    assert inspect(bytes(body), [500], digest).startswith("DIGEST: ")


@pytest.mark.parametrize("length", [0, 5, 2**20, 2**63])
def test_what_is_no_tensors_is_hashed_and_left_to_others(length: int) -> None:
    for body in (bytes(3000), tensors.MAGIC + length.to_bytes(8, "little") + bytes(3000), b"short"):
        assert inspect(body, [10, 100, 1000]) == ""


def test_a_long_header_is_read_in_parts() -> None:
    model = {f"{'long' * 50}-{number}": np.full(3, number, np.float32) for number in range(3000)}
    model[f"{'long' * 50}-2999"][1] = np.nan
    body = tensors.encode(model)
    assert inspect(body, [1000, 300_000]).startswith("TENSOR_NOT_FINITE: long")
