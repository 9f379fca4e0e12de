"""The programs of a run as child processes.

A program of ours as a child process: started in its own group, logged to a file, stopped for certain.

What to tell the user when a part of a run failed: its own error if it printed one, else how it ended.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from testbed.live import commands
from venn.wire import RUN_MARK
from venn.wire.errors import CannotEnforceError, ExitCode, PeerError, UsageError, VennError
from venn.wire.process import own_mark

VENN = (sys.executable, "-m", "testbed.cli.main")
STOP_GRACE_S = 5.0  # from SIGTERM to SIGKILL
TAIL_LINES = 6
ANSWER_WITHIN_S = 5.0

_groups: set[int] = set()  # process groups that may have members


def kill_all() -> None:
    """Whatever was started and not stopped, with all that it started, at once."""
    for group in _groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


class Program:
    """One ``venn`` command that runs beside us. Standard output and error go to ``log``, unless it announces itself."""

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
        starting = asyncio.ensure_future(self._start())
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await starting  # else nobody would know it, to stop it
            raise

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
        """From its next start on it takes up what it left."""
        self.arguments = commands.resumed(self.arguments)

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def announced(self, within_s: float) -> dict[str, object]:
        """The one JSON line that it prints when it is ready.

        Raises PeerError if it ends first or says nothing within ``within_s``, with its own last words.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(within_s):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise self.failure(f"was not ready after {within_s:g} s") from None
        said = told(line)
        if said is None or "error" in said:
            await self.wait()
            raise self.failure(said=said)
        return said

    async def ask(self, order: Mapping[str, object]) -> dict[str, object]:
        """A line to its standard input, and the one that it answers; {} from one that has ended. Raises VennError."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S), self._asking:
                with suppress(ConnectionError):
                    self._process.stdin.write(json.dumps(order).encode() + b"\n")
                    await self._process.stdin.drain()
                return told(await self._process.stdout.readline()) or {}
        except TimeoutError:
            raise self.failure(f"did not answer within {ANSWER_WITHIN_S:g} s") from None

    async def wait(self) -> int:
        """Its exit code; minus the signal's number if a signal ended it. Awaited by one task at a time."""
        assert self._process is not None
        code = await self._process.wait()
        if self._process.stdout is not None:
            self._said += await self._process.stdout.read()
        return code

    async def stop(self, grace_s: float | None = None) -> int | None:
        """SIGTERM, and SIGKILL to its whole group after ``grace_s`` seconds (5). Nothing of it is left afterwards."""
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
        """What to tell the user when it failed: its own error if it printed one, else ``what`` and its last word."""
        code = self._process.returncode if self._process else None
        spoken = self._said.decode(errors="replace").splitlines()
        said = said or next(filter(None, (told(line) for line in reversed(spoken))), None)
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

    async def stand_still(self) -> None:
        self._signal_all(signal.SIGSTOP)

    async def go_on(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: int) -> None:
        """To it and to all that it has started."""
        with suppress(ProcessLookupError):
            if self.running:
                os.killpg(self.pid, number)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        _groups.discard(self.pid)


def _environment() -> dict[str, str]:
    """Ours without our own settings: a flag that a user set for ``venn run`` is not one of its parts'. Marked."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VENN_")}
    return {**kept, RUN_MARK: own_mark()}


FAILURES = frozenset(ExitCode) - {ExitCode.OK, ExitCode.INTERRUPTED, ExitCode.TERMINATED}


def failure_of(
    name: str, code: int | None, lines: Sequence[str], what: str, log: Path, *, said: dict[str, object] | None = None
) -> VennError:
    """``code``: its exit code, minus a signal's number, None while it runs. ``lines``: the last that it wrote.
    ``said``: what it announced.
    """
    said = said or next(filter(None, (told(line) for line in reversed(lines))), None)
    error = said.get("error") if said else None
    if isinstance(error, dict):
        reason, message, where, fix = (str(error.get(key, "")) for key in ("reason", "message", "where", "fix"))
        kind = UsageError if code == ExitCode.USAGE else PeerError
        failure = kind(reason, f"{name}: {message}", where=where, fix=fix)
        if code in FAILURES:
            failure.exit_code = ExitCode(code)
        return failure
    if code == ExitCode.CANNOT_ENFORCE and lines:
        return CannotEnforceError("CANNOT_ENFORCE", lines[-1], where=name)
    last = f" ({lines[-1]})" if lines else ""
    if code is not None and code < 0:
        what, last = f"was killed by {signal.Signals(-code).name}", ""
    elif code is not None and not what:
        what = f"ended with exit code {code}"
    return PeerError("PROGRAM_FAILED", what + last, where=name, fix=f"see {log}")


def told(line: str | bytes) -> dict[str, object] | None:
    """The JSON object of a line; None if it is none."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
