"""Files that are whole or absent, and line logs that are whole up to their last line."""

import errno
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from venn.wire.errors import PeerError, UsageError, VennError
from venn.wire.jsontext import parse_json

FULL = (errno.ENOSPC, errno.EDQUOT)


def file_error(error: OSError, path: object) -> VennError:
    """The error of a file: a full disk (or quota) is the machine's fault, what else cannot be used the caller's."""
    if error.errno in FULL:
        fix = "free some space there and start again"
        return PeerError("OUT_OF_SPACE", "no space is left on the disk", where=str(path), fix=fix)
    return UsageError("FILE", f"cannot be used: {error.strerror or error}", where=str(path), fix="choose another place")


def out_of_space(error: BaseException, path: object) -> VennError | None:
    """The full disk behind an error, if there is one: a library may have failed in turn as it closed its file."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, OSError) and cause.errno in FULL:
            return file_error(cause, cause.filename or path)
        cause = cause.__cause__ or cause.__context__
    return None


@contextmanager
def writing(path: object) -> Iterator[None]:
    """Turn a full disk, met inside, into OUT_OF_SPACE; other errors of the system pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise file_error(error, path) from error


def write_atomic(
    path: Path, data: bytes | bytearray | memoryview | str, *, fsync: bool = False, mode: int = 0o666
) -> None:
    """Write a file so that a reader, or a crash, sees the old content or the new, never a part.

    Without fsync it survives a SIGKILL, with fsync a power cut too. Raises PeerError OUT_OF_SPACE.
    """
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    with writing(path):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(descriptor, "wb", buffering=0) as file:
                write_all(file.write, raw)
                if fsync:
                    os.fsync(file.fileno())
            temporary.replace(path)
            if fsync:
                sync(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_all(write: Callable[[memoryview], int | None], data: bytes | bytearray | memoryview) -> None:
    """Write everything: a raw write may be short."""
    view = memoryview(data).cast("B")
    while view:
        view = view[write(view) or 0 :]


def sync(path: Path) -> None:
    """Make a file, or a rename in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class JsonLines:
    """A line log: appends one JSON value per line; each line is handed to the system at once, whole, or not at all.

    Raises PeerError OUT_OF_SPACE; then what was written of the line is taken back.
    """

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        self.path, self.fsync = path, fsync
        with writing(path):
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()

    def write(self, value: Any) -> None:
        """Append a line."""
        self.write_many((value,))

    def write_many(self, values: "Iterator[Any] | tuple[Any, ...] | list[Any]") -> None:
        """Append several lines with one system call."""
        text = "".join(json.dumps(value, separators=(",", ":")) + "\n" for value in values)
        before = os.fstat(self._file.fileno()).st_size
        with writing(self.path):
            try:
                write_all(self._file.write, text.encode())
                if self.fsync:
                    os.fsync(self._file.fileno())
            except OSError:
                with suppress(OSError):  # what is no regular file cannot take it back
                    self._file.truncate(before)
                raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_json_lines(path: Path) -> Iterator[Any]:
    """Read the values of a line log; a last line that a crash cut short is left out. Raises OSError, ValueError."""
    with open(path, "rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield parse_json(line)
