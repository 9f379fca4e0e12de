"""The backend ``compose``: the components of a run are containers."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from docker.models.containers import Container as Made

from testbed.live.backend import broker, commands
from testbed.live.backend.prepare import DeviceHost, capacity
from testbed.live.backend.protocol import Run
from testbed.live.containers import engine
from testbed.live.containers.compose import (
    COORDINATOR,
    INSIDE,
    POPULATION,
    Layout,
    changed_variables,
    driver,
    packed,
    scale_flags,
    write_project,
)
from testbed.live.containers.container import ComposeProject, Container, settings
from testbed.live.containers.engine import cores_of, image_name, memory_of
from testbed.live.throttle.account import Account, not_held, used_by_device, write_held
from testbed.live.throttle.tc import RefusedError
from testbed.live.throttle.throttles import enforceable, make_plan
from testbed.runfolder.machine import free_port
from testbed.world.limits import changed
from testbed.world.timeline import LinkChange
from venn.wire.errors import CannotEnforceError, VennError
from venn.wire.files import JsonLines, write_atomic
from venn.wire.process import PREFIX, own_mark

MOST_COST_S = 3.0  # of a core, for one to be warm: a coordinator that took longer was alone in having to wait
HANGS_UP_WITHIN_S = 10.0  # a slow one takes a second; a coordinator that hears nothing for so long says silent
LOOK_S = 0.2
DEVICE_COST = 1.5  # as much as a coordinator to start: it has a worker, and may have a relay


class Containers:
    """The components of one run as containers, one for each device; see ``Backend``."""

    def __init__(self, run: Run) -> None:
        """Plan the limits. Raises CannotEnforceError, also where there is no engine, image or Compose."""
        self._scenario, self._folder, self._validate = run.scenario, run.folder, run.validate
        self._layout = Layout(run.scenario, run.folder, run.prepared, run.allow_degraded)
        self._port = free_port()
        self._made: dict[str, Made] = {}  # by part
        self._parts: dict[str, Container] = {}
        client = engine.connect()
        try:
            engine.check_image(client)
            program = engine.compose_program()
            plan = make_plan(run.scenario, engine.machine_of(client))
            enforceable(plan, allow_degraded=run.allow_degraded, degraded=run.degraded)
        except BaseException:
            client.close()
            raise
        self._project = ComposeProject(client, program, PREFIX + own_mark(), run.folder.compose, own_mark())
        broken = [broker.NAME] if broker.is_broken(run.scenario) else []
        self._others = [self._container(name, name, run.folder.root / f"{name}.log") for name in broken]
        self._limited = [device for device in run.prepared.devices if device.fleet in plan.fleets]
        self._account = Account(plan, {device.device: device.fleet for device in self._limited})

    async def make(self) -> None:
        services = self._layout.services(port=self._port, validate=self._validate)
        scale = scale_flags(services)
        write_atomic(
            self._folder.compose, write_project(services, image_name(), own_mark(), self._project.up_command(scale))
        )
        found = await self._project.up(scale, self._ended)
        self._made = {part: found[place] for part, place in self._layout.places().items()}
        await _together(self._load(part) for part in self._made)
        for other in self.others:
            await other.start()

    async def _load(self, part: str) -> None:
        archive = packed(await asyncio.to_thread(self._layout.files, part))
        await self._project.order(f"{part} was not given its files", self._made[part].put_archive, "/", archive)

    def coordinator(self) -> Container:
        return self._container(COORDINATOR, COORDINATOR, self._folder.root / "coordinator.log")

    def reached(self, said: Mapping[str, object]) -> str:
        return f"127.0.0.1:{self._port}"

    def driver(self, job: str, epoch: float) -> Container:
        own = settings("job.run", {"start-at": commands.start_at(job, self._scenario, epoch)})
        return self._container(driver(job), f"job {job}", self._folder.job(job) / "driver.log", own)

    def device_host(self, host: DeviceHost, epoch: float) -> Container:
        own = settings("agent", {"from": f"{INSIDE}/{POPULATION}:{host.name}", "epoch": epoch})
        return self._container(host.name, host.name, self._folder.device_host(host.name) / "agent.log", own)

    # A device plays its absences as everywhere, so that a crash may be its own or the engine's, whichever comes first.

    async def crash(self, device: str) -> None:
        await self._parts[device].kill()

    async def cut(self, device: str, *, reset: bool) -> None:
        """Take a device's network away. With ``reset`` the coordinator hears first that the device hangs up."""
        if reset:
            await self._hung_up(self._parts[device])
        await self._parts[device].cut_off()

    async def _hung_up(self, device: Container) -> None:
        """Wait until the coordinator has no connection with a device, for ``HANGS_UP_WITHIN_S`` at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HANGS_UP_WITHIN_S):
                address = await device.address()
                while True:
                    if not address or not await self._parts[COORDINATOR].hears(address):
                        return
                    await asyncio.sleep(LOOK_S)

    async def mend(self, device: str) -> None:
        await self._parts[device].connect()

    async def limit(self, device: str, change: LinkChange | None) -> None:
        own = self._scenario.fleets[self._layout.devices[device].fleet].limits
        await self._parts[device].limit(changed_variables(own if change is None else changed(own, change)))

    @property
    def others(self) -> Sequence[Container]:
        return self._others

    def start_cost_s(self, others: int, one_s: float) -> float:
        """Take the slowest device, or all of them on the cores of this machine."""
        slowest = min((fleet.cores or 1.0 for fleet in self._scenario.fleets.values()), default=1.0)
        each_s = min(DEVICE_COST * one_s, MOST_COST_S)
        return each_s * max(1 / min(1.0, slowest), others / capacity().cores)

    async def read_back(self) -> None:
        """Check the limits that the engine has. Those of links each container reads itself (``not_in_force``)."""
        for device, fleet in self._account.fleet_of.items():
            plan, made = self._account.plan.fleets[fleet], self._made[device]
            await self._project.order("it cannot be looked at", made.reload)
            try:
                self._account.read(plan, "cores", plan.limits.cores, cores_of(made))
                self._account.read(plan, "memory_limit", plan.limits.memory_bytes, memory_of(made))
            except RefusedError as error:
                raise CannotEnforceError("CANNOT_ENFORCE", str(error), fix="see `venn doctor`") from error

    async def remove(self, *, at_once: bool = False) -> None:
        """Fetch what the containers wrote, and remove them."""
        errors = await self._fetch_outputs()
        await self._project.down()
        if errors and not at_once:
            raise errors[0]

    async def _fetch_outputs(self) -> list[VennError]:
        errors = []
        with JsonLines(self._folder.containers) as lines:
            for name, part in self._parts.items():
                try:
                    if about := await part.fetch_output(self._home(name)):
                        lines.write(about)
                except VennError as error:
                    errors.append(error)
        return errors

    def _home(self, part: str) -> Path:
        """The folder for what a part wrote: a device's own, or the run folder."""
        return self._folder.device_host(part) if part in self._layout.devices else self._folder.root

    @property
    def limited(self) -> bool:
        return bool(self._limited)

    def not_in_force(self) -> list[str]:
        restarted = {name for name, part in self._parts.items() if part.starts > 1}
        problems = not_held(self._folder, self._limited, restarted=restarted)
        return [*problems, *self._account.too_fast(used_by_device(self._folder.root))]

    def describe(self, degraded: Sequence[str]) -> None:
        write_held(self._folder, self._limited, degraded)

    def _container(self, part: str, name: str, log: Path, own: str = "") -> Container:
        made = Container(name, self._project, lambda: self._made.get(part), log=log, settings=own)
        self._parts[part] = made
        return made

    def _ended(self, identity: str, code: int) -> None:
        for part, made in self._made.items():
            if made.id == identity and part in self._parts:
                self._parts[part].ended(code)


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all of them to their ends; raise what the first that failed raised."""
    for each in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(each, BaseException):
            raise each
