"""The limits of the devices of this process, from a file that the testbed wrote; and a processor limit without cgroups.

Only the worker is slowed down, never the session beside it: a device that computes slowly still answers. The link is
another matter: all channels of a device go through its one proxy.
"""

import json
import os
import select
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from venn.wire.errors import UsageError
from venn.wire.jsontext import made, parse_json
from venn.wire.text import printable

CONTAINER = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"))  # its own group as it sees it, version 2 or 1
UNLIMITED = {"cpu.max": "max", "cpu.cfs_quota_us": "-1"}  # what the file of version 2, or 1, begins with
ANY = "*"  # every device of the process
PERIOD_S = 0.02  # of a duty cycle
LEAST_WAIT_S = 0.0005
IDLE_S = 0.005  # between two looks at workers that use less than they may

# Enters each cgroup named before --, then becomes what stands after it.
_ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1"/cgroup.procs || exit 96; shift; done; shift; exec "$@"'


@dataclass(frozen=True, slots=True)
class Throttle:
    """The limits of the devices of a process."""

    start_in: tuple[Path, ...] = ()  # cgroups that a worker is born in: its memory counts from the first byte
    work_in: tuple[Path, ...] = ()  # cgroups that it enters when it is warm
    duty_cores: float | None = None  # in place of a cgroup: it is stopped and continued to so many cores
    memory_bytes: int | None = None  # in place of a cgroup: RLIMIT_DATA, which a worker sets for itself when warm
    proxies: Mapping[str, str] = field(default_factory=dict)  # device, or ANY, -> host:port

    def launch(self, command: Sequence[str]) -> list[str]:
        """The command line that starts a worker where it belongs."""
        if not self.start_in:
            return list(command)
        return ["/bin/sh", "-c", _ENTER, "sh", *map(str, self.start_in), "--", *command]

    def held_back(self) -> int | None:
        """The number of periods in which the workers used up their processor time, as the kernel counts.

        Where they have no group of their own it is that of the container; None where there is none, or it has no limit.
        """
        for cgroup in self.work_in or CONTAINER:
            if _unlimited(cgroup):
                continue
            with suppress(OSError):  # it is gone, or has another controller
                for line in (cgroup / "cpu.stat").read_text().splitlines():
                    if line.startswith("nr_throttled "):
                        return int(line.split()[1])
        return None

    def slow_down(self, pid: int) -> None:
        """Let a worker that is warm enter its cgroups. Raises OSError: it is not slowed down."""
        for cgroup in self.work_in:
            (cgroup / "cgroup.procs").write_text(f"{pid}\n")

    def proxy(self, device: str) -> str | None:
        """The proxy that all channels of a device go through, as host:port; None: there is none."""
        return self.proxies.get(device, self.proxies.get(ANY))


def _unlimited(cgroup: Path) -> bool:
    """Whether a cgroup says that its processor time has no limit."""
    for name, says in UNLIMITED.items():
        with suppress(OSError):
            return (cgroup / name).read_text().split()[:1] == [says]
    return False


NOTHING = Throttle()


def read_throttle(path: Path | None) -> Throttle:
    """Read a file of ``write_throttle``; no file: nothing is slowed down. Raises UsageError THROTTLE."""
    if path is None:
        return NOTHING
    try:
        return made(Throttle, parse_json(path.read_bytes()), whole=True)
    except (OSError, ValueError) as error:
        message = f"cannot be read: {printable(str(error), 80)}"
        raise UsageError("THROTTLE", message, where=str(path), fix="use the file as `venn run` wrote it") from error


def write_throttle(path: Path, throttle: Throttle) -> None:
    """Write a file that ``read_throttle`` reads. Raises OSError."""
    path.write_text(json.dumps(asdict(throttle), default=os.fspath) + "\n", encoding="utf-8")


class Account:
    """Processor time that may be used. Times never decrease.

    It gains ``cores`` seconds per second, and the processor time that the kernel has counted is taken from it. So the
    mean is right even where a thread wakes late.
    """

    def __init__(self, cores: float, now: float) -> None:
        self._cores, self._now = cores, now
        self._credit = self._share = cores * PERIOD_S

    def book(self, now: float, used_s: float) -> None:
        """Note what was used since the last call. Time that was not used is kept for a period at most."""
        self._credit = min(2 * self._share, self._credit + self._cores * (now - self._now) - used_s)
        self._now = now

    @property
    def empty(self) -> bool:
        return self._credit <= 0

    @property
    def full(self) -> bool:
        """Whether a period's share is there: they may run again."""
        return self._credit >= self._share

    def wait_s(self, running: bool) -> float:
        """Seconds until it may be empty (they run), or is full (they are stopped)."""
        if running:
            return max(LEAST_WAIT_S, self._credit)
        return max(LEAST_WAIT_S, (self._share - self._credit) / self._cores)


class DutyCycle:
    """A processor limit without cgroups: stops and continues the processes that were added, all on one account.

    ``cores`` is above 0.
    """

    def __init__(self, cores: float) -> None:
        self._account = Account(cores, time.monotonic())
        self._used: dict[int, float] = {}  # by process, the processor time at the last look
        self._descriptors: dict[int, int] = {}  # by process
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._running = True
        self.stops = 0  # so far
        self._thread = threading.Thread(target=self._turn, name="duty-cycle", daemon=True)
        self._thread.start()

    def add(self, pid: int) -> None:
        """Add a process, unless it has ended."""
        with self._lock, suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)  # its number may be another's once it has ended
            used = processor_time(pid)
            if used is None or _has_ended(descriptor):
                os.close(descriptor)
            else:
                self._used[pid], self._descriptors[pid] = used, descriptor

    def close(self) -> None:
        """End the limit: all processes that are left run on."""
        self._over.set()
        self._thread.join()
        with self._lock:
            self._signal(signal.SIGCONT)
            for pid in list(self._used):
                self._forget(pid)

    def _turn(self) -> None:
        wait_s = 0.0
        while not self._over.wait(wait_s):
            with self._lock:
                wait_s = self._look()

    def _look(self) -> float:
        """Book the time used, stop or continue the processes, and return the seconds until the next look."""
        used_s = 0.0
        for pid, before in list(self._used.items()):
            now_used = processor_time(pid)
            if now_used is None or _has_ended(self._descriptors[pid]):
                self._forget(pid)
            else:
                used_s += now_used - before
                self._used[pid] = now_used
        self._account.book(time.monotonic(), used_s)
        if self._running and self._account.empty:
            self._running = False
            self.stops += 1
            self._signal(signal.SIGSTOP)
        elif not self._running and self._account.full:
            self._running = True
            self._signal(signal.SIGCONT)
        wait_s = self._account.wait_s(self._running)
        return wait_s if self._used and (used_s or not self._running) else IDLE_S

    def _forget(self, pid: int) -> None:
        del self._used[pid]
        os.close(self._descriptors.pop(pid))

    def _signal(self, number: int) -> None:
        for descriptor in self._descriptors.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)


def _has_ended(descriptor: int) -> bool:
    looked = select.poll()
    looked.register(descriptor, select.POLLIN)
    return bool(looked.poll(0))


def processor_time(pid: int) -> float | None:
    """Seconds that a process has used, to the nanosecond; None if there is none."""
    clock = (~pid << 3) | 2  # how Linux numbers the processor-time clock of another process (clock_getcpuclockid)
    try:
        return time.clock_gettime(clock)
    except OSError:
        return None
