"""A lock on a folder that one program at a time works in."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from venn.wire.errors import UsageError
from venn.wire.files import file_error
from venn.wire.text import printable


@contextmanager
def locked_folder(folder: Path, lock: str, who: str) -> Iterator[Path]:
    """Lock a folder, made if it is absent, until the block is left or the process dies. ``lock``: name of the lock's
    file; ``who``: the kind of program, for people.

    Raises UsageError DIR_LOCKED, which names the process that has it, or FILE.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise file_error(error, folder) from error
    try:
        _lock(descriptor, folder, lock, who)
        yield folder
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, lock: str, who: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = printable(os.pread(descriptor, 200, 0).decode(errors="replace").strip(), 200) or "just started"
        raise UsageError(
            "DIR_LOCKED", f"another {who} works in this folder: {holder}", where=str(folder),
            fix="stop that one first, or give another --dir",
        ) from error  # fmt: skip
    except OSError as error:
        raise file_error(error, folder / lock) from error
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    with suppress(OSError):  # a full disk: the lock holds without a name on it
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}, since {since}\n".encode(), 0)
