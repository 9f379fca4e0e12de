"""The confinement of a worker by itself, before it has any job's code or a thread: there is no way back.

The order matters: the view of files needs privileges, which go with the change of user; Landlock comes last.
"""

import os
import resource
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from device_agent.confine import landlock, syscalls, view
from device_agent.confine.inforce import InForce
from device_agent.confine.orders import Means, Orders

LINUX = sys.platform == "linux"
# Address space beside data: programs, mapped files, and what libraries reserve and do not use.
RESERVED_BYTES = 8 * 2**30
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/System", "/Library")
OF_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "passwd", "group", "nsswitch.conf")
OF_PROC = ("self", "cpuinfo", "meminfo", "stat", "filesystems", "sys/vm/overcommit_memory")
PACKAGES = ("site-packages", "dist-packages")
OURS = ("device_agent", "job_driver", "venn")


def confine(orders: Orders, folder: str, why_no_namespaces: str) -> InForce:
    """Confine this process. Raises OSError where a step fails that has no way back."""
    held = InForce(namespaces=not why_no_namespaces)
    if why_no_namespaces:
        held.why_not[Means.NAMESPACES] = why_no_namespaces
    readable = [*_readable(), *orders.reads]
    if orders.means:
        _be_killed_first()
    if held.namespaces:
        try:
            has_proc = view.enter(readable, orders.disk_bytes)
        except OSError as error:
            held.why_not["files"] = f"no view of its own: {error}"
        else:
            held.files, folder = True, view.TEMPORARY
            if not has_proc:
                held.why_not["proc"] = "a /proc of its own is not allowed here: it has none"
    _use(folder)
    _change_user(orders, folder, held)
    if orders.uses(Means.RLIMITS):
        held.limits = _limit(_limits(orders, counted=held.namespaces or held.user is not None))
    else:
        held.why_not[Means.RLIMITS] = "not wanted"
    if orders.device_bytes is not None:
        held.limits |= _limit({"RLIMIT_DATA": orders.device_bytes})
    if LINUX and orders.means:
        syscalls.drop_capabilities()
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    _restrict(orders, folder, readable, held)
    if LINUX and not held.files and held.user is None:  # Landlock knows no sockets that are files
        held.why_not["sockets"] = "those of other programs of this user can be reached"
    held.readable = [path for path in (*orders.secrets, f"/proc/{orders.agent}/environ") if _can_read(path)]
    return held


def _readable() -> Iterator[str]:
    """Yield the files and folders that Python, its packages and our own code consist of."""
    yield from SYSTEM
    yield from (f"/etc/{name}" for name in OF_ETC)
    yield from {sys.prefix, sys.base_prefix, sys.exec_prefix}
    yield from (entry for entry in sys.path if os.path.basename(entry) in PACKAGES)
    for name in OURS:
        __import__(name)
        yield from sys.modules[name].__path__
    yield from _folders_of_libraries()


def _folders_of_libraries() -> set[str]:
    """The folders of the libraries that this process has loaded, wherever they are."""
    with suppress(OSError):
        names = (line.split(maxsplit=5)[5:] for line in Path("/proc/self/maps").read_text().splitlines())
        return {os.path.dirname(name[0]) for name in names if name and name[0].startswith("/") and ".so" in name[0]}
    return set()


def _be_killed_first() -> None:
    """Let the kernel, where memory ends, take this process before others."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _use(folder: str) -> None:
    os.chdir(folder)
    os.environ["TMPDIR"] = os.environ["HOME"] = tempfile.tempdir = folder


def _limits(orders: Orders, *, counted: bool) -> dict[str, int]:
    """The limits of the orders. ``counted``: processes of this worker are counted alone."""
    limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": orders.disk_bytes, "RLIMIT_NOFILE": orders.files}
    if LINUX:  # elsewhere the kernel does not hold programs to these
        limits |= {"RLIMIT_DATA": orders.memory_bytes, "RLIMIT_AS": orders.memory_bytes + RESERVED_BYTES}
        limits |= {"RLIMIT_MSGQUEUE": 0, "RLIMIT_MEMLOCK": 2**16}
        limits |= {"RLIMIT_NPROC": orders.processes} if counted else {}
    return limits


def _limit(limits: dict[str, int]) -> dict[str, int]:
    """Set limits, where there is no lower one; returns those in force."""
    in_force = {}
    for name, value in limits.items():
        which = getattr(resource, name, None)
        if which is None:  # of Linux, and not of every Python
            continue
        _, most = resource.getrlimit(which)
        least = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(which, (least, least))
        in_force[name] = resource.getrlimit(which)[1]
    return in_force


def _change_user(orders: Orders, folder: str, held: InForce) -> None:
    """Become the user of the orders, unless that one could not run Python, or read the job's data. Raises OSError."""
    if orders.user is None:
        held.why_not[Means.USER] = orders.why_no_user
        return
    user = orders.user
    os.chown(folder, user, user)
    os.setgroups([])
    os.setegid(user)
    if closed := _closed_to(user, [*_readable(), *orders.reads]):
        os.setegid(0)
        held.why_not[Means.USER] = f"another user cannot read {closed}, which its job needs"
        return
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    held.user = user


def _closed_to(user: int, paths: Iterable[str]) -> str:
    """The first of these places that the user cannot read; "" if there is none."""
    there = [path for path in paths if os.path.exists(path)]
    os.seteuid(user)
    try:
        return next((path for path in there if not os.access(path, os.R_OK, effective_ids=True)), "")
    finally:
        os.seteuid(0)


def _restrict(orders: Orders, folder: str, readable: list[str], held: InForce) -> None:
    if not orders.uses(Means.LANDLOCK):
        held.why_not[Means.LANDLOCK] = "not wanted"
        return
    of_proc = ["/proc"] if held.files else [f"/proc/{name}" for name in OF_PROC]
    try:
        held.landlock = landlock.restrict([*readable, *of_proc], [folder, *view.DEVICES])
    except OSError as error:
        held.why_not[Means.LANDLOCK] = f"this kernel has none: {error}" if LINUX else str(error)


def _can_read(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
