"""One world: a script's coordinator, drivers and devices, what happens to them, and what must hold meanwhile."""

import gc
import hashlib
import logging
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from coordinator.engine.effects import EndLease
from coordinator.engine.engine import Engine
from coordinator.engine.events import TaskFinished
from coordinator.engine.ids import job_name
from coordinator.engine.model import LeaseEnd
from coordinator.engine.record import texts_of
from coordinator.service.journal import Journal
from coordinator.service.server import Coordinator
from job_driver.driver import JobResult
from testbed.chaos import programs, stranger
from testbed.chaos.books import Books, JobBook
from testbed.chaos.borders import Borders
from testbed.chaos.disk import Disk
from testbed.chaos.faults import Faults
from testbed.chaos.host import Done, HeardHost, Limbo, recorded_in
from testbed.chaos.loop import Scheduler, Stuck
from testbed.chaos.network import Network
from testbed.chaos.outcome import Outcome, Violation
from testbed.chaos.process import Main, Process, place
from testbed.chaos.script import COORDINATOR, DevicePlan, JobPlan, Script
from testbed.chaos.watch import Watch
from venn.wire.errors import VennError
from venn.wire.exits import leaves

AGAIN_S = 5.0  # after which a program that ended is started again
CALM_S = 6 * 3600.0  # within which all jobs end once nothing fails any more
MOST_STARTS = 500  # of one program
LOOK_EVERY_S = 1.0  # at leases that outlive their time
FATAL = frozenset({"DAMAGED_SPOOL", "DAMAGED_CHECKPOINT", "OTHER_CHECKPOINT", "NO_CHECKPOINT", "JOB_FILE", "BUG"})


def run(script: Script) -> Outcome:
    """Live through a script's world, to its end or to the first violation."""
    folder = Path(tempfile.mkdtemp(prefix="venn-chaos-", dir=_memory()))
    try:
        with _quiet():
            return _live(script, folder)
    finally:
        shutil.rmtree(folder)


def _live(script: Script, folder: Path) -> Outcome:
    world = World(script, folder)
    with world.borders.stand():
        return world.run()


class World:
    """Made for one script, and used once. Its disks are below ``folder``."""

    def __init__(self, script: Script, folder: Path) -> None:
        self.script, self._folder = script, folder
        self.scheduler = Scheduler()
        self.borders = Borders(self.scheduler, script.heartbeat_s / 4)
        self.network = Network(self.scheduler, script.seed)
        self.outcome = Outcome(script)
        self.books = Books(self.violated)
        self._digest = hashlib.blake2b(digest_size=8)
        self._look_at = 0.0
        self.watch: Watch | None = None
        self._incarnation = 0
        self._limbo = Limbo(self)
        self.replaced = False  # the coordinator's machine was lost: the next one is another
        self.coordinator: Coordinator | None = None  # the newest one that serves
        self.processes: dict[str, Process] = {}
        self.last_words: dict[str, str] = {}  # by program: why it ended last
        self._jobs_left = {job.name for job in script.jobs}
        self._calm = False
        self.borders.host = self._host
        self._around = self._surroundings()
        self._people()
        self.faults = Faults(self)

    def _surroundings(self) -> programs.Surroundings:
        own = self._add(COORDINATOR, self._coordinator, disk=True)
        address = f"{own.machine.ip}:{programs.PORT}"
        keys = self._folder / "keys"
        programs.write_keys(keys)
        return programs.Surroundings(
            self.script, address, keys, self.books, self._up, self.round_closed, self._job_over
        )

    def _people(self) -> None:
        for plan in self.script.devices:
            self._add(plan.name, partial(self._device, plan))
        for job in self.script.jobs:
            driver = self._add(job.name, partial(self._driver, job), disk=True)
            assert driver.disk is not None
            self.books.jobs[job.name] = JobBook(job.repeat == "allow", driver.disk.folder / "job")
        self._add("stranger", partial(stranger.replay, around=self._around))
        self._add("liar", partial(stranger.lie, around=self._around))
        for name in ("stranger", "liar"):
            self.processes[name].over = True

    def _add(self, name: str, main: Main, *, disk: bool = False, on: Disk | None = None) -> Process:
        own = Disk(self._folder / name, Random(f"{self.script.seed}/{name}/disk")) if disk else on
        process = Process(
            name, self.network, seed=self.script.seed, main=main, ended=self._ended, violated=self.violated, disk=own
        )
        self.processes[name] = process
        return process

    # -- programs

    async def _coordinator(self, process: Process) -> None:
        await programs.coordinator(process, self._around)

    async def _driver(self, plan: JobPlan, process: Process) -> None:
        await programs.driver(process, plan, self._around)

    async def _device(self, plan: DevicePlan, process: Process) -> None:
        await programs.device(process, plan, self._around)

    def second_driver(self, name: str) -> Process:
        """Another driver of a job, in the same folder, on the same disk."""
        plan = next(job for job in self.script.jobs if job.name == name)
        number = sum(each.startswith(f"{name}-") for each in self.processes)
        second = self._add(f"{name}-{number}", partial(self._driver, plan), on=self.processes[name].disk)
        second.over = True
        return second

    # -- what they say

    def _host(self, engine: Engine, *, incarnation: int, journal: Journal, **settings: Any) -> HeardHost:
        """Make the host of a coordinator that starts: the same one again, or another."""
        if self.watch is None or incarnation != self._incarnation:
            if self.watch is not None and not self.replaced:
                self.violated("ANOTHER", "the coordinator was restarted, and is another one")
            self._incarnation, self.replaced = incarnation, False
            devices = {device.name: device for device in self.script.devices}
            jobs = {job.name: job for job in self.script.jobs}
            self.watch = Watch(devices, jobs, engine.settings, self.violated)
            self._limbo = Limbo(self)
        else:
            self._limbo.restarted(recorded_in(journal))
            self.watch.check_restored(engine)
        return HeardHost(engine, self._limbo, journal, incarnation=incarnation, **settings)

    def _up(self, coordinator: Coordinator) -> None:
        self.outcome.counts["coordinators"] += 1
        self.coordinator = coordinator

    def heard(self, done: Done) -> None:
        """Hear of an event that stands."""
        assert self.watch is not None
        self._digest.update(f"{done.now!r}{texts_of(done.effects)}".encode())
        for effect in done.effects:
            self.watch.effect(done.now, effect)
            if isinstance(effect, EndLease) and effect.reason is LeaseEnd.COUNTED:
                self.books.counted(job_name(effect.job), self._incarnation, effect.lease, effect.device)
        if isinstance(done.event, TaskFinished):
            self._check_finished(done.event)
            self.watch.finished(done.event)

    def _check_finished(self, event: TaskFinished) -> None:
        """Check that a device is believed only what its driver has told it."""
        assert self.watch is not None
        lease = self.watch.leases.get(event.lease)
        if lease is not None and not self.books.was_told(job_name(lease.offer.job), self._incarnation, event.lease):
            self.violated("BELIEVED", f"{lease.offer.device} says that lease {event.lease} is {event.outcome}")

    def round_closed(self, job: str) -> None:
        """Hold the books against each other: a driver has published a round."""
        self.outcome.counts["rounds"] += 1
        self.books.check_folder(job)

    def _job_over(self, job: str, result: JobResult) -> None:
        self._jobs_left.discard(job)
        self.processes[job].over = True
        self.outcome.counts["jobs"] += 1
        self.books.check_folder(job)
        if result.phase != "finished" and "crashed on several devices" not in result.message:
            self.violated("JOB_LOST", f"{job}: {result.phase}: {result.message}")

    def _ended(self, process: Process, error: BaseException | None) -> None:
        """Start a program again that has ended, as a supervisor does."""
        self.outcome.counts["ends"] += 1
        for leaf in leaves(error) if error is not None else ():
            self.outcome.counts[f"end: {getattr(leaf, 'reason', type(leaf).__name__)}"] += 1
            self.last_words[process.name] = str(leaf)
            if not isinstance(leaf, VennError):
                self.violated("UNHANDLED", f"{process.name} ended: {type(leaf).__name__}: {leaf}{place(leaf)}")
            elif leaf.reason in FATAL:
                self.violated("NOT_RESTARTED", f"{process.name} does not go on: {leaf}")
        if process.starts > MOST_STARTS:
            self.violated("STARTS_AGAIN", f"{process.name} was started {process.starts} times: {self.last_words}")
        self.start_later(process, AGAIN_S)

    def start_later(self, process: Process, seconds: float) -> None:
        """Start a program in so many seconds, unless it is over or runs then."""
        self.faults.later(seconds, self._start, process)

    def _start(self, process: Process) -> None:
        if not process.over and not process.running:
            process.start()

    # -- what must hold

    def violated(self, what: str, text: str) -> None:
        """Note a violation; the world ends after this callback. The first stands."""
        if self.outcome.violation is None:
            self.outcome.violation = Violation(what, text, self.scheduler.now)

    def _each(self) -> None:
        now = self.scheduler.now
        if now >= self._look_at and self.watch is not None and self.coordinator is not None:
            self._look_at = now + LOOK_EVERY_S
            if self.processes[COORDINATOR].running:
                self.watch.overdue(self.coordinator.host.latest)

    def _is_over(self) -> bool:
        return self.outcome.violation is not None or (self._calm and not self._jobs_left)

    # -- its life

    def run(self) -> Outcome:
        """Live through it."""
        scheduler, script = self.scheduler, self.script
        scheduler.each = self._each
        self.faults.plan()
        try:
            scheduler.run(script.seconds, self._is_over)
            if self.outcome.violation is None:
                self._calm = True
                self.faults.calm()
                scheduler.run(script.seconds + CALM_S, self._is_over)
                self._at_the_end()
        except Stuck as error:
            self.violated("STUCK", str(error))
        for process in self.processes.values():
            process.kill()
        self.outcome.virtual_s, self.outcome.calls = scheduler.now, scheduler.calls
        self.outcome.counts["receipts"] = self.books.receipts
        self.outcome.digest = self._digest.hexdigest()
        return self.outcome

    def _at_the_end(self) -> None:
        """Check that everything has come to rest: all jobs are over, and no lease is left after its time."""
        if self._jobs_left:
            self.violated("NOT_FINISHED", f"{sorted(self._jobs_left)}: {CALM_S / 3600:g} h after the last fault")
            return
        rest_s = 2 * max((job.lease_s for job in self.script.jobs), default=0.0) + 600
        self.scheduler.run(self.scheduler.now + rest_s, lambda: self.outcome.violation is not None)
        for job in self.script.jobs:
            self.books.check_folder(job.name)
        if self.coordinator is not None and self.watch is not None and self.processes[COORDINATOR].running:
            leases = list(self.coordinator.engine.leases)
            if leases:
                self.violated("LEASE_LEAKED", f"leases {leases} live {rest_s:.0f} s after the last job")
            self.watch.add_up(len(leases))


def _memory() -> str | None:
    """A folder in memory, where there is one: the disks are small, and written to all the time."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextmanager
def _quiet() -> Iterator[None]:
    """Let programs log nothing, and collect what killed ones left only at the end: then no word of theirs matters."""
    hook, before, collects = sys.unraisablehook, logging.root.manager.disable, gc.isenabled()
    logging.disable(logging.CRITICAL)
    gc.disable()
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of coroutines that nobody awaited: their process is dead
            yield
            gc.collect()
            gc.collect()  # what the first pass has finished
    finally:
        sys.unraisablehook = hook
        logging.disable(before)
        if collects:
            gc.enable()
