"""Checks a response: its size, its form, and its bytes as they come: their digest, and that its numbers are finite."""

from collections import deque
from pathlib import Path

import numpy as np

from job_driver.job import Arrays
from job_driver.spool import Mapped
from venn.wire import tensors
from venn.wire.digest import Hasher
from venn.wire.tensors import ALIGNMENT, Place, TensorError, check_same, signature_of
from venn.wire.text import printable


class Inspection:
    """Checks one response, piece by piece, in their order."""

    def __init__(self, size: int) -> None:
        """``size``: bytes that the response will have."""
        self._size = size
        self._hasher = Hasher()
        self._seen = 0  # bytes whose numbers were looked at; a multiple of what arrays are aligned to, until the end
        self._rest = b""  # what came behind them: fewer bytes than that
        self._head = bytearray()  # what was seen, until the header is whole
        self._floats: deque[Place] | None = None  # arrays to come, of such numbers; None: not known yet
        self._strange = ""  # the first array that holds NaN or infinity

    def take(self, piece: memoryview) -> None:
        """The next bytes. What is large is hashed and compared without the interpreter's lock."""
        self._hasher.update(piece)
        if self._rest:
            fill = ALIGNMENT - len(self._rest)
            self._rest, piece = self._rest + piece[:fill], piece[fill:]
            if len(self._rest) < ALIGNMENT and self._seen + len(self._rest) < self._size:
                return
            self._look(memoryview(self._rest))
        ends = self._seen + len(piece) == self._size
        whole = len(piece) if ends else len(piece) - len(piece) % ALIGNMENT
        self._look(piece[:whole])
        self._rest = bytes(piece[whole:])

    def problem(self, digest: bytes) -> str:
        """Why the response, now whole, is refused; "" if it is not. What is no tensors is another's matter."""
        if self._hasher.digest() != digest:
            return "DIGEST: the bytes have another digest"
        return f"TENSOR_NOT_FINITE: {printable(self._strange, 80)} holds NaN or infinity" if self._strange else ""

    def _look(self, piece: memoryview) -> None:
        begin = self._seen
        self._seen = end = begin + len(piece)
        if self._floats is None:
            self._read_header(piece)
        while self._floats and self._floats[0].start < end and not self._strange:
            place = self._floats[0]
            part = piece[max(0, place.start - begin) : place.end - begin]
            if not tensors.finite(np.frombuffer(part, place.dtype)):
                self._strange = place.name
            if place.end > end:
                return
            self._floats.popleft()

    def _read_header(self, piece: memoryview) -> None:
        """Arrays begin behind it, so none was passed over before they are known."""
        self._head += piece
        if len(self._head) < tensors.header_end(self._head):
            return
        try:
            places = tensors.places(memoryview(self._head), self._size)
        except TensorError:
            places = []
        self._floats = deque(place for place in places if place.dtype.kind == "f")
        self._head = bytearray()


class ResponseForm:
    """What a response to a model may look like."""

    def __init__(self, model: Arrays, model_bytes: int, *, same_as_model: bool, most_bytes: int) -> None:
        """``model_bytes``: of the encoded model. ``most_bytes`` is the bound where the aggregator takes any arrays."""
        self._signature = signature_of(model) if same_as_model else None
        slack = ALIGNMENT * len(model)  # the arrays may come in another order
        self._least, self._most = (model_bytes - slack, model_bytes + slack) if same_as_model else (1, most_bytes)

    def size_problem(self, size: int) -> str:
        """Why a response of so many bytes is refused before it is sent; "" if it is not."""
        if self._least <= size <= self._most:
            return ""
        return f"SIZE: the response has {size} bytes, allowed are {self._least} to {self._most}"

    def problem(self, source: Path | memoryview) -> str:
        """Why a response is refused, found in its header; "" if it is not. Its numbers are looked at as they come."""
        try:
            response = tensors.decode(source) if isinstance(source, memoryview) else Mapped(source)
            if self._signature is not None:
                check_same(self._signature, signature_of(response))
        except TensorError as error:
            return f"{error.reason}: {error.message}"
        return ""
