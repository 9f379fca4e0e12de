"""A scenario, live: prepare, start, watch, stop, and account for it. ``venn run`` and ``venn demo`` are this."""

import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rich.console import Console

from testbed.live.folder import RunFolder
from testbed.live.host import HostMonitor
from testbed.live.machine import commit, machine, versions
from testbed.live.prepare import Prepared, prepare
from testbed.live.world import Ending, World
from testbed.report.build import PAGE, build_report
from testbed.report.summary import Summary
from testbed.report.view import watch
from testbed.scenario.model import Scenario
from venn.wire.errors import ExitCode, UsageError
from venn.wire.files import write_atomic
from venn.wire.tokens import load_token


@dataclass(frozen=True, slots=True)
class Result:
    """A run that is over."""

    folder: RunFolder
    summary: Summary
    page: Path
    ending: Ending

    @property
    def exit_code(self) -> int:
        if self.ending.failures:
            return self.ending.failures[0].exit_code
        if self.ending.interrupted:
            return ExitCode.INTERRUPTED
        return ExitCode.OK if self.summary.passed else ExitCode.FAILED


@dataclass(slots=True)
class LiveRun:
    """One run of a scenario into one folder. ``run`` once."""

    scenario: Scenario
    folder: RunFolder
    console: Console  # for the live view and what is to be said on the way; standard error, as a rule
    command: Sequence[str] = ()  # that reproduces it, for the report
    validate: bool = False  # check the engine's invariants after every event
    quiet: bool = False  # no live view
    _warnings: list[str] = field(default_factory=list)

    async def run(self) -> Result:
        """Until all jobs are done, the duration is over, or it is cancelled: then a partial report is written, and
        ``ending.interrupted`` says so. Raises VennError if it could not start, or if a part it needs died; nothing
        runs on.
        """
        prepared = self._prepare()
        world = World(self.scenario, self.folder, prepared, validate=self.validate, say=self._say)
        begun = False
        try:
            await world.start()
            begun = True
            await self._until_done(world)
        except asyncio.CancelledError:
            if not begun:
                raise
            world.ending.interrupted = True
        finally:
            if not self.quiet:
                self.console.print("stopping all parts, then writing the report ...", highlight=False)
            await world.stop()
            self._write_manifest(interrupted=world.ending.interrupted or not begun)
        summary = build_report(self.folder.root)
        return Result(self.folder, summary, self.folder.root / PAGE, world.ending)

    def _prepare(self) -> Prepared:
        try:
            prepared = prepare(self.scenario, self.folder)
        except UsageError:
            shutil.rmtree(self.folder.root, ignore_errors=True)  # nothing was started: nothing is left
            raise
        write_atomic(self.folder.scenario, self.scenario.dump())
        self._write_manifest(interrupted=True)
        return prepared

    async def _until_done(self, world: World) -> None:
        """The jobs, with the live view and the host's monitor beside them."""
        monitor = asyncio.create_task(HostMonitor(self.folder.host, self.folder.root, self._say).run())
        over = asyncio.Event()
        jobs = asyncio.create_task(world.until_done())
        view = asyncio.create_task(self._watch(world, over))
        try:
            await asyncio.wait([jobs, view], return_when=asyncio.FIRST_COMPLETED)
            if not jobs.done() and over.is_set():  # the user pressed q
                world.ending.interrupted = True
                return
            await jobs
        finally:
            over.set()
            for task in (jobs, view, monitor):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(jobs, view, monitor, return_exceptions=True)

    async def _watch(self, world: World, over: asyncio.Event) -> None:
        if self.quiet:
            await over.wait()
            return
        await watch(
            world.address,
            load_token("admin", dir=self.folder.tokens),
            until=over,
            console=self.console,
            backend=self.scenario.backend,
            limit_s=self.scenario.duration,
            warnings=lambda: tuple(self._warnings),
        )

    def _say(self, text: str) -> None:
        self._warnings.append(text)
        if self.quiet:
            self.console.print(f"warning: {text}", markup=False, highlight=False, soft_wrap=True)

    def _write_manifest(self, *, interrupted: bool) -> None:
        scenario = self.scenario
        about = {
            "name": scenario.name,
            "policy": scenario.policy,
            "seed": scenario.seed,
            "backend": scenario.backend,
            "jobs": list(scenario.jobs),
            "expect": [str(expected) for expected in scenario.expect],
            "interrupted": interrupted,
            "command": list(self.command),
            "warnings": self._warnings,
            "versions": versions(),
            "machine": machine(),
            "commit": commit(),
        }
        write_atomic(self.folder.manifest, json.dumps(about, indent=2) + "\n")


async def run_scenario(
    scenario: Scenario,
    *,
    out: Path | None = None,
    validate: bool = False,
    quiet: bool = False,
    color: bool = True,
    command: Sequence[str] = (),
) -> Result:
    """Run a scenario into ``out``, or into a new folder below ./runs; see ``LiveRun.run``."""
    folder = RunFolder.create(out, name=scenario.name, policy=scenario.policy, now=datetime.now())
    console = Console(stderr=True, no_color=not color, file=sys.stderr)
    return await LiveRun(scenario, folder, console, command, validate, quiet).run()
