"""Devices in this process: one, or a swarm; each with its own connection, all with one pool of workers."""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from device_agent.activity import ActivityLog
from device_agent.artifacts import ArtifactStore
from device_agent.assignment import Resources
from device_agent.bounds import AgentBounds
from device_agent.confine.inforce import CONFINED, InForce, write_in_force
from device_agent.confine.settings import Confinement, named_together
from device_agent.confine.syscalls import PR_SET_DUMPABLE, prctl
from device_agent.connection import FirstContact, Refused
from device_agent.device import Device, Setting
from device_agent.machine import AllowedCode
from device_agent.spec import DeviceSpec, read_trace, upcoming
from device_agent.terms import Terms
from device_agent.throttle import NOTHING, Throttle
from device_agent.workers import WorkerPool
from venn.wire.channel import ignore_no_proxy
from venn.wire.command import Context, run_async
from venn.wire.errors import CannotEnforceError, UsageError
from venn.wire.exits import write_line
from venn.wire.files import file_error
from venn.wire.login import log_in
from venn.wire.logs import log
from venn.wire.process import reuse_freed_memory

DIAL_SPREAD_S = 0.005  # between the starts of two devices of a swarm: a dial takes milliseconds of the loop
SETTLED_S = 1.0  # before the epoch: by then all are there whose availability does not begin later

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The devices to run, and how; ``done`` counts while they run."""

    specs: Sequence[DeviceSpec]
    coordinator: str
    keys: Path | None  # a folder
    insecure: bool
    allowed: AllowedCode
    modelled: bool  # task time is compute / cpu
    crash_kills: bool
    folder: Path | None  # for receipts, sessions and load
    epoch: float  # Unix time at which availability begins
    trace: Path | None
    first_interval: int
    patience_s: float
    workers: int
    throttle: Throttle = NOTHING
    confinement: Confinement = field(default_factory=Confinement)
    bounds: AgentBounds = field(default_factory=AgentBounds)
    done: dict[str, int] = field(default_factory=dict)


def shares_of(specs: Sequence[DeviceSpec]) -> dict[str, tuple[Path, ...]]:
    """What a job on each data set may read: the shares of it of all devices here, which have the same owner."""
    paths: dict[str, list[Path]] = {}
    for spec in specs:
        for name, path in spec.data.items():
            paths.setdefault(name, []).append(path)
    return {name: named_together(own) for name, own in paths.items()}


def likely_data(shares: Mapping[str, tuple[Path, ...]]) -> tuple[Path, ...]:
    """What the first job probably reads: the only data set that there is."""
    return next(iter(shares.values())) if len(shares) == 1 else ()


class HeldBy:
    """Tells what holds job code here: a line in the log, and ``confined.json`` in the folder; anew when it changes."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._last: InForce | None = None

    def note(self, in_force: InForce) -> None:
        """Note what holds a worker that has started."""
        now = replace(in_force, user=None if in_force.user is None else -1)  # which of many makes no difference
        if now == self._last:
            return
        self._last = now
        level = logging.INFO if in_force.holds else logging.WARNING
        log(logger, level, f"job code is confined by: {in_force}")
        if not in_force.holds and sys.platform == "linux":  # keep at least other processes of this user out of ours
            prctl(PR_SET_DUMPABLE, 0)
        if self._folder is not None:
            try:
                write_in_force(self._folder / CONFINED, in_force)
            except OSError as error:
                log(logger, logging.WARNING, str(file_error(error, self._folder / CONFINED)))


def swarm_workers() -> int:
    """The default number of workers: one less than there are cores, at least one."""
    return max(1, (os.cpu_count() or 1) - 1)


def run_hosted(run: Run, context: Context) -> int:
    """Run the devices until the end or a signal; with --json, print at the end what was done. Returns the exit code."""
    reuse_freed_memory()
    code = run_async(run_devices(run))
    if context.json:
        write_line(sys.stdout, json.dumps({"devices": len(run.specs), **run.done}))
    return code


async def run_devices(run: Run) -> int:
    """Run all devices until their intervals end.

    Raises UsageError; Lost for a device that never met the coordinator; Refused if all devices were refused.
    """
    if not run.specs:
        raise UsageError("NO_DEVICES", "there is no device", fix="give at least one")
    trace = None if run.trace is None else read_trace(run.trace)
    login = log_in("device", run.coordinator, run.keys, insecure=run.insecure)
    activity = ActivityLog(run.folder)
    if run.throttle.proxies:
        ignore_no_proxy()
    shares = shares_of(run.specs)
    held = HeldBy(run.folder)
    pool = WorkerPool(run.workers, throttle=run.throttle, confinement=run.confinement, told=held.note)
    setting = Setting(
        login=login,
        insecure=run.insecure,
        epoch=run.epoch,
        resources=Resources(
            pool,
            ArtifactStore(run.bounds.artifacts),
            Terms(run.allowed, run.bounds, run.folder, authority=login.authority),
            run.modelled,
            shares,
        ),
        activity=activity,
        first_contact=FirstContact(run.patience_s),
        level=logging.INFO if len(run.specs) == 1 else logging.DEBUG,  # of many, it would be a flood
        crash_kills=run.crash_kills,
        proxies={spec.device: proxy for spec in run.specs if (proxy := run.throttle.proxy(spec.device))},
    )
    now_s = time.time() - run.epoch
    devices = [Device(spec, setting, upcoming(spec.intervals(trace), now_s, run.first_interval)) for spec in run.specs]
    try:
        await _run_all(devices, pool, activity, run.epoch, likely_data(shares))
    finally:
        run.done.update(activity.counts())
        activity.close()
    return 0


async def _run_all(
    devices: Sequence[Device], pool: WorkerPool, activity: ActivityLog, epoch: float, data: tuple[Path, ...]
) -> None:
    refusals: list[Refused] = []
    watching = asyncio.create_task(activity.watch_load())
    try:
        await _warm(pool, data)
        async with asyncio.TaskGroup() as group:
            for device, after_s in zip(devices, start_delays(len(devices), epoch - time.time()), strict=True):
                group.create_task(_run_device(device, refusals, after_s))
    finally:
        await pool.close()
        watching.cancel()
        await asyncio.wait({watching})
    if len(refusals) == len(devices):
        raise refusals[-1]
    if refusals:
        log(logger, logging.ERROR, f"{len(refusals)} of {len(devices)} devices were refused, the last: {refusals[-1]}")


async def _warm(pool: WorkerPool, data: tuple[Path, ...]) -> None:
    try:
        await pool.warm(data)
    except OSError as error:
        message = f"no worker process could be started: {error}"
        raise CannotEnforceError("NO_WORKER", message, fix="see `venn agent doctor`") from error


def start_delays(count: int, epoch_in_s: float) -> list[float]:
    """The seconds after which each device may begin: one after the other, in their order, and where time allows so late
    that the last begins just before the epoch. Who is there at the epoch is then there as if it always had been.
    """
    first_s = max(0.0, epoch_in_s - SETTLED_S - count * DIAL_SPREAD_S)
    return [first_s + number * DIAL_SPREAD_S for number in range(count)]


async def _run_device(device: Device, refusals: list[Refused], after_s: float) -> None:
    await asyncio.sleep(after_s)
    try:
        await device.run()
    except* Refused as group:
        for error in group.exceptions:
            assert isinstance(error, Refused)
            refusals.append(error)
            log(logger, logging.INFO, f"refused permanently: {error}", device=device.spec.device)
