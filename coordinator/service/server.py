"""The coordinator, assembled: engine, host, services, on one port; started, drained, stopped."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import grpc
from grpc_reflection.v1alpha import reflection

from coordinator.engine.engine import Engine
from coordinator.engine.events import CoordinatorRestarted
from coordinator.engine.model import EngineSettings
from coordinator.engine.plan import Policy
from coordinator.service import admin_service, auth, device_service, identity_service, job_service
from coordinator.service.admin_service import AdminService
from coordinator.service.admission import Admission
from coordinator.service.bounds import CoordinatorBounds
from coordinator.service.device_service import DeviceService
from coordinator.service.durability import Durability
from coordinator.service.event_log import EventLog
from coordinator.service.facts import Facts
from coordinator.service.follow import Followers
from coordinator.service.host import CallLater, Clock, Host, boot_clock
from coordinator.service.job_service import JobService
from coordinator.service.jobs import Jobs, Ledger, Offers
from coordinator.service.journal import SEGMENT_BYTES, Journal, Start, Written
from coordinator.service.policy import policy_of
from coordinator.service.restore import Restored, different, restore
from coordinator.service.secret import Secret, kept_secret
from coordinator.service.segments import EVENTS, LOCK
from coordinator.service.view import Machine, View
from venn.v1.admin_pb2_grpc import add_AdminServiceServicer_to_server
from venn.wire import health
from venn.wire.admission import SOFTWARE
from venn.wire.authority import ServerCertificate
from venn.wire.bounds import Refusals
from venn.wire.channel import bind, make_server
from venn.wire.health import Health
from venn.wire.keys import LocalKeys
from venn.wire.locks import locked_folder
from venn.wire.logs import log
from venn.wire.open_calls import OpenCalls
from venn.wire.process import LagMonitor

STOP_GRACE_S = 0.5  # for calls that are under way when the server stops
SERVICES = (auth.SERVICE, identity_service.SERVICE, device_service.SERVICE, job_service.SERVICE, admin_service.SERVICE)
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """The settings of a coordinator. ``folder`` receives events.jsonl and load.jsonl; without one, nothing is."""

    engine: EngineSettings
    keys: LocalKeys
    listen: str = "127.0.0.1:0"
    name: str = ""
    folder: Path | None = None
    insecure: bool = False
    certificate: ServerCertificate | None = None  # None: nothing is encrypted
    reflection: bool = False
    allow_faults: bool = False
    validate: bool = False
    durability: Durability = Durability.TURN
    keep_journal: int | None = None  # bytes of all segments; None: all are kept
    segment_bytes: int = SEGMENT_BYTES
    bounds: CoordinatorBounds = field(default_factory=CoordinatorBounds)
    clock: Clock = field(default_factory=boot_clock)
    call_later: CallLater | None = None


class Coordinator:
    """One coordinator with all its parts. Made by ``running``."""

    def __init__(self, settings: CoordinatorSettings, policy: Policy) -> None:
        self.settings, self._policy = settings, policy
        secret = self._secret()
        life = self._begin()
        self.engine, self.journal, self._restored = life.engine, life.journal, life.restored
        self.host = Host(
            self.engine,
            clock=life.clock,
            wall_ms=life.wall_ms,
            incarnation=life.incarnation,
            call_later=settings.call_later,
            journal=self.journal,
            facts=life.facts,
            durability=settings.durability,
            validate=settings.validate,
        )
        self.refusals = Refusals()
        self.jobs = Jobs(self.host, secret)
        offers = Offers(self.host, self.jobs, self.engine.settings)
        # The ledger listens first, the event log before the services: each may rely on those before it.
        self.ledger = Ledger(self.host)
        self.log = EventLog(self.host, self.ledger)
        self.devices = DeviceService(self.host, self.engine.settings, offers, settings.bounds, self.refusals)
        self.followers = Followers(self.host, self.jobs, self.devices, self.ledger, self.engine.settings)
        self.lag = LagMonitor(settings.folder / "load.jsonl" if settings.folder else None)
        self.machine = Machine(self.lag)
        self.view = View(
            self.host,
            jobs=self.jobs,
            log=self.log,
            machine=self.machine,
            name=settings.name,
            policy=self.engine.world.policy,
            seed=self.engine.settings.seed,
            refused=self.refusals.times,
        )
        self.admission = Admission(
            self.host, settings.keys, settings.certificate, clock=settings.clock, keeps=settings.folder is not None
        )
        self.job_service = JobService(
            self.host,
            jobs=self.jobs,
            offers=offers,
            followers=self.followers,
            ledger=self.ledger,
            devices=self.devices,
            view=self.view,
            admission=self.admission,
            secret=secret,
            insecure=settings.insecure,
            bounds=settings.bounds,
            refusals=self.refusals,
        )
        owners = self.admission.owners
        self.admin = AdminService(
            self.host, self.view, self.log, self.devices, owners, allow_faults=settings.allow_faults
        )
        self.health = Health(SERVICES, settings.bounds, self.refusals)
        self.address = ""

    def _secret(self) -> Secret:
        """Its own secret, in its folder if it has one."""
        folder = self.settings.folder
        return Secret() if folder is None else kept_secret(folder)

    def _begin(self) -> "_Life":
        """A new engine with a new journal, or those of the coordinator that was here before."""
        settings, folder = self.settings, self.settings.folder
        wall_ms = int((time.time() - settings.clock()) * 1000)  # at 0 of our own clock
        restored = restore(folder, policy_of) if folder is not None else None
        if folder is None or restored is None:
            engine = Engine(settings.engine, self._policy)
            start = Start(settings.engine, incarnation=wall_ms, wall_ms=wall_ms, name=settings.name, software=SOFTWARE)
            journal = self._journal(folder, start) if folder is not None else None
            return _Life(engine, journal, Facts(), settings.clock, wall_ms, wall_ms, None)
        start, clock = restored.start, settings.clock
        ahead_s = max((wall_ms - start.wall_ms) / 1000, restored.last_s - clock())  # of our own clock
        journal = self._journal(folder, start, restored.written)
        wall_ms, incarnation = start.wall_ms, start.incarnation
        now = partial(_ahead, clock, ahead_s)
        return _Life(restored.engine, journal, restored.facts, now, wall_ms, incarnation, restored)

    def _journal(self, folder: Path, start: Start, written: Written | None = None) -> Journal:
        settings = self.settings
        long, keep = settings.segment_bytes, settings.keep_journal
        reserves = settings.durability is Durability.TURN
        return Journal(folder / EVENTS, start, written=written, segment_bytes=long, keep_bytes=keep, reserves=reserves)

    def go_on(self) -> None:
        """Tell the engine of the restart, if this is one; then devices and drivers may come."""
        if (restored := self._restored) is None:
            return
        engine, asked = self.engine, self.settings.engine
        away_s = self.host.now() - restored.last_s
        text = f"the coordinator goes on, {away_s:.1f} s after its last record"
        counts = {"jobs": len(engine.jobs), "leases": len(engine.leases), "devices": len(engine.devices)}
        self.log.add(self.host.now(), "RESTARTED", text, **counts)
        if others := different(engine.settings, asked):
            message = "settings are those that this coordinator began with: " + ", ".join(others)
            log(logger, logging.WARNING, message)
        self.host.handle(CoordinatorRestarted(restored.stopped))

    def make_server(self) -> grpc.aio.Server:
        """The server with every service, all behind the guard; reflection, if wanted, is the admin's."""
        bounds = self.settings.bounds
        open_calls = OpenCalls({health.SERVICE, auth.SERVICE}, bounds, self.refusals)
        server = make_server(bounds=bounds, interceptors=[self.admission.guard, open_calls])
        self.admission.add_to(server)
        server.add_generic_rpc_handlers((self.devices.handlers(),))
        self.job_service.add_to(server)
        add_AdminServiceServicer_to_server(self.admin, server)
        self.health.add_to(server)
        if self.settings.reflection:
            reflection.enable_server_reflection((*SERVICES, reflection.SERVICE_NAME), server)
        return server

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch the machine meanwhile. If that fails, as on a full disk, the coordinator cannot go on."""
        watchers = [asyncio.create_task(watcher.run()) for watcher in (self.lag, self.machine)]
        for watcher in watchers:
            watcher.add_done_callback(self._watcher_ended)
        try:
            yield
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.wait(watchers)

    def _watcher_ended(self, watcher: "asyncio.Task[None]") -> None:
        error = None if watcher.cancelled() else watcher.exception()
        if error is not None:
            self.host.fail(error)

    async def drain(self, timeout_s: float) -> None:
        """Refuse newcomers, send devices away, wait for their goodbyes, at most so many seconds; then end the rest."""
        self.health.serving(False)
        await self.devices.drain(timeout_s)
        self.followers.dismiss()


class _Life(NamedTuple):
    """The parts with which a coordinator begins, or goes on."""

    engine: Engine
    journal: Journal | None
    facts: Facts
    clock: Clock
    wall_ms: int  # Unix milliseconds at engine time 0
    incarnation: int
    restored: Restored | None


def _ahead(clock: Clock, ahead_s: float) -> float:
    return clock() + ahead_s


@asynccontextmanager
async def running(settings: CoordinatorSettings, policy: Policy) -> AsyncIterator[Coordinator]:
    """A coordinator that serves, until the block is left. ``host.failure`` says if it cannot go on.

    Raises UsageError NOT_LOOPBACK, PORT_IN_USE, DIR_LOCKED, those of ``restore``, and PeerError OUT_OF_SPACE.
    """
    folder = settings.folder
    with nullcontext() if folder is None else locked_folder(folder, LOCK, "coordinator"):
        coordinator = Coordinator(settings, policy)
        server = coordinator.make_server()
        try:
            coordinator.go_on()
            certificate = settings.certificate
            credentials = grpc.ssl_server_credentials([(certificate.key, certificate.chain)]) if certificate else None
            coordinator.address = bind(server, settings.listen, insecure=settings.insecure, credentials=credentials)
            await server.start()
            coordinator.health.serving(True)
            log(logger, logging.INFO, "listening", address=coordinator.address, policy=coordinator.view.policy)
            if settings.insecure:
                log(logger, logging.WARNING, "others can reach this coordinator, and nothing is encrypted")
            async with coordinator.watching():
                yield coordinator
        finally:
            coordinator.job_service.exchanges.end()
            await server.stop(STOP_GRACE_S)
            coordinator.host.close()


def new_seed() -> int:
    """A seed for those who name none: 32 random bits, so that people can type it again."""
    return secrets.randbits(32)
