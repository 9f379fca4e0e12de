"""The check of a response's bytes while they come: its digest, and its numbers."""

from collections import deque
from collections.abc import Mapping

import numpy as np

from job_driver.form import NO_LIMITS
from venn.wire import tensors
from venn.wire.chunks import Hasher
from venn.wire.tensors import ALIGNMENT, Place, TensorError
from venn.wire.text import printable


class Inspection:
    """The check of one response, piece by piece, in their order."""

    def __init__(self, size: int, limits: Mapping[str, float] = NO_LIMITS) -> None:
        """``size``: bytes that the response will have. ``limits``: as of ``ResponseForm``."""
        self._size, self._limits = size, limits
        self._hasher = Hasher()
        self._seen = 0  # bytes whose numbers were checked; a multiple of what arrays are aligned to, until the end
        self._rest = b""  # what came behind them: fewer bytes than that
        self._head = bytearray()  # what was seen, until the header is whole
        self._places: deque[Place] | None = None  # arrays to come whose numbers are checked; None: not known yet
        self._problem = ""  # with the first number that is refused

    def take(self, piece: memoryview) -> None:
        """Check the next bytes. What is large is hashed and compared without the interpreter's lock."""
        self._hasher.update(piece)
        if self._rest:
            fill = ALIGNMENT - len(self._rest)
            self._rest, piece = self._rest + piece[:fill], piece[fill:]
            if len(self._rest) < ALIGNMENT and self._seen + len(self._rest) < self._size:
                return
            self._check(memoryview(self._rest))
        ends = self._seen + len(piece) == self._size
        whole = len(piece) if ends else len(piece) - len(piece) % ALIGNMENT
        self._check(piece[:whole])
        self._rest = bytes(piece[whole:])

    def problem(self, digest: bytes) -> str:
        """Why the response, now whole, is refused; "" if it is not. What is no tensors is another's matter."""
        if self._hasher.digest() != digest:
            return "DIGEST: the bytes have another digest"
        return self._problem

    def _check(self, piece: memoryview) -> None:
        begin = self._seen
        self._seen = end = begin + len(piece)
        if self._places is None:
            self._read_header(piece)
        while self._places and self._places[0].start < end and not self._problem:
            place = self._places[0]
            part = piece[max(0, place.start - begin) : place.end - begin]
            self._problem = self._problem_of(place, np.frombuffer(part, place.dtype))
            if place.end > end:
                return
            self._places.popleft()

    def _problem_of(self, place: Place, numbers: np.ndarray) -> str:
        if not tensors.finite(numbers):
            return f"TENSOR_NOT_FINITE: {printable(place.name, 80)} holds NaN or infinity"
        limit = self._limits.get(place.name)
        if limit is None or numbers.size == 0 or (numbers.max().item() <= limit and numbers.min().item() >= -limit):
            return ""
        name = printable(place.name, 80)
        return f"VALUE: {name} holds a number beyond {limit:g}: the sum of all responses might not fit {place.dtype}"

    def _read_header(self, piece: memoryview) -> None:
        """Find the arrays, which begin behind the header: none is passed over before they are known."""
        self._head += piece
        if len(self._head) < tensors.header_end(self._head):
            return
        try:
            places = tensors.places(memoryview(self._head), self._size)
        except TensorError:
            places = []
        self._places = deque(place for place in places if place.dtype.kind == "f" or place.name in self._limits)
        self._head = bytearray()
