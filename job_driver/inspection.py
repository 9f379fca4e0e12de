"""A look at all bytes of a response while more of them come: their SHA-256, and whether its numbers are finite."""

import errno
import hashlib
from collections import deque
from pathlib import Path
from threading import Lock

import numpy as np

from venn.wire import tensors
from venn.wire.tensors import ALIGNMENT, Place, TensorError
from venn.wire.text import printable

PIECE_BYTES = 2**19  # what is looked at twice is in the processor's cache; a multiple of what arrays are aligned to


class Inspection:
    """Of one file, by any thread. It reads what was written, so nothing waits in memory for it."""

    def __init__(self, path: Path, size: int) -> None:
        """``size``: bytes that the file will have."""
        self._path, self._size = path, size
        self._lock = Lock()
        self._seen, self._hash = 0, hashlib.sha256()
        self._head = bytearray()  # what was seen, until the header is whole
        self._floats: deque[Place] | None = None  # arrays to come, of such numbers; None: not known yet
        self._strange = ""  # the first array that holds NaN or infinity

    def look(self, end: int) -> None:
        """At what lies before ``end``, which is there, as far as it was not seen. Raises OSError."""
        end -= end % ALIGNMENT if end < self._size else 0
        with self._lock, open(self._path, "rb", buffering=0) as file:
            file.seek(self._seen)
            scratch = memoryview(bytearray(max(0, min(PIECE_BYTES, end - self._seen))))
            while self._seen < end:
                piece = scratch[: end - self._seen]
                if file.readinto(piece) != len(piece):
                    raise OSError(errno.EIO, "what was written is gone")
                self._hash.update(piece)
                if not self._strange:
                    self._look_for_strange(piece)
                self._seen += len(piece)

    def problem(self, sha256: bytes) -> str:
        """Why the file, all of which was seen, is refused; "" if it is not. What is no tensors is another's matter."""
        if self._hash.digest() != sha256:
            return "DIGEST: the bytes have another SHA-256"
        return f"TENSOR_NOT_FINITE: {printable(self._strange, 80)} holds NaN or infinity" if self._strange else ""

    def _look_for_strange(self, piece: memoryview) -> None:
        begin, end = self._seen, self._seen + len(piece)
        if self._floats is None:
            self._read_header(piece)
        while self._floats and self._floats[0].start < end:
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
