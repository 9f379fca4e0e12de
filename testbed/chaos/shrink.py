"""Cuts a failing script down: faults, jobs and devices that are not needed for the same violation are left out."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from testbed.chaos.outcome import Outcome
from testbed.chaos.script import Script

T = TypeVar("T")
Run = Callable[[Script], Outcome]
MOST_RUNS = 150
AFTER_S = 60.0  # of virtual time that are left after the violation


def shrink(failed: Outcome, run: Run, most_runs: int = MOST_RUNS) -> Outcome:
    """The outcome of the smallest script that was found which breaks the same rule; at worst ``failed`` itself."""
    return _Shrink(failed, run, most_runs).result()


class _Shrink:
    def __init__(self, failed: Outcome, run: Run, most_runs: int) -> None:
        assert failed.violation is not None, "there is a violation to keep"
        self._best, self._what = failed, failed.violation.what
        self._run, self._left = run, most_runs

    def result(self) -> Outcome:
        before: Script | None = None
        self._end_early()
        while before != self._best.script and self._left:
            before = self._best.script
            for part in ("faults", "jobs", "devices"):
                self._cut(part)
        return self._best

    def _end_early(self) -> None:
        """Leave out what comes after the violation."""
        violation, script = self._best.violation, self._best.script
        assert violation is not None
        faults = tuple(fault for fault in script.faults if fault.at <= violation.at)
        self._try(script.without(faults=faults, jobs=tuple(job for job in script.jobs if job.at <= violation.at)))
        self._try(self._best.script.without(hours=min(script.hours, (violation.at + AFTER_S) / 3600)))

    def _cut(self, part: str) -> None:
        """Leave out as many of a part as can be, in ever smaller pieces (delta debugging: Zeller, Hildebrandt 2002)."""
        pieces = 2
        while (here := getattr(self._best.script, part)) and self._left:
            if any(self._try(self._best.script.without(**{part: rest})) for rest in _without_one(here, pieces)):
                pieces = max(2, pieces - 1)
            elif pieces >= len(here):
                return
            else:
                pieces = min(len(here), 2 * pieces)

    def _try(self, script: Script) -> bool:
        """Whether a smaller script breaks the same rule; then it is the best."""
        if not self._left or script == self._best.script or not (script.devices and script.jobs):
            return False
        self._left -= 1
        outcome = self._run(script)
        same = outcome.violation is not None and outcome.violation.what == self._what
        if same:
            self._best = outcome
        return same


def _without_one(items: Sequence[T], pieces: int) -> Iterator[tuple[T, ...]]:
    """The items, without one of so many pieces of them."""
    size = -(-len(items) // pieces)
    for start in range(0, len(items), size):
        yield (*items[:start], *items[start + size :])


def described(outcome: Outcome) -> Iterator[str]:
    """A failing script in lines for people."""
    script: Any = outcome.script
    yield f"seed {script.seed}, policy {script.policy}, heartbeat {script.heartbeat_s:g} s, {script.hours:.2f} hours"
    for device in script.devices:
        yield f"device {device.name}: size {device.size:g}, a task takes about {device.compute_s:.0f} s"
    for job in script.jobs:
        kind = f"buffer {job.buffer}" if job.buffer is not None else f"demand {job.demand}"
        yield f"job {job.name} at {job.at:.0f} s: {job.rounds} rounds, {kind}"
    yield from map(str, script.faults)
    yield f"then: {outcome.violation}"
