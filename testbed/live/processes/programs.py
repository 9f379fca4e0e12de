"""The programs of a run as child processes, and what testbeds have left on this machine.

All that a testbed makes names it by a mark: processes in their environment, groups and namespaces in their names (a
cable goes with its namespace). So it is found after the testbed was killed, and nothing else is touched.
"""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from testbed.live.backend import commands
from testbed.live.backend.protocol import STOP_GRACE_S, TAIL_LINES, failure_of, json_object, to_its_end
from testbed.live.throttle import cgroup, tc
from testbed.live.throttle.tc import RefusedError, run
from testbed.scenario.backends import Leftover
from venn.wire import RUN_MARK
from venn.wire.errors import VennError
from venn.wire.process import MARK, PREFIX, own_mark

VENN = (sys.executable, "-m", "testbed.cli.main")
ANSWER_WITHIN_S = 5.0

_groups: set[int] = set()  # process groups that may have members


def kill_all() -> None:
    """Kill whatever was started and not stopped, with all that it started, at once."""
    for group in _groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


class Program:
    """One ``venn`` command as a child process. Standard output and error go to ``log``, unless it announces itself."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        log: Path,
        announces: bool = False,
        listens: bool = False,
        within: Sequence[str] = (),
    ) -> None:
        """``listens``: its standard input is a pipe of ours, which ends with us. ``within``: a command that enters
        where it shall run, e.g. a network namespace, and becomes it.
        """
        self.name = name
        self.log = log
        self.arguments: Sequence[str] = tuple(arguments)
        self._announces = announces
        self._within = tuple(within)
        self._listens = listens
        self._process: asyncio.subprocess.Process | None = None
        self._asking = asyncio.Lock()
        self._said = b""  # on standard output, after its announcement

    async def start(self) -> None:
        """Start it; it is in a process group of its own, so that Ctrl-C reaches it through us alone."""
        await to_its_end(self._start())

    async def _start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(*self._within, *VENN, *self.arguments),
                stdin=asyncio.subprocess.PIPE if self._listens else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if self._announces else log,
                stderr=log,
                start_new_session=True,
                env=_environment(),
            )
        _groups.add(self.pid)

    def resume(self) -> None:
        """Let it continue its job from its next start on."""
        self.arguments = commands.resumed(self.arguments)

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def announced(self, within_s: float) -> dict[str, object]:
        """Return the one JSON line that it prints when it is ready.

        Raises PeerError if it ends first or says nothing within ``within_s``, with its own last words.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(within_s):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise self.failure(f"was not ready after {within_s:g} s") from None
        said = json_object(line)
        if said is None or "error" in said:
            await self.wait()
            raise self.failure(said=said)
        return said

    async def ask(self, order: Mapping[str, object]) -> dict[str, object]:
        """Write a line to its standard input, and return its answer; {} if it has ended. Raises VennError."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S), self._asking:
                with suppress(ConnectionError):
                    self._process.stdin.write(json.dumps(order).encode() + b"\n")
                    await self._process.stdin.drain()
                return json_object(await self._process.stdout.readline()) or {}
        except TimeoutError:
            raise self.failure(f"did not answer within {ANSWER_WITHIN_S:g} s") from None

    async def wait(self) -> int:
        """Wait for its end and return its exit code, or minus the number of the signal. For one task at a time."""
        assert self._process is not None
        code = await self._process.wait()
        if self._process.stdout is not None:
            self._said += await self._process.stdout.read()
        return code

    async def stop(self, grace_s: float | None = None) -> int | None:
        """Send SIGTERM, and SIGKILL to its whole group after ``grace_s`` seconds (5). Nothing of it is left
        afterwards."""
        if self._process is None:
            return None
        if self.running:
            self._send(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_GRACE_S if grace_s is None else grace_s):
                    await self._process.wait()
        self._kill_group()
        return await self._process.wait()

    def failure(self, what: str = "", *, said: dict[str, object] | None = None) -> VennError:
        """The error to tell the user when it failed: its own if it printed one, else ``what`` and its last word."""
        code = self._process.returncode if self._process else None
        spoken = self._said.decode(errors="replace").splitlines()
        said = said or next(filter(None, (json_object(line) for line in reversed(spoken))), None)
        return failure_of(self.name, code, self.last_words(), what, self.log, said=said)

    def last_words(self) -> list[str]:
        """The last lines of its log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return []
        return [line for line in text.splitlines() if line.strip()][-TAIL_LINES:]

    def _send(self, number: int) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            if self.running:  # not by asyncio's send_signal(), which may take the exit code from its own watcher (3.11)
                os.kill(self.pid, number)

    async def kill(self) -> None:
        self._signal_all(signal.SIGKILL)

    async def pause(self) -> None:
        self._signal_all(signal.SIGSTOP)

    async def unpause(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: int) -> None:
        """Send a signal to it and to all that it has started."""
        with suppress(ProcessLookupError):
            if self.running:
                os.killpg(self.pid, number)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        _groups.discard(self.pid)


def _environment() -> dict[str, str]:
    """Our environment with our mark, and without VENN_ settings: a flag of ``venn run`` is not one of its parts'."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VENN_")}
    return {**kept, RUN_MARK: own_mark()}


GONE_WITHIN_S = 5.0
_NAMED = re.compile(rf"{PREFIX}({MARK.pattern})(-[\w-]+)?")


def find_leftovers() -> Iterator[Leftover]:
    """Find what testbeds left, as far as this user can see it, in the order in which it can be removed."""
    yield from _left_processes()
    yield from _left_namespaces()
    yield from _left_groups()


def _left_processes(proc: Path = Path("/proc")) -> Iterator[Leftover]:
    for place in sorted(proc.iterdir()):
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        try:
            words = (place / "environ").read_bytes().split(b"\0")
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # it is gone, or somebody else's
        begin = f"{RUN_MARK}=".encode()
        marks = [word[len(begin) :].decode(errors="replace") for word in words if word.startswith(begin)]
        if marks and MARK.fullmatch(marks[0]) and command:
            pid = int(place.name)
            yield Leftover("process", f"{pid} {command[:80]}", marks[0], partial(_end, pid))


def _end(pid: int) -> None:
    """Kill a process and wait until it is gone. Raises TimeoutError (an OSError): it does not go."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    last = time.monotonic() + GONE_WITHIN_S
    while _lives(pid):
        if time.monotonic() > last:
            raise TimeoutError(f"process {pid} does not end")
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    """Whether a process lives; a zombie, which only waits for its parent, does not."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _left_namespaces(place: Path = Path("/var/run/netns")) -> Iterator[Leftover]:
    for name in sorted(os.listdir(place)) if place.is_dir() else ():
        if found := _NAMED.fullmatch(name):
            yield Leftover("namespace", name, found.group(1), partial(_forget, name))


def _forget(name: str) -> None:
    with suppress(RefusedError):  # one that was cut short while it was made is no namespace, and its file stays
        tc.remove_namespace(name)
    if (path := Path("/var/run/netns") / name).exists():
        run("umount", "--lazy", str(path))
        path.unlink(missing_ok=True)


def _left_groups() -> Iterator[Leftover]:
    for tree in cgroup.mounted():
        for parent, names, _ in os.walk(tree):  # a testbed's groups lie below its own one, which need not be ours
            for name in sorted(names):
                if found := _NAMED.fullmatch(name):
                    path = Path(parent) / name
                    yield Leftover("cgroup", str(path), found.group(1), partial(cgroup.remove, path))
            names[:] = [name for name in names if not _NAMED.fullmatch(name)]
