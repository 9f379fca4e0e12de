"""The runs of a comparison, simulated or live, and their progress.

How far a comparison is, and how long it will take: a bar on a terminal, a line for each run elsewhere.

Simulated runs of a comparison: cells, on as many cores as asked for; what is there already is kept.

Live runs of a comparison: one after the other, each in a process of its own, in an order that favours nobody.

Policies take turns in going first: at each seed the order is rotated by one, so that what drifts on the host (its
temperature, its neighbours) meets every policy alike. A finished run is kept; ``resume`` goes on where it stopped.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from testbed.compare.folder import SCENARIO, Run
from testbed.compare.plan import Asked, Plan
from testbed.compare.pool import WORKER, Order, order_for, run_orders
from testbed.report.comparison import RunResult, read_run
from testbed.report.result import SUMMARY
from testbed.report.words import slug, span
from testbed.runfolder.jsonlines import Row, read_object, text
from testbed.simulate.run import COMPILING
from venn.wire import RUN_MARK
from venn.wire.errors import ExitCode, PeerError, VennError
from venn.wire.process import own_mark


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
        """Count runs that are to be made, beside those that are there."""
        for one in runs:
            self._left[one.workload.name] = self._left.get(one.workload.name, 0) + 1

    def within(self, one: Asked, part: float) -> None:
        """Show that so much of a run is done, from 0 to 1; for the bar only."""
        if self._bar is not None:
            self._parts[str(one)] = part
            bar, task = self._bar
            bar.update(task, completed=self.done + sum(self._parts.values()))

    def compiles(self) -> None:
        """Say once that the simulator's loop is being compiled, whichever processes do it."""
        if not self._compiles:
            self._compiles = True
            say = self.say if self._bar is None else self._bar[0].console.print
            say(COMPILING)

    def ended(self, one: Asked, result: RunResult, seconds: float | None) -> None:
        """Say that a run ended, after so many seconds; None: it was there already."""
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
        """An estimate of the seconds left, by what runs of the same workload took, else by what all took."""
        every = [seconds for spent in self._spent.values() for seconds in spent]
        overall = sum(every) / len(every) if every else 0.0
        total = 0.0
        for name, runs in self._left.items():
            spent = self._spent.get(name)
            total += runs * (sum(spent) / len(spent) if spent else overall)
        return total / self.at_once


LOG = "worker.log"


async def run_cells(plan: Plan, progress: Progress, worker: Sequence[str] = WORKER) -> list[Run]:
    """Simulate what is not yet there. Raises the error of the first cell that fails."""
    asked = {order.out: (order, one) for one in plan.runs() for order in [_order(plan, one)]}
    missing = [order for order, _ in asked.values() if not _is_finished(order)]
    progress.expect([asked[order.out][1] for order in missing])
    wanted = {order.out for order in missing}
    for order, one in asked.values():
        if order.out not in wanted:
            progress.ended(one, read_run(read_object(Path(order.out)), order.out), None)

    def done(order: Order, seconds: float) -> None:
        progress.ended(asked[order.out][1], read_run(read_object(Path(order.out)), order.out), seconds)

    def part(order: Order, fraction: float, compiling: bool) -> None:
        if compiling:
            progress.compiles()
        progress.within(asked[order.out][1], fraction)

    if missing:
        await run_orders(missing, plan.processes, done, part, log=plan.out / LOG, worker=worker)
    return [_run(order, one) for order, one in asked.values()]


def finished_cells(plan: Plan) -> list[Run]:
    """The runs whose files are there."""
    return [_run(order, one) for one in plan.runs() for order in [_order(plan, one)] if _is_finished(order)]


def _order(plan: Plan, one: Asked) -> Order:
    return order_for(one, plan.out / one.workload.name / SCENARIO)


def _run(order: Order, one: Asked) -> Run:
    return Run(one, Path(order.out), Path(order.world))


def _is_finished(order: Order) -> bool:
    """Whether the cell's file is there, whole, and the world's file beside it."""
    return text(read_object(Path(order.out)), "key") == order.key and bool(read_object(Path(order.world)))


STOP_GRACE_S = 60.0  # for a run that is stopped to write its partial report

Runner = Callable[[Asked, Path, Sequence[str]], Awaitable[Row]]  # of what, into which folder, with which flags


async def run_live(plan: Plan, progress: Progress, run: Runner | None = None) -> list[Run]:
    """Run what is not yet there, with ``run``: by default ``venn run`` in a process of its own.

    Raises the error of a run that could not be made.
    """
    run = run or run_apart
    asked = [(one, *_recorded(one.folder / slug(one.policy))) for one in plan.runs()]
    progress.expect([one for one, _, summary in asked if summary is None])
    runs: list[Run] = []
    for one, folder, summary in asked:
        started = time.monotonic()
        found = summary if summary is not None else await run(one, folder, plan.flags)
        seconds = None if summary is not None else time.monotonic() - started
        runs.append(Run(one, folder / SUMMARY))
        progress.ended(one, read_run(found, str(folder)), seconds)
    return runs


async def run_apart(one: Asked, folder: Path, flags: Sequence[str]) -> Row:
    """Run ``venn run`` in a process of its own; cancelled, it stops its run and waits until nothing of it is left."""
    command = [sys.executable, "-m", "testbed.cli.main", "run", str(one.workload.path), "--policy", one.policy]
    command += ["--seed", str(one.seed), "--out", str(folder), "--json", *flags]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=os.environ | {RUN_MARK: own_mark()},
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        await _stop(process)
        raise
    return read_answer(output, process.returncode or 0, one)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Let it stop its own programs and write its partial report."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_GRACE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def read_answer(output: bytes, code: int, one: Asked) -> Row:
    """Reads the summary that a run printed. Raises the error that it printed, or PeerError."""
    where = str(one)
    try:
        said = json.loads(output)
    except ValueError:
        raise PeerError("RUN_DIED", f"ended with exit code {code} and no summary", where=where) from None
    if "error" in said:
        error: dict[str, str] = said["error"]
        failure = VennError(error["reason"], error["message"], where=error["where"] or where, fix=error["fix"])
        failure.exit_code = ExitCode(code) if code in (2, 3, 4) else ExitCode.PEER
        raise failure
    if not isinstance(said, dict) or said.get("interrupted"):
        raise PeerError("RUN_STOPPED", "was stopped from outside", where=where, fix="continue with --resume")
    return said


def _recorded(out: Path) -> tuple[Path, Row | None]:
    """The folder of a run and its summary; a free folder and None if it was not run to its end."""
    folder, again = out, 1
    while folder.exists():
        summary = read_object(folder / SUMMARY)
        if summary and not summary.get("interrupted"):
            return folder, summary
        again += 1
        folder = out.with_name(f"{out.name}-{again}")
    return folder, None
