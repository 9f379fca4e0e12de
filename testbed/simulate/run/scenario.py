"""``venn run --backend sim``: build a scenario's simulation, run it, say how far it is, and account for it.

It stops at Ctrl-C, with what came of it so far, and begins again if it is too large for a journal.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import FrameType

import numpy as np
from rich.console import Console

from coordinator.engine.ids import job_name
from coordinator.service.policy import policy_of, told_with_its_plan
from testbed.report.result import Ending, Result, build_summary
from testbed.runfolder.machine import write_manifest
from testbed.runfolder.paths import RunFolder
from testbed.runfolder.summary import Summary
from testbed.scenario.model import Scenario
from testbed.scenario.unfold import unfolded
from testbed.simulate.build import build, device_specs
from testbed.simulate.model import Outcome, Progress, Simulation
from testbed.simulate.run import COMPILING, at_least_leases, simulate
from testbed.simulate.run.recorded import KeptJournal, facts, keep_outcome, keep_timeline, keep_unheard
from testbed.world.fleets import write_population
from venn.wire.files import out_of_space, write_atomic
from venn.wire.notation import format_duration

EVERY_S = 5.0  # between two lines
_DAY_S = 86_400.0


class Watching:
    """A watch of a simulation. ``most_check_ins``: stopped when there are more."""

    def __init__(self, jobs: int, say: Callable[[str], None], most_check_ins: float) -> None:
        self.stopped_by = 0  # a signal
        self.too_many = False
        self._jobs, self._say, self._most = jobs, say, most_check_ins
        self._told = time.monotonic()
        self._check_ins = 0  # when it was told

    def __call__(self, progress: Progress) -> bool:
        now = time.monotonic()
        if now - self._told >= EVERY_S:
            per_s = (progress.check_ins - self._check_ins) / (now - self._told)
            self._say(progress_line(progress, self._jobs, per_s))
            self._told, self._check_ins = now, progress.check_ins
        self.too_many = progress.check_ins > self._most
        return not (self.stopped_by or self.too_many)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Ctrl-C, kill and a closed terminal stop it at the next look; a second one ends the process."""

        def stop(number: int, frame: FrameType | None) -> None:
            if self.stopped_by:
                os._exit(128 + number)
            self.stopped_by = number

        # `nohup venn ...` goes on when its terminal is closed; a shell that ignores Ctrl-C for us does not mean kill.
        hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        numbers = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hangs_up else ()))
        before = {number: signal.signal(number, stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def progress_line(progress: Progress, jobs: int, per_s: float) -> str:
    """``day 2.31   12 of 50 jobs done   3,400,000 check-ins, 410,000 per s``; seconds in the first hour."""
    day = progress.now_s / _DAY_S
    when = f"day {day:.2f}" if progress.now_s >= 3600 else f"{progress.now_s:.0f} s"
    done = f"{progress.jobs_ended} of {jobs} jobs done"
    return f"{when}   {done}   {progress.check_ins:,} check-ins, {per_s:,.0f} per s"


MOST_JOURNALED = 20_000  # check-ins; a report that draws every lease of more helps nobody, and takes a minute
_MOST_NAMED = 5  # jobs in one line


@dataclass(slots=True)
class VirtualRun:
    """One run of a scenario into one folder. ``run`` once."""

    scenario: Scenario
    folder: RunFolder
    console: Console  # for what is to be said on the way; standard error, as a rule
    command: Sequence[str] = ()  # that reproduces it, for the report
    validate: bool = False  # check the engine's invariants after every event
    quiet: bool = False  # no progress
    _warnings: list[str] = field(default_factory=list)

    def run(self) -> tuple[Result, int]:
        """Its result, and the signal that stopped it; 0: none did. Then what came of it so far is reported.

        Raises VennError if the scenario cannot be simulated, or its policy fails; its folder is gone then.
        """
        try:
            simulation = build(self.scenario)
            self._write_inputs()
            outcome, stopped_by = self._simulate(simulation)
        except BaseException:
            shutil.rmtree(self.folder.root, ignore_errors=True)
            raise
        for line in unfinished(simulation, outcome, stopped=bool(stopped_by)):
            self._warn(line)
        self._write_manifest(interrupted=bool(stopped_by), simulated=facts(simulation, outcome))
        summary = self._summary()
        ending = Ending(interrupted=bool(stopped_by))
        return Result(self.folder, summary, None, ending), stopped_by

    def _summary(self) -> Summary:
        """The summary of the folder. Raises PeerError if the disk is full."""
        try:
            return build_summary(self.folder.root)
        except Exception as error:
            full = out_of_space(error, self.folder.root)
            if full is None:
                raise
            raise full from error

    def _simulate(self, simulation: Simulation) -> tuple[Outcome, int]:
        """Simulate with a journal, unless it turns out to be too large for one: then once more without."""
        if self.validate or journaled(simulation):
            journal = KeptJournal(self.folder, simulation.settings, self.scenario.name)
            try:
                outcome, watching = self._once(simulation, journal)
            except BaseException:
                journal.discard()
                raise
            if not watching.too_many:
                journal.close(killed=outcome.killed)
                keep_unheard(self.folder, outcome)
                if self.scenario.churn:
                    keep_timeline(self.folder, simulation, outcome)
                return outcome, watching.stopped_by
            journal.discard()
            self._print(f"more than {MOST_JOURNALED:,} check-ins: starting again, without a journal")
        outcome, watching = self._once(simulation, None)
        keep_outcome(self.folder, simulation, outcome)
        return outcome, watching.stopped_by

    def _once(self, simulation: Simulation, journal: KeptJournal | None) -> tuple[Outcome, Watching]:
        most = np.inf if journal is None or self.validate else MOST_JOURNALED
        watching = Watching(len(simulation.jobs), self._print, most)
        policy = policy_of(self.scenario.policy)
        with watching.listening(), told_with_its_plan(self.scenario.policy):
            outcome = simulate(
                simulation,
                policy,
                journal=None if journal is None else journal.hear,
                validate=self.validate,
                watch=watching,
                compiling=self._tell_compiling,
            )
            return outcome, watching

    def _tell_compiling(self) -> None:
        self._print(COMPILING)

    def _write_inputs(self) -> None:
        write_atomic(self.folder.scenario, self.scenario.dump())
        if self.scenario.population is None:
            self.folder.population.parent.mkdir(parents=True, exist_ok=True)
            write_population(self.folder.population, device_specs(unfolded(self.scenario)))
        self._write_manifest(interrupted=True, simulated=None)

    def _write_manifest(self, *, interrupted: bool, simulated: dict[str, object] | None) -> None:
        about = {**unfolded(self.scenario).about(), "interrupted": interrupted, "command": list(self.command)}
        write_manifest(self.folder.manifest, {**about, "warnings": self._warnings, "simulated": simulated})

    def _warn(self, text: str) -> None:
        self._warnings.append(text)
        self._print(f"warning: {text}", always=True)

    def _print(self, text: str, *, always: bool = False) -> None:
        """``always``: even if it should be quiet. A terminal that was closed is no reason to stop halfway."""
        if always or not self.quiet:
            with suppress(OSError):
                self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def run_simulated(
    scenario: Scenario,
    *,
    out: Path | None = None,
    validate: bool = False,
    quiet: bool = False,
    color: bool = True,
    command: Sequence[str] = (),
) -> tuple[Result, int]:
    """Simulate a scenario into ``out``, or into a new folder below ./runs; see ``VirtualRun.run``."""
    folder = RunFolder.create(out, name=scenario.name, policy=scenario.policy, now=datetime.now())
    console = Console(stderr=True, no_color=not color, file=sys.stderr)
    return VirtualRun(scenario, folder, console, command, validate, quiet).run()


def journaled(simulation: Simulation) -> bool:
    """Whether it may be small enough for a journal."""
    return at_least_leases(simulation) <= MOST_JOURNALED


def unfinished(simulation: Simulation, outcome: Outcome, *, stopped: bool) -> list[str]:
    """Why jobs are not done, a line for each reason."""
    if stopped:
        return []
    left = [
        (job_name(job.spec.job), bool(device_s > 0) or job.spec.workload.compute_s == 0)  # no time, no trace of it
        for job, ended, device_s in zip(simulation.jobs, outcome.ended_s, outcome.device_s, strict=True)
        if np.isnan(ended)
    ]
    if not left:
        return []
    when = format_duration(round(outcome.now_s, 1))
    if outcome.now_s >= simulation.until_s:
        lines = [f"gave up after {when}: {_named([name for name, _ in left])} unfinished; raise duration"]
    else:
        lines = [
            f"the last session ended at {when}: {_named([name for name, _ in left])} unfinished: no device was left"
        ]
    idle = [name for name, served in left if not served]
    return [*lines, *([f"{_named(idle)} never given a device"] if idle else [])]


def _named(jobs: Sequence[str]) -> str:
    """``job a was``, ``jobs a, b and 7 more were``: without the verb's other half."""
    shown = ", ".join(jobs[:_MOST_NAMED])
    more = f" and {len(jobs) - _MOST_NAMED} more" if len(jobs) > _MOST_NAMED else ""
    return f"job {shown} was" if len(jobs) == 1 else f"jobs {shown}{more} were"
