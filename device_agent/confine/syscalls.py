"""System calls of Linux that Python has no function for, by ctypes: each raises OSError as those of ``os`` do."""

import ctypes
import os
import sys
from functools import cache

CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_RDONLY = 2, 4, 8, 1
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE = 1, 3, 4
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
_MOUNT_SETATTR, _LANDLOCK = 442, 444  # the same number on every processor
_AT_RECURSIVE, _ATTR_RDONLY, _ATTR_NOSUID = 0x8000, 1, 2
_CAPABILITIES_3 = 0x20080522


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _done(returned: int, what: str) -> int:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return returned


def prctl(option: int, value: int = 0) -> int:
    """Change or ask something of this process (prctl(2))."""
    return _done(_libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def unshare(flags: int) -> None:
    """Give this process namespaces of its own; of processes, its children."""
    _done(_libc().unshare(flags), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    names = [None if each is None else os.fsencode(each) for each in (source, target, kind, options)]
    _done(_libc().mount(names[0], names[1], names[2], ctypes.c_ulong(flags), names[3]), f"mount {target}")


def read_only(target: str) -> None:
    """Make a mount, and all below it, read-only and without set-user-ID. Linux 5.12 or newer."""
    attributes = _MountAttributes(set=_ATTR_RDONLY | _ATTR_NOSUID)
    arguments = (-100, os.fsencode(target), _AT_RECURSIVE, ctypes.byref(attributes), ctypes.sizeof(attributes))
    _done(_libc().syscall(_MOUNT_SETATTR, *arguments), f"mount_setattr {target}")


def pivot_root(new: str, old: str) -> None:
    _done(_libc().pivot_root(os.fsencode(new), os.fsencode(old)), "pivot_root")


def unmount(target: str) -> None:
    """Take a mount away, also one in use."""
    _done(_libc().umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def drop_capabilities() -> None:
    """Give up all capabilities of this thread (capset(2))."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    _done(_libc().capset(header, (ctypes.c_uint32 * 6)()), "capset")


def landlock_version() -> int:
    """The version of Landlock's interface, from 1. Raises OSError: this kernel has none, or it is switched off."""
    if sys.platform != "linux":
        raise OSError("it needs Linux")
    return _done(_libc().syscall(_LANDLOCK, None, ctypes.c_size_t(0), ctypes.c_uint32(1)), "landlock")


def landlock_ruleset(attributes: bytes) -> int:
    """A new ruleset; returns its descriptor."""
    arguments = (attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    return _done(_libc().syscall(_LANDLOCK, *arguments), "landlock_create_ruleset")


def landlock_add_path(ruleset: int, rule: bytes) -> None:
    arguments = (ruleset, ctypes.c_int(1), rule, ctypes.c_uint32(0))
    _done(_libc().syscall(_LANDLOCK + 1, *arguments), "landlock_add_rule")


def landlock_restrict_self(ruleset: int) -> None:
    """Hold this thread, and all that it starts from now on, to a ruleset."""
    _done(_libc().syscall(_LANDLOCK + 2, ruleset, ctypes.c_uint32(0)), "landlock_restrict_self")
