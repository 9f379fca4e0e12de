"""A view of the files of this machine for one worker, in a mount namespace of its own.

It holds the system's and Python's folders and the job's data, read-only, and a temporary folder in memory with a limit.
All else is not there: no home, no token, no other job's file, and of /proc only the worker's own processes.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from device_agent.confine import syscalls

TEMPORARY = "/job"  # not /tmp, where data and Python may be
MOST_ENTRIES = 1 << 14  # of the temporary folder: each takes memory
DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
LINKS = {"/tmp": TEMPORARY, "/dev/shm": TEMPORARY, "/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0"}
LINKS |= {"/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2"}
BUILT_AT = "/proc"  # a folder that is there everywhere
OLD = "/.old"


def enter(readable: Iterable[str], disk_bytes: int) -> bool:
    """Make the view and go into it. Returns whether it has a /proc. Raises OSError.

    This process has no other threads, and CAP_SYS_ADMIN. Linux 5.12.
    """
    syscalls.unshare(syscalls.CLONE_NEWNS)
    places = list(_places([*readable, *DEVICES]))
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("venn", BUILT_AT, "tmpfs", syscalls.MS_NOSUID, "size=4m,mode=0755")
    os.mkdir(BUILT_AT + OLD)
    syscalls.pivot_root(BUILT_AT, BUILT_AT + OLD)
    os.chdir("/")
    for path, link in places:
        _show(path, link)
    for path, link in LINKS.items():
        if not os.path.lexists(path):
            _show(path, link)
    for folder in (TEMPORARY, "/proc"):
        os.makedirs(folder, exist_ok=True)
    has_proc = _mount_proc()
    syscalls.unmount(OLD)
    os.rmdir(OLD)
    syscalls.read_only("/")
    options = f"size={disk_bytes},nr_inodes={MOST_ENTRIES},mode=0700"
    syscalls.mount("venn", TEMPORARY, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, options)
    os.chdir(TEMPORARY)
    return has_proc


def _places(paths: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Yield what the view holds, folders before what is in them: links with what they name, and files and folders that
    are in none of the others.
    """
    found: dict[str, str | None] = {}
    for path in paths:
        found |= _on_the_way(os.path.abspath(path))
    above = "\0"
    for path in sorted(found, key=lambda each: each.split("/")):
        if not path.startswith(above + "/"):
            yield path, found[path]
            above = path if found[path] is None else above


def _on_the_way(path: str, most: int = 40) -> dict[str, str | None]:
    """The links on the way to a path, and the file or folder itself; nothing if it is not there."""
    seen, parts = "/", path.split("/")[1:]
    for number, part in enumerate(parts, start=1):
        seen = os.path.join(seen, part)
        if os.path.islink(seen) and most:
            link = os.readlink(seen)
            target = os.path.normpath(os.path.join(os.path.dirname(seen), link, *parts[number:]))
            return {seen: link, **_on_the_way(target, most - 1)}
    return {seen: None} if os.path.exists(seen) and seen != "/" else {}


def _show(path: str, link: str | None) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    if link is not None:
        os.symlink(link, path)
        return
    if os.path.isdir(OLD + path):
        os.makedirs(path, mode=0o755, exist_ok=True)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    syscalls.mount(OLD + path, path, None, syscalls.MS_BIND | syscalls.MS_REC)


def _mount_proc() -> bool:
    """Mount the /proc of this process's own namespace. Containers whose own is masked do not allow it."""
    with suppress(OSError):
        syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
        return True
    return False
