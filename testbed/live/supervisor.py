"""The supervisor of one run: it starts the components together, watches them, and stops them.

A device's process that a crash has killed is started again for its next session. A driver that a signal has killed
takes its job up again with ``--resume``. A coordinator that the timeline has killed is started again at its address.
What ends by itself with an error is not started again; its error is told.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from testbed.live.backend.prepare import DeviceHost, Prepared
from testbed.live.backend.protocol import Backend, Component
from testbed.live.injector import Faults, Injector
from testbed.report.result import Ending
from testbed.runfolder.paths import RunFolder
from testbed.scenario.model import Scenario
from testbed.world.timeline import Verb
from venn.wire.errors import ExitCode, PeerError
from venn.wire.requirements import Whom

READY_WITHIN_S = 60.0
MOST_RESUMES = 3  # of one driver
FIRST_START_S = 2.0
DRAIN_GRACE_S = 15.0


class Supervisor:
    """The components of one run: ``start``, then ``until_done``, then ``stop`` always."""

    def __init__(
        self,
        scenario: Scenario,
        folder: RunFolder,
        prepared: Prepared,
        *,
        backend: Backend,
        say: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        """``warn`` takes what ``ending`` tells afterwards; ``say`` takes what is told nowhere else."""
        self._scenario, self._folder, self._prepared, self._say, self._warn = scenario, folder, prepared, say, warn
        self._backend = backend
        self._coordinator = backend.coordinator()
        self._drivers: dict[str, Component] = {}
        self._hosts: dict[str, Component] = {}
        self._resumed: Counter[str] = Counter()  # by job: drivers that took it up after one that nobody had killed
        self._faults = Faults(self._component, backend, prepared.carried)
        self.address = ""
        self.epoch = 0.0  # Unix seconds: the run's clock starts here
        self.ending = Ending()

    @property
    def recording(self) -> bool:
        """Whether there is a journal, that a report can be made of."""
        return bool(self.address)

    @property
    def suspended(self) -> frozenset[str]:
        """The devices, the jobs, and the coordinator, if the timeline suspends their processes."""
        targets = (action.target for action in self._prepared.timeline if action.verb is Verb.SUSPEND)
        return frozenset(target.rpartition(" ")[2] for target in targets)

    @property
    def running(self) -> bool:
        """Whether the run's clock has started: what fails earlier makes the run pointless."""
        return self.recording and 0.0 < self.epoch <= time.time()

    async def start(self) -> None:
        """Start all components. Raises the error of the first that cannot start."""
        await self._backend.make()
        began = time.monotonic()
        await self._coordinator.start()
        self.address = self._backend.reached(await self._coordinator.announced(READY_WITHIN_S))
        one_s = time.monotonic() - began  # for one of our programs to be warm, on this machine as busy as it is now
        others = len(self._scenario.jobs) + len(self._prepared.hosts)
        self.epoch = time.time() + FIRST_START_S + self._backend.start_cost_s(others, one_s)
        self._drivers |= {name: self._backend.driver(name, self.epoch) for name in self._scenario.jobs}
        self._hosts |= {host.name: self._backend.device_host(host, self.epoch) for host in self._prepared.hosts}
        for program in (*self._drivers.values(), *self._hosts.values()):
            await program.start()
        await self._backend.read_back()

    async def until_done(self) -> None:
        """Wait until every driver has ended, a part that the run needs has died, or the duration is over."""
        jobs = asyncio.create_task(self._follow_drivers())
        vital = [asyncio.create_task(self._follow_program(each)) for each in (self._coordinator, *self._backend.others)]
        vital += [asyncio.create_task(self._follow_host(host)) for host in self._prepared.hosts]
        vital += [asyncio.create_task(self._inject())] if self._prepared.timeline else []
        budget = max(0.0, self.epoch + self._scenario.duration - time.time())
        try:
            done, _ = await asyncio.wait([jobs, *vital], timeout=budget, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                _raise_first(task)
            if jobs not in done:
                self.ending.gave_up = True
                self._say(f"gave up after {self._scenario.duration:g} s: jobs are unfinished")
        finally:
            for task in (jobs, *vital):
                task.cancel()
            await asyncio.gather(jobs, *vital, return_exceptions=True)

    async def coordinator_returned(self) -> bool:
        """Wait until the coordinator is there again; False: the timeline has not killed it."""
        return await self._faults.returned(Whom.COORDINATOR)

    async def stop(self) -> None:
        """Stop all components, even if cancelled meanwhile."""
        stopping = asyncio.create_task(self._stop())
        while not stopping.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({stopping})
        stopping.result()

    async def _stop(self) -> None:
        """Stop drivers, then devices (they say goodbye), then the coordinator (it drains and ends its journal)."""
        ended: list[object] = []
        for programs in (self._drivers, self._hosts):
            ended += await asyncio.gather(*(each.stop() for each in programs.values()), return_exceptions=True)
        others = [other.stop() for other in self._backend.others]
        ended += await asyncio.gather(self._coordinator.stop(DRAIN_GRACE_S), *others, return_exceptions=True)
        self._folder.forget_keys()
        errors = [each for each in ended if isinstance(each, BaseException)]
        await self._backend.remove(at_once=bool(errors))
        if errors:
            raise errors[0]

    async def _inject(self) -> None:
        """Carry out the timeline; the run goes on after it."""
        injector = Injector(self._prepared.timeline, self._folder.churn, self._faults)
        try:
            await injector.run(self.epoch)
            await asyncio.Event().wait()
        finally:
            await injector.end()

    def _component(self, target: str) -> Component | None:
        """The component of a target of the timeline; None: it has none to itself."""
        if target == Whom.COORDINATOR:
            return self._coordinator
        if target == Whom.BROKER:
            return next(other for other in self._backend.others if other.name == Whom.BROKER)
        word, _, job = target.partition(" ")
        if word == Whom.DRIVER:
            return self._drivers[job]
        alone = any(host.single and host.name == target for host in self._prepared.hosts)
        return self._hosts[target] if alone else None

    async def _follow_program(self, program: Component) -> None:
        """Start the coordinator, or another program, again if the timeline killed it; raise if it died otherwise."""
        while True:
            await program.wait()
            if not await self._faults.released(program.name):
                raise program.failure()
            await program.stop()
            kills = self._faults.kills(program.name)
            await program.start()
            if program is self._coordinator:
                try:
                    await program.announced(READY_WITHIN_S)
                except PeerError:
                    if self._faults.kills(program.name) == kills:
                        raise
                    continue  # the timeline has killed it again as it started
            self._faults.started(program.name)

    async def _follow_host(self, host: DeviceHost) -> None:
        """Start a host again when a crash killed it; raise if it died of anything else."""
        program = self._hosts[host.name]
        while (code := await program.wait()) != ExitCode.OK:
            if code != -signal.SIGKILL or not host.single:
                raise program.failure()
            await program.stop()  # what is left of its group
            await program.start()
        await asyncio.Event().wait()  # its devices have no session left: nothing more can happen to it

    async def _follow_drivers(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name in self._drivers:
                group.create_task(self._follow_driver(name))

    async def _follow_driver(self, name: str) -> None:
        driver = self._drivers[name]
        while (code := await driver.wait()) < 0 and await self._may_resume(name):
            killed = signal.Signals(-code).name
            self._say(f"the driver of {name} was killed by {killed}: another one continues its job")
            await driver.stop()
            driver.resume()
            await driver.start()
            self._faults.started(f"{Whom.DRIVER} {name}")
        if code not in (ExitCode.OK, ExitCode.FAILED):
            failure = driver.failure()
            if not self.running:
                raise failure
            self.ending.failures.append(failure)
            self._warn(str(failure))

    async def _may_resume(self, name: str) -> bool:
        """Whether a driver that was killed may continue: always after the timeline, else ``MOST_RESUMES`` times."""
        if not await self._faults.released(f"{Whom.DRIVER} {name}"):
            self._resumed[name] += 1
        return self._resumed[name] <= MOST_RESUMES


def _raise_first(task: asyncio.Task[None]) -> None:
    """Raise what a part that the run needs, or a driver before the start, ended with."""
    try:
        task.result()
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
