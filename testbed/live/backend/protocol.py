"""The protocol of backends: what makes the components of a run.

``testbed.scenario.backends`` says how each kind is found; the function ``make`` of its spec takes a ``Run`` and
returns a ``Backend``.
"""

import asyncio
import json
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from testbed.live.backend.prepare import DeviceHost, Prepared
from testbed.runfolder.paths import RunFolder
from testbed.scenario.model import Scenario
from testbed.world.timeline import LinkChange
from venn.wire.errors import CannotEnforceError, ExitCode, PeerError, UsageError, VennError

STOP_GRACE_S = 5.0  # from SIGTERM to SIGKILL
TAIL_LINES = 6
FAILURES = frozenset(ExitCode) - {ExitCode.OK, ExitCode.INTERRUPTED, ExitCode.TERMINATED}


class Component(Protocol):
    """One program of a run, that can be started, watched, broken on purpose and stopped."""

    name: str

    @property
    def running(self) -> bool: ...

    async def start(self) -> None:
        """Start it, again if it has ended."""

    def resume(self) -> None:
        """Let it continue its job from its next start on."""

    async def announced(self, within_s: float) -> dict[str, object]:
        """Return the one JSON line that it prints when it is ready. Raises VennError if it says nothing."""

    async def wait(self) -> int:
        """Wait for its end and return its exit code, or minus the number of the signal. For one task at a time."""

    async def stop(self, grace_s: float | None = None) -> int | None:
        """Tell it to end, and kill it after ``grace_s`` seconds."""

    def failure(self, what: str = "") -> VennError:
        """The error to tell the user when it failed; ``what``: how, if it does not say so itself."""

    async def kill(self) -> None:
        """Kill it at once, with all that it has started."""

    async def pause(self) -> None:
        """Suspend it until ``unpause``, with all that it has started. Its connections stay open.

        Called for the coordinator, a driver and the broker, and for a device's own program if ``outside`` has SUSPEND.
        """

    async def unpause(self) -> None:
        """Let it go on."""


class Backend(Protocol):
    """Makes the components of one run. ``make`` first, ``remove`` always."""

    async def make(self) -> None:
        """Make what must be there before any component. Raises VennError; nothing is left then."""

    def coordinator(self) -> Component:
        """The coordinator, which is started first."""

    def driver(self, job: str, epoch: float) -> Component:
        """The driver of a job. ``epoch`` is the Unix time at which the run's clock starts."""

    def device_host(self, host: DeviceHost, epoch: float) -> Component:
        """The program of one device, or of several."""

    async def crash(self, device: str) -> None:
        """Kill a device, if ``as_well`` of the spec has CRASH; a device kills itself, too."""

    async def cut(self, device: str, *, reset: bool) -> None:
        """Let nothing through a device's link until ``mend``. Raises VennError.

        Called if the spec has DISCONNECT or PARTITION, in ``outside`` for this device or in ``as_well``.
        ``reset``: its connections break, too (DISCONNECT).
        """

    async def mend(self, device: str) -> None:
        """Let all through a device's link again. Raises VennError."""

    async def limit(self, device: str, change: LinkChange | None) -> None:
        """Set the limits of a device's link from now on; None: its own again. Raises VennError."""

    @property
    def others(self) -> Sequence[Component]:
        """Components that run from ``make`` on. The run ends when one of them does."""

    def start_cost_s(self, others: int, one_s: float) -> float:
        """Estimate the seconds until so many parts are ready; ``one_s`` is what the first one took."""

    def reached(self, said: Mapping[str, object]) -> str:
        """The address of the coordinator, which ``said`` this when it was ready."""

    async def read_back(self) -> None:
        """Check that the limits of components that have started are in force. Raises CannotEnforceError."""

    async def remove(self, *, at_once: bool = False) -> None:
        """Remove all that was made; ``at_once``: also what still runs."""

    @property
    def limited(self) -> bool:
        """Whether devices are slowed down at all."""

    def not_in_force(self) -> list[str]:
        """The limits that were not in force in a run that is over, one line each."""

    def describe(self, degraded: Sequence[str]) -> None:
        """Write down what was asked and what was in force."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a backend is made for."""

    scenario: Scenario
    folder: RunFolder
    prepared: Prepared
    validate: bool  # the coordinator checks its invariants after every event
    allow_degraded: bool  # run on where a limit cannot be enforced
    degraded: Callable[[str], None]  # told of each limit that is not enforced


def backend_of(run: Run) -> Backend:
    """The backend that the scenario names. Raises CannotEnforceError, and UsageError where it is not installed."""
    spec = run.scenario.backend_spec
    made: Backend = spec.call(spec.make, run)
    return made


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work to its end, even if cancelled meanwhile: what is half started or made nobody could stop."""
    running = asyncio.ensure_future(work)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await running
        raise


def failure_of(
    name: str, code: int | None, lines: Sequence[str], what: str, log: Path, *, said: dict[str, object] | None = None
) -> VennError:
    """The error of a component that failed: its own if it printed one, else how it ended.

    ``code``: its exit code, minus a signal's number, None while it runs. ``lines``: the last that it wrote.
    ``said``: what it announced.
    """
    said = said or next(filter(None, (json_object(line) for line in reversed(lines))), None)
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


def json_object(line: str | bytes) -> dict[str, object] | None:
    """The JSON object that a line holds; None if it holds none."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
