"""Faults as they happen: what each kind does to its machine, and how it ends."""

from collections.abc import Callable
from typing import Any, Protocol, assert_never

from testbed.chaos.loop import ProcessLoop, Scheduler
from testbed.chaos.network import Flaw
from testbed.chaos.outcome import FAULT, Outcome
from testbed.chaos.process import Process
from testbed.chaos.script import COORDINATOR, Fault, Kind, Script

LOST_OR_TWICE = 0.3  # repeats, per break


class Stage(Protocol):
    """The world, as faults need it."""

    script: Script
    scheduler: Scheduler
    outcome: Outcome
    processes: dict[str, Process]
    replaced: bool

    def start_later(self, process: Process, seconds: float) -> None: ...

    def second_driver(self, name: str) -> Process: ...


class Faults:
    """The faults of a world, each at its time."""

    def __init__(self, world: Stage) -> None:
        self._world = world
        # A loop of nobody: it is never stopped or killed.
        self._loop = ProcessLoop(world.scheduler, None, lambda context: None)

    def later(self, seconds: float, call: Callable[..., object], *args: Any) -> None:
        """Call something from outside of all machines."""
        self._loop.call_later(seconds, call, *args)

    def plan(self) -> None:
        """Set the times of all that the script says."""
        world, script = self._world, self._world.script
        self.later(0.0, world.start_later, world.processes[COORDINATOR], 0.0)
        for device in script.devices:
            self.later(0.0, world.start_later, world.processes[device.name], 0.1)
        for job in script.jobs:
            self.later(job.at, world.start_later, world.processes[job.name], 0.2)
        for fault in script.faults:
            self.later(fault.at, self._happen, fault)

    def calm(self) -> None:
        """End all that is wrong, and start all that does not run."""
        world = self._world
        for process in list(world.processes.values()):
            process.machine.cut_off_until, process.machine.flaw = 0.0, None
            if process.disk is not None:
                process.disk.full, process.disk.dies_after = False, None
            if process.running:
                process.loop.go_on()
            else:
                world.start_later(process, 1.0)

    def _happen(self, fault: Fault) -> None:
        process = self._world.processes.get(fault.machine)
        if process is None:  # a script that was cut down has no such machine
            return
        self._world.outcome.counts[f"{FAULT}{fault.kind.value}"] += 1
        now = self._world.scheduler.now
        match fault.kind:
            case Kind.KILL | Kind.POWER_CUT | Kind.REPLACE:
                self._kill(process, fault)
            case Kind.KILL_IN_WRITE:
                if process.disk is not None:
                    process.disk.dies_after = int(fault.level)
            case Kind.STOP:
                self._stop(process, fault.seconds)
            case Kind.CUT_OFF:
                process.machine.cut_off_until = now + fault.seconds
            case Kind.FLAKY:
                repeats = LOST_OR_TWICE * fault.level
                process.machine.flaw = Flaw(now + fault.seconds, fault.level, 1.0, repeats)
            case Kind.SLOW:
                process.machine.flaw = Flaw(now + fault.seconds, 0.0, fault.level, 0.0)
            case Kind.FULL_DISK:
                self._fill(process, fault.seconds)
            case Kind.CLOCK_JUMP:
                process.ahead_s += fault.level
            case Kind.SECOND_DRIVER:
                self._second(process, fault.seconds)
            case Kind.REPLAY | Kind.LIE:
                self._visit(fault)
            case _:
                assert_never(fault.kind)

    def _kill(self, process: Process, fault: Fault) -> None:
        if not process.running:
            return
        job = next((job for job in self._world.script.jobs if job.name == process.name), None)
        cut = fault.kind is Kind.POWER_CUT and (job is None or job.fsync)  # without fsync nobody promises anything
        process.kill(powered=not cut)
        if fault.kind is Kind.REPLACE and process.disk is not None:
            process.disk.wipe()
            self._world.replaced = True
        self._world.start_later(process, fault.seconds)

    def _stop(self, process: Process, seconds: float) -> None:
        if process.running:
            process.loop.stop_process()
            self.later(seconds, process.loop.go_on)

    def _fill(self, process: Process, seconds: float) -> None:
        disk = process.disk
        if disk is not None:
            disk.full = True
            self.later(seconds, setattr, disk, "full", False)

    def _second(self, process: Process, seconds: float) -> None:
        """Let the first driver stand still; somebody takes it for dead, and starts another one in its folder."""
        if not process.over and process.starts:
            self._stop(process, seconds)
            self._world.second_driver(process.name).start()

    def _visit(self, fault: Fault) -> None:
        stranger = self._world.processes["stranger" if fault.kind is Kind.REPLAY else "liar"]
        if not stranger.running:
            stranger.start()
            self.later(fault.seconds, stranger.kill)
