"""A driver's folder, which belongs to one driver at a time."""

import contextlib
import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from venn.wire.errors import UsageError
from venn.wire.files import file_error
from venn.wire.text import printable

LOCK = "driver.lock"


@contextlib.contextmanager
def job_folder(path: Path | None) -> Iterator[Path]:
    """The folder, locked until the block is left or the process dies; None: a temporary one, which goes then.

    Raises UsageError DIR_LOCKED, which names the driver that has it, or FILE.
    """
    if path is None:
        with tempfile.TemporaryDirectory(prefix="venn-job-") as temporary:
            yield Path(temporary)
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise file_error(error, path) from error
    try:
        _lock(descriptor, path)
        yield path
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = printable(os.pread(descriptor, 200, 0).decode(errors="replace").strip(), 200) or "just started"
        raise UsageError(
            "DIR_LOCKED", f"another driver works in this folder: {holder}", where=str(folder),
            fix="stop that one first, or give another --dir",
        ) from error  # fmt: skip
    except OSError as error:
        raise file_error(error, folder / LOCK) from error
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    with contextlib.suppress(OSError):  # a full disk: the lock holds without a name on it
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}, since {since}\n".encode(), 0)
