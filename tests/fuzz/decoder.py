"""What a decoder is here, and what holds for each: whatever bytes come, a value or its own error, within bounds."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.bounds import at_most
from tests.fuzz.mutants import damaged
from venn.wire.errors import ExitCode, VennError

CALLS, CALLS_PER_BYTE = 400_000, 500  # that one input may take
MEMORY, MEMORY_PER_BYTE = 24 * 2**20, 1_000  # bytes
LONGEST_INPUT = 1 << 16  # bytes
LONGEST_ERROR = 4_000  # characters

Errors = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Decoder:
    """A function that takes bytes from outside."""

    name: str
    valid: Callable[[], Sequence[bytes]]  # some encodings that it takes
    decode: Callable[[bytes], Any]  # also uses the value as its caller does
    errors: Errors  # that it may raise, none else
    again: Callable[[Any], bytes] | None = None  # encodes a value anew; it is read as an equal one
    words: Sequence[bytes] = ()  # of its format, for damaged inputs
    states_sizes: bool = False  # an input says how large its parts are: memory is watched in short runs, too
    forms: Callable[[], st.SearchStrategy[bytes]] | None = None  # whole encodings of nasty values

    @cached_property
    def seeds(self) -> Sequence[bytes]:
        """The valid encodings, made once."""
        return self.valid()

    def inputs(self) -> st.SearchStrategy[bytes]:
        """Any bytes, damaged valid encodings, and nasty forms."""
        other = [self.forms()] if self.forms is not None else []
        return st.one_of(st.binary(max_size=64), damaged(self.seeds, self.words), *other)

    def check(self, data: bytes, *, watch_memory: bool = True) -> bool:
        """Check what holds for these bytes. Returns whether they are valid; raises AssertionError, or what the decoder
        should not raise.
        """
        memory = MEMORY + MEMORY_PER_BYTE * len(data) if watch_memory or self.states_sizes else None
        with at_most(CALLS + CALLS_PER_BYTE * len(data), memory):
            try:
                value = self.decode(data)
            except self.errors as error:
                problem = _problem_of(error)
                assert not problem, problem
                return False
        if self.again is not None:
            encoded = self.again(value)
            assert self.decode(encoded) == value, f"{value!r} becomes {encoded!r}"
        return True


def _problem_of(error: Exception) -> str:
    """What is wrong with an error that is told to people; "" if nothing is."""
    if isinstance(error, VennError) and error.exit_code == ExitCode.BUG:
        return f"a bug, and not an error of what was read: {error}"
    return "an error that nobody reads to its end" if len(str(error)) > LONGEST_ERROR else ""


_SCRATCH = Path(tempfile.mkdtemp(prefix="venn-fuzz-"))
atexit.register(shutil.rmtree, _SCRATCH, ignore_errors=True)


def scratch(name: str) -> Path:
    """An empty folder of that name."""
    folder = _SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def in_file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    """A decoder of a file."""

    def decode(data: bytes) -> Any:
        path = _SCRATCH / name
        path.write_bytes(data)
        return read(path)

    return decode


def text_of(data: bytes) -> str:
    """A text as an argument of a command has it: what is no UTF-8 is half a character."""
    return data.decode(errors="surrogateescape")
