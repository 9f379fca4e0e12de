"""How far a comparison is, and how long it will take: a bar on a terminal, a line for each run elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from testbed.compare.plan import Asked
from testbed.report.comparison_data import RunResult
from testbed.report.words import span
from testbed.simulate.run import COMPILING


@dataclass(slots=True)
class Progress:
    """The progress of ``total`` runs, ``at_once`` at a time."""

    total: int
    at_once: int = 1
    say: Callable[[str], None] = lambda line: None  # one line, where there is no bar
    console: Console | None = None  # a terminal for a bar
    done: int = 0
    _spent: dict[str, list[float]] = field(default_factory=dict)  # seconds of the runs made now, by workload
    _left: dict[str, int] = field(default_factory=dict)  # runs to be made, by workload
    _parts: dict[str, float] = field(default_factory=dict)  # of runs that are being made
    _bar: tuple[Bar, TaskID] | None = None
    _compiles: bool = False

    def __enter__(self) -> Self:
        if self.console is not None:
            columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn())
            bar = Bar(*columns, TextColumn("{task.fields[left]}"), console=self.console, transient=True, expand=True)
            bar.start()
            self._bar = bar, bar.add_task("starting", total=self.total, left="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar[0].stop()

    def expect(self, runs: list[Asked]) -> None:
        """These are to be made, beside what is kept."""
        for one in runs:
            self._left[one.workload.name] = self._left.get(one.workload.name, 0) + 1

    def within(self, one: Asked, part: float) -> None:
        """So much of a run is done, from 0 to 1; for the bar only."""
        if self._bar is not None:
            self._parts[str(one)] = part
            bar, task = self._bar
            bar.update(task, completed=self.done + sum(self._parts.values()))

    def compiles(self) -> None:
        """The simulator's loop is being compiled; said once, whichever processes do it."""
        if not self._compiles:
            self._compiles = True
            say = self.say if self._bar is None else self._bar[0].console.print
            say(COMPILING)

    def ended(self, one: Asked, result: RunResult, seconds: float | None) -> None:
        """``seconds`` is None for a run that was kept."""
        self.done += 1
        self._parts.pop(str(one), None)
        if seconds is not None:
            self._spent.setdefault(one.workload.name, []).append(seconds)
            self._left[one.workload.name] -= 1
        left = f"about {span(self.left_s)} left" if self._spent and self.done < self.total else ""
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, completed=self.done + sum(self._parts.values()), description=f"{one}: done", left=left)
        else:
            kept = " (kept)" if seconds is None else ""
            self.say(f"{self._line(one, result)}{kept}{f'; {left}' if left else ''}")

    def _line(self, one: Asked, result: RunResult) -> str:
        said = "not all jobs finished" if result.mean_jct_s is None else f"mean JCT {result.mean_jct_s:.1f} s"
        busy = "; THE HOST WAS TOO BUSY" if result.saturated else ""
        return f"{self.done} of {self.total}  {one}: {said}{busy}"

    @property
    def left_s(self) -> float:
        """By what runs of the same workload took, else by what all took."""
        every = [seconds for spent in self._spent.values() for seconds in spent]
        overall = sum(every) / len(every) if every else 0.0
        total = 0.0
        for name, runs in self._left.items():
            spent = self._spent.get(name)
            total += runs * (sum(spent) / len(spent) if spent else overall)
        return total / self.at_once
