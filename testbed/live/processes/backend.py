"""The backend ``process``: the components of a run are processes of this machine."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence

from testbed.live.backend import broker, commands
from testbed.live.backend.prepare import DeviceHost, capacity
from testbed.live.backend.protocol import Run
from testbed.live.processes.programs import Program, kill_all
from testbed.live.throttle.account import used_by_device
from testbed.live.throttle.means import NOTHING, probe
from testbed.live.throttle.throttles import Throttles, enforceable, make_plan
from testbed.runfolder.machine import free_port
from testbed.world.limits import Limits
from testbed.world.timeline import LinkChange
from venn.wire.errors import CannotEnforceError
from venn.wire.files import write_atomic
from venn.wire.keys import ensure_keys

READY_WITHIN_S = 60.0


class Processes:
    """The components of one run as processes; see ``Backend``."""

    def __init__(self, run: Run) -> None:
        """Plan the limits. Raises CannotEnforceError: a limit, or the broker, cannot be had on this machine."""
        self._scenario, self._folder, self._prepared, self._validate = (
            run.scenario,
            run.folder,
            run.prepared,
            run.validate,
        )
        limited = any(fleet.limits != Limits() for fleet in run.scenario.fleets.values())
        machine = probe() if limited else NOTHING
        plan = enforceable(make_plan(run.scenario, machine), allow_degraded=run.allow_degraded, degraded=run.degraded)
        self._throttles = Throttles(plan, machine, run.folder, run.prepared.hosts, run.scenario.seed)
        self._coordinator: Program
        self._relay: Program | None = None
        self._broker = self._make_broker() if broker.is_broken(self._scenario) else None
        self._address = ""

    async def make(self) -> None:
        """Make what slows devices down, start the relay, and the broker if there is one."""
        self._throttles.make()
        proxies: object = {}
        if (links := self._throttles.links) is not None:
            arguments = ["relay", str(links), "--counts", str(self._throttles.counts)]
            self._folder.relay_load.parent.mkdir(exist_ok=True)
            arguments += ["--load", str(self._folder.relay_load)]
            self._relay = Program("relay", arguments, log=self._folder.root / "relay.log", announces=True, listens=True)
            await self._relay.start()
            proxies = (await self._relay.announced(READY_WITHIN_S)).get("listening")
        self._throttles.write(proxies if isinstance(proxies, dict) else {})
        if self._broker is not None:
            ensure_keys(self._folder.keys)  # makes the folder
            write_atomic(self._folder.keys / broker.NAME, secrets.token_hex(32) + "\n", mode=0o600)
            await self._broker.start()

    def _make_broker(self) -> Program:
        """The broker, which is not started yet. Raises CannotEnforceError: there is no Mosquitto."""
        broker.find_programs()
        arguments = ["broker", str(self._folder.keys / broker.NAME), "--listen", f"127.0.0.1:{free_port()}"]
        return Program(broker.NAME, arguments, log=self._folder.root / f"{broker.NAME}.log")

    def coordinator(self) -> Program:
        arguments = commands.coordinator(self._scenario, self._folder, validate=self._validate)
        log = self._folder.root / "coordinator.log"
        self._coordinator = Program("coordinator", arguments, log=log, announces=True)
        return self._coordinator

    def reached(self, said: Mapping[str, object]) -> str:
        """The coordinator's address, where it listens again if it is started again."""
        self._address = str(said["listening"])
        self._coordinator.arguments = commands.listening(self._coordinator.arguments, self._address)
        return self._address

    def driver(self, job: str, epoch: float) -> Program:
        arguments = commands.job(
            job,
            self._scenario,
            self._folder,
            to=self._address,
            run=self._folder.root.name,
            held_out=self._prepared.held_out.get(self._scenario.jobs[job].data or ""),
            epoch=epoch,
        )
        return Program(f"job {job}", arguments, log=self._folder.job(job) / "driver.log")

    def device_host(self, host: DeviceHost, epoch: float) -> Program:
        arguments = commands.devices(
            host,
            self._scenario,
            self._folder,
            to=self._address,
            epoch=epoch,
            throttle=self._throttles.flags(host),
            measured=self._throttles.measured(host),
        )
        log = self._folder.device_host(host.name) / "agent.log"
        return Program(host.name, arguments, log=log, within=self._throttles.within(host))

    async def crash(self, device: str) -> None:
        """Do nothing: a device kills itself."""

    async def cut(self, device: str, *, reset: bool) -> None:
        await self._order(device, "cut")
        if reset:
            await self._order(device, "reset")

    async def mend(self, device: str) -> None:
        await self._order(device, "mend")

    async def limit(self, device: str, change: LinkChange | None) -> None:
        wanted = await asyncio.to_thread(self._throttles.relink, device, change)
        said = await self._order(device, "limit", wanted)
        if {key: said.get(key) for key in wanted} != wanted:
            raise CannotEnforceError("NOT_IN_FORCE", f"the link should be {wanted}, and is {said}", where=device)

    async def _order(self, device: str, do: str, to: Mapping[str, object] | None = None) -> dict[str, object]:
        assert self._relay is not None
        return await self._relay.ask({"device": device, "do": do, "to": to})

    @property
    def others(self) -> Sequence[Program]:
        return [other for other in (self._relay, self._broker) if other is not None]

    def start_cost_s(self, others: int, one_s: float) -> float:
        return one_s * others / capacity().cores

    async def read_back(self) -> None:
        """Do nothing: limits are read back when they are made."""

    async def remove(self, *, at_once: bool = False) -> None:
        if at_once:
            kill_all()
        self._throttles.remove()

    @property
    def limited(self) -> bool:
        return self._throttles.any

    def not_in_force(self) -> list[str]:
        problems = self._throttles.account.too_fast(used_by_device(self._folder.root))
        if past := self._throttles.bypassed():
            problems.append(f"{len(past)} devices moved bytes past their links, {past[0]} among them")
        return problems

    def describe(self, degraded: Sequence[str]) -> None:
        self._throttles.account.write(self._folder.root, degraded)
