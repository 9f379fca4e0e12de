"""Landlock: the files that a process and its children may read and write, and what else they may reach; by the kernel.

It needs no privilege (Linux 5.13). Newer versions of its interface also hold back TCP (4), and signals and abstract
sockets to processes outside (6).
"""

import os
import stat
import struct
from collections.abc import Iterable

from device_agent.confine import syscalls

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # by version: how many rights to files the kernel knows
TCP = 0b11  # to bind and to connect
SCOPES = 0b11  # abstract sockets and signals
READ = EXECUTE | READ_FILE | READ_DIR
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV


def restrict(readable: Iterable[str], writable: Iterable[str]) -> int:
    """Hold this thread to these files and folders, with all below them. What is not there is left out.

    Needs no_new_privs. ``writable``: also readable. Returns the version of the interface. Raises OSError.
    """
    version = syscalls.landlock_version()
    all_rights = (1 << RIGHTS[min(version, 5)]) - 1
    attributes = struct.pack("=QQQ", all_rights, TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    ruleset = syscalls.landlock_ruleset(attributes[: 8 if version < 4 else 16 if version < 6 else 24])
    try:
        for rights, paths in ((READ, readable), (all_rights, writable)):
            for path in paths:
                _allow(ruleset, path, rights & all_rights)
        syscalls.landlock_restrict_self(ruleset)
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):  # so it cannot be used anyway
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_A_FILE
        syscalls.landlock_add_path(ruleset, struct.pack("=Qi", rights, place))
    finally:
        os.close(place)
