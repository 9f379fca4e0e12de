"""A live run of a scenario: prepare, start, watch, stop, report. ``venn run`` and ``venn demo`` call this."""

import asyncio
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rich.console import Console

from testbed.live.backend.prepare import Prepared, capacity, check_fits, need, prepare, shortfalls
from testbed.live.backend.protocol import Backend, Run, backend_of
from testbed.live.host import HostMonitor
from testbed.live.supervisor import Supervisor
from testbed.report.result import PAGE, Ending, Result, build_report
from testbed.report.view import watch
from testbed.runfolder.machine import write_manifest
from testbed.runfolder.paths import RunFolder
from testbed.runfolder.summary import Summary
from testbed.scenario.model import Scenario
from venn.wire.errors import CannotEnforceError, PeerError, UsageError, VennError
from venn.wire.files import out_of_space, write_atomic
from venn.wire.login import log_in

VIEW_GRACE_S = 2.0  # for the run to end after the view has


@dataclass(slots=True)
class LiveRun:
    """One run of a scenario into one folder. ``run`` once."""

    scenario: Scenario
    folder: RunFolder
    console: Console  # for the live view and what is to be said on the way; standard error, as a rule
    command: Sequence[str] = ()  # that reproduces it, for the report
    validate: bool = False  # check the engine's invariants after every event
    quiet: bool = False  # no live view
    allow_degraded: bool = False  # run on where a limit cannot be enforced, and say so
    _warnings: list[str] = field(default_factory=list)
    _told: list[str] = field(default_factory=list)  # to be printed when the live view is gone
    _degraded: list[str] = field(default_factory=list)  # limits that are not in force
    _too_small: list[str] = field(default_factory=list)  # what this machine lacks for this fleet

    async def run(self) -> Result:
        """Run until all jobs are done, the duration is over, a part that it needs has died, or it is cancelled. Then
        report what was recorded; ``ending`` says how it went. Nothing runs on.

        Raises VennError if it could not start, and CancelledError if it was cancelled before there was anything to
        report; its folder is gone then, but for the logs of a part that failed.
        """
        prepared, backend = self._prepare()
        supervisor = Supervisor(self.scenario, self.folder, prepared, backend=backend, say=self._say, warn=self._warn)
        try:
            await self._play(supervisor)
        except (asyncio.CancelledError, UsageError, CannotEnforceError):
            shutil.rmtree(self.folder.root, ignore_errors=True)
            raise
        self._account_for(backend, supervisor)
        for line in self._told:
            self._print(line)
        return Result(self.folder, self._report(supervisor.ending), self.folder.root / PAGE, supervisor.ending)

    def _report(self, ending: Ending) -> Summary:
        """Write the report. Raises PeerError if the disk is full; if that ended the run, the error of the part that
        said so."""
        try:
            self._write_manifest(interrupted=ending.interrupted)
            return build_report(self.folder.root)
        except Exception as error:
            full = out_of_space(error, self.folder.root)
            if full is None:
                raise
            raise (ending.failures or [full])[0] from error

    async def _play(self, supervisor: Supervisor) -> None:
        """Start, watch, stop. What ended it early is told by ``supervisor.ending``; raised, if it had not begun."""
        try:
            await supervisor.start()
            await self._until_done(supervisor)
        except asyncio.CancelledError:
            if not supervisor.recording:
                raise
            supervisor.ending.interrupted = True
        except VennError as error:
            if not supervisor.running:
                raise
            supervisor.ending.interrupted = True
            supervisor.ending.failures.insert(0, error)
        finally:
            self._print("stopping all parts" + (", then writing the report ..." if supervisor.recording else " ..."))
            await supervisor.stop()

    def _account_for(self, backend: Backend, supervisor: Supervisor) -> None:
        """Check that the limits were in force to the end. If not, the run has failed, unless that is allowed."""
        if not backend.limited:
            return
        for message in backend.not_in_force():
            problem = CannotEnforceError("NOT_IN_FORCE", message, fix="see `venn doctor`; or run with --allow-degraded")
            self._degraded.append(message)
            if not self.allow_degraded:
                supervisor.ending.failures.append(problem)
        backend.describe(self._degraded)

    def _say_degraded(self, text: str) -> None:
        self._degraded.append(text)
        self._say(f"degraded: {text}")

    def _prepare(self) -> tuple[Prepared, Backend]:
        try:
            prepared = prepare(self.scenario, self.folder)
            run = Run(self.scenario, self.folder, prepared, self.validate, self.allow_degraded, self._say_degraded)
            backend = backend_of(run)
            asked, have = need(self.scenario, prepared, capacity().cores), capacity()
            check_fits(self.scenario, asked, have)
            self._too_small = shortfalls(asked, have)
            for line in self._too_small:
                self._say(line)
            write_atomic(self.folder.scenario, self.scenario.dump())
            self._write_manifest(interrupted=True)
        except BaseException:
            shutil.rmtree(self.folder.root, ignore_errors=True)  # nothing was started: nothing is left
            raise
        return prepared, backend

    async def _until_done(self, supervisor: Supervisor) -> None:
        """Wait for the jobs, with the live view and the monitor of this machine. Raises what ended the run early."""
        jobs = asyncio.create_task(supervisor.until_done())
        over = asyncio.Event()
        view = asyncio.create_task(self._watch(supervisor, over))
        host = HostMonitor(
            self.folder.host, self.folder.root, self._warn, supervisor.suspended, begins=lambda: supervisor.epoch
        )
        monitor = asyncio.create_task(host.run())
        beside = {view, monitor}
        try:
            while not jobs.done():
                await asyncio.wait([jobs, *beside], return_when=asyncio.FIRST_COMPLETED)
                if monitor.done():
                    monitor.result()
                if view in beside and view.done() and not jobs.done():
                    beside.discard(view)
                    if over.is_set():  # the user pressed q
                        supervisor.ending.interrupted = True
                        return
                    await self._without_view(view, jobs)
            jobs.result()
        finally:
            over.set()
            for task in (jobs, view, monitor):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(jobs, view, monitor, return_exceptions=True)

    async def _without_view(self, view: "asyncio.Task[None]", jobs: "asyncio.Task[None]") -> None:
        """Say why the view has ended by itself, unless the run ends for the same reason."""
        await asyncio.wait([jobs], timeout=VIEW_GRACE_S)
        if not jobs.done():
            self._say(f"there is no live view any more: {view.exception()}")

    async def _watch(self, supervisor: Supervisor, over: asyncio.Event) -> None:
        if self.quiet:
            await over.wait()
            return
        while not over.is_set():
            try:
                await watch(
                    log_in("admin", supervisor.address, self.folder.keys),
                    until=over,
                    console=self.console,
                    backend=self.scenario.backend,
                    limit_s=self.scenario.duration,
                    warnings=(lambda: tuple(self._warnings)) if self._on_screen else tuple,
                )
            except PeerError:
                if not await supervisor.coordinator_returned():
                    raise

    @property
    def _on_screen(self) -> bool:
        """Whether there is a live view, which a line of ours would spoil."""
        return not self.quiet and self.console.is_terminal and not self.console.is_dumb_terminal

    def _say(self, text: str) -> None:
        """Warn; a line that the live view hides is printed again after it."""
        if self._on_screen:
            self._told.append(f"warning: {text}")
        self._warn(text)

    def _warn(self, text: str) -> None:
        self._warnings.append(text)
        if not self._on_screen:
            self._print(f"warning: {text}", always=True)

    def _print(self, text: str, *, always: bool = False) -> None:
        """Print, unless the run is quiet and not ``always``. A closed terminal does not stop the run."""
        if always or not self.quiet:
            with suppress(OSError):
                self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _write_manifest(self, *, interrupted: bool) -> None:
        about = {**self.scenario.about(), "interrupted": interrupted, "command": list(self.command)}
        about |= {"warnings": self._warnings, "too_small": self._too_small}
        write_manifest(self.folder.manifest, about)


async def run_scenario(
    scenario: Scenario,
    *,
    out: Path | None = None,
    validate: bool = False,
    quiet: bool = False,
    allow_degraded: bool = False,
    color: bool = True,
    command: Sequence[str] = (),
) -> Result:
    """Run a scenario into ``out``, or into a new folder below ./runs; see ``LiveRun.run``."""
    folder = RunFolder.create(out, name=scenario.name, policy=scenario.policy, now=datetime.now())
    console = Console(stderr=True, no_color=not color, file=sys.stderr)
    return await LiveRun(scenario, folder, console, command, validate, quiet, allow_degraded).run()
