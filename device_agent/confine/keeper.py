"""The process that keeps a worker: ``python -m device_agent.confine.keeper ORDERS``. It never runs job code.

It makes the namespaces, starts the worker in them, and ends all that the worker has started: when the worker ends, when
the agent says so (SIGTERM), and when the agent dies (the kernel says so). Where processes have no namespace, it is the
one to whom the kernel gives orphans, so it finds those that have left the worker's group.

Three processes: the keeper; the *holder*, which does nothing, leads the worker's group, and is the first process of the
namespace, with which the kernel ends all others in it; and the worker.
"""

import os
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from device_agent import pipes
from device_agent.confine import syscalls
from device_agent.confine.orders import Means, Orders

LINUX = sys.platform == "linux"
OWN = syscalls.CLONE_NEWPID | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWNET  # the worker adds one of mounts
STOPS = {signal.SIGTERM}


class Keeper:
    """Starts a worker, waits for its end, and leaves nothing behind."""

    def __init__(self, orders: Orders) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until there is somebody to end, and how
        self._orders = orders
        self._why_not = _enter_namespaces(orders)  # "": it has namespaces
        self._folder = tempfile.mkdtemp(prefix="venn-job-")
        self._holder = self._worker = 0

    def run(self) -> NoReturn:
        if LINUX:
            syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGTERM)
            syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        lives, alive = os.pipe()  # the holder ends when nobody has its other end
        self._holder = os.fork()
        if self._holder == 0:
            _hold(lives)
        os.setpgid(self._holder, self._holder)
        os.close(lives)
        go, going = os.pipe()
        self._worker = os.fork()
        if self._worker == 0:
            os.close(alive)
            os.close(going)
            os.read(go, 1)
            os.close(go)
            self._become_worker()
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(self._worker, self._holder)
        os.write(1, pipes.pack({"say": "kept", "worker": self._worker}))
        _let_go()
        os.close(going)
        signal.signal(signal.SIGTERM, lambda number, frame: self._end())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        _, status = os.waitpid(self._worker, 0)
        self._worker = 0
        self._end(status)

    def _become_worker(self) -> NoReturn:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        from device_agent import worker

        worker.main(self._orders, self._folder, self._why_not)

    def _end(self, status: int = signal.SIGKILL) -> NoReturn:
        """End all that is left, and then as the worker has ended."""
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group of the dead
            os.killpg(self._holder, signal.SIGKILL)
        _end_children()
        shutil.rmtree(self._folder, ignore_errors=True)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            _die_by(-code)
        os._exit(code)


def _die_by(number: int) -> None:
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def _enter_namespaces(orders: Orders) -> str:
    """Give the next children of this process namespaces of their own; returns why not, "" if they have."""
    if not orders.uses(Means.NAMESPACES):
        return "not wanted"
    if not LINUX:
        return "they need Linux"
    user, group = os.geteuid(), os.getegid()
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    try:
        syscalls.unshare(OWN | (syscalls.CLONE_NEWUSER if user else 0))
        for name, text in maps.items() if user else ():
            Path("/proc/self", name).write_text(text)
    except OSError as error:
        return f"this {'user' if user else 'root'} may make none: {error}"
    return ""


def _hold(lives: int) -> NoReturn:
    """Do nothing until the keeper ends. Children whose parents have ended are ours here: the kernel takes them away."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    if LINUX:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    _let_go()
    os.closerange(3, lives)
    os.closerange(lives + 1, 256)
    os.read(lives, 1)
    os._exit(0)


def _let_go() -> None:
    """Let go of the agent's pipes: they end with the worker."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)


def _end_children() -> None:
    """End all children of this process, and those that become its children when they have ended.

    The first process of a namespace ends when all others have been waited for, also the worker.
    """
    while True:
        for pid in _children() if LINUX else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def _children() -> list[int]:
    """The children of this process that have not ended, by /proc: not every kernel has its list of children."""
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            fields = Path("/proc", str(int(name)), "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.append(int(name))
    return found


if __name__ == "__main__":
    Keeper(Orders.from_argument(sys.argv[1])).run()
