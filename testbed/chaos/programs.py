"""The programs of a world: the product's coordinator, drivers and agents, with the settings of a script."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coordinator.engine.model import EngineSettings
from coordinator.service.policy import policy_of
from coordinator.service.server import Coordinator, CoordinatorSettings, running
from device_agent.actions import LeaseKey, LeaseOver, TaskFailed
from device_agent.activity import ActivityLog
from device_agent.answers import Output
from device_agent.artifacts import ArtifactStore
from device_agent.assignment import Resources
from device_agent.bounds import AgentBounds
from device_agent.connection import FirstContact
from device_agent.device import Device, Setting
from device_agent.machine import AllowedCode
from device_agent.spec import DeviceSpec
from device_agent.terms import Terms
from device_agent.worker_process import Work
from job_driver.driver import JobResult, run_job
from job_driver.job import Round
from job_driver.settings import Settings
from testbed.chaos.books import Books
from testbed.chaos.process import EPOCH_S, Process
from testbed.chaos.script import COORDINATOR, DevicePlan, JobPlan, Script
from testbed.chaos.tally import JOB, PAD, job_file, response
from venn.v1 import common_pb2, device_pb2
from venn.wire.keys import Key, LocalKeys, Role, key_file
from venn.wire.login import Login
from venn.wire.requirements import parse_requirement

PORT = 9700
FAILS = 0.03  # of tasks; and of responses as many are refused
PLENTY = 2**40  # bytes that are free on a device's disk
PATIENCE_S = 1e9  # with a coordinator: the supervisor starts it again


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a program of a world needs to know of it."""

    script: Script
    coordinator: str  # its address
    keys: Path  # a folder with the key of each role
    books: Books
    up: Callable[[Coordinator], None]  # a coordinator serves
    round_closed: Callable[[str], None]  # a driver has published a round
    job_over: Callable[[str, JobResult], None]


@cache
def local_keys() -> LocalKeys:
    """The keys of all worlds: the same always, so that a seed gives one history."""
    device, job, admin = (_key(ec.derive_private_key(number, ec.SECP256R1())) for number in (1, 2, 3))
    return LocalKeys(device, job, admin, "0" * 32)


def _key(private: ec.EllipticCurvePrivateKey) -> Key:
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return Key(private, private.public_key().public_bytes(encoding, form))


def write_keys(folder: Path) -> None:
    """Write the key of a driver's owner where its programs look for it."""
    folder.mkdir(mode=0o700)
    path = key_file("job", folder)
    path.touch(mode=0o600)
    path.write_bytes(local_keys().job.pem())


def login(role: Role, around: Surroundings) -> Login:
    """The way into the coordinator with the key of a role."""
    return Login(around.coordinator, getattr(local_keys(), role), role)


def engine_settings(script: Script) -> EngineSettings:
    """The settings of the engine: all times go by the heartbeat."""
    liveness = 3 * script.heartbeat_s
    return EngineSettings(
        seed=script.seed,
        policy=script.policy,
        heartbeat_s=script.heartbeat_s,
        liveness_s=liveness,
        accept_timeout_s=liveness,
        driver_grace_s=liveness,
        recovery_grace_s=2 * liveness,
        cooling_first_s=script.heartbeat_s,
        cooling_most_s=20 * script.heartbeat_s,
    )


async def coordinator(process: Process, around: Surroundings) -> None:
    """``venn coordinator``, until it cannot go on."""
    assert process.disk is not None
    started = process.scheduler.now
    settings = CoordinatorSettings(
        engine=engine_settings(around.script),
        keys=local_keys(),
        listen=around.coordinator,
        name=COORDINATOR,
        folder=process.disk.folder / "run",
        insecure=False,
        validate=True,
        clock=lambda: process.scheduler.now - started,
    )
    async with running(settings, policy_of(around.script.policy)) as serving:
        around.up(serving)
        await serving.host.failure


async def driver(process: Process, plan: JobPlan, around: Surroundings) -> None:
    """``venn job run``, with ``--resume`` where there is something to resume."""
    assert process.disk is not None
    folder = process.disk.folder / "job"
    settings = driver_settings(plan, around, folder, ip=process.machine.ip)

    def closed(_: Round) -> None:
        if not process.loop.dead:
            around.round_closed(plan.name)

    result = await run_job(job_file(plan, settings.responses_needed), settings, on_round=closed)
    around.job_over(plan.name, result)


def driver_settings(plan: JobPlan, around: Surroundings, folder: Path, *, ip: str) -> Settings:
    """The settings of a job's driver."""
    requirement = parse_requirement(f"size >= {plan.size:g}") if plan.size else common_pb2.Requirement()
    return Settings(
        name=plan.name,
        run="1",
        coordinator=around.coordinator,
        keys=around.keys,
        requirement=requirement,
        demand=plan.demand,
        buffer=plan.buffer,
        over_commit=Fraction(plan.over_commit),
        min_response=Fraction(plan.min_response),
        deadline_s=plan.deadline_s,
        lease_s=plan.lease_s,
        stragglers=plan.stragglers,  # type: ignore[arg-type]  # a script has one of the two
        repeat=plan.repeat,  # type: ignore[arg-type]
        rounds=plan.rounds,
        params={JOB: plan.name, PAD: plan.pad},
        folder=folder,
        resume=(folder / "checkpoint.json").exists(),
        bind=f"{ip}:0",
        fsync=plan.fsync,
        patience_s=PATIENCE_S,
    )


class Workers:
    """Stands for the pool of worker processes: a task takes virtual time, and makes a response of its own."""

    def __init__(self, plan: DevicePlan, books: Books, rng: Random) -> None:
        self._plan, self._books, self._rng = plan, books, rng

    async def run(self, work: Work) -> Output:
        """Do a task. Raises TaskFailed, LeaseOver."""
        took = self._plan.compute_s * self._rng.uniform(0.3, 2.0)
        try:
            async with asyncio.timeout_at(work.ends_at + work.grace_s):
                await asyncio.sleep(took / 2)
                work.progress(0.5)
                await asyncio.sleep(took / 2)
        except TimeoutError:
            raise LeaseOver(common_pb2.PHASE_ON_DEVICE) from None
        if self._rng.random() < FAILS:
            crashed = common_pb2.FAILURE_REASON_TASK_CRASHED
            raise TaskFailed(common_pb2.PHASE_ON_DEVICE, crashed, "the task failed on purpose")
        token = self._books.new_token()
        body, digest = response(token, int(work.params[PAD]), bad=self._rng.random() < FAILS)
        self._books.made(self._plan.name, token, digest)
        return Output(body, digest, 1.0, {"loss": 0.5}, took, took, 0)


class Receipts(ActivityLog):
    """The log of a device: its receipts go into the books."""

    def __init__(self, books: Books) -> None:
        super().__init__(None)
        self._books = books

    def receipt(self, device: str, key: LeaseKey, receipt: common_pb2.Receipt, measure: device_pb2.TaskMeasure) -> None:
        self._books.receipt(device, key.incarnation, receipt)


async def device(process: Process, plan: DevicePlan, around: Surroundings) -> None:
    """``venn agent``."""
    comes = {"session": f"exp({plan.session:.0f}s)", "gap": f"exp({plan.gap:.0f}s)"} if plan.session else {}
    spec = DeviceSpec(
        device=plan.name,
        seed=around.script.seed,
        numbers={"size": plan.size, "cpu": 1000.0 / plan.compute_s},
        crash=plan.crash,
        **comes,  # type: ignore[arg-type]
    )
    terms = Terms(AllowedCode(everything=True), AgentBounds(), free=lambda folder: PLENTY)
    workers: Any = Workers(plan, around.books, process.rng)
    setting = Setting(
        login=login("device", around),
        epoch=EPOCH_S,
        resources=Resources(workers, ArtifactStore(), terms, modelled=False),
        activity=Receipts(around.books),
        first_contact=FirstContact(PATIENCE_S),
    )
    now = process.wall_s() - EPOCH_S
    intervals = (each for each in spec.intervals() if each.end_s > now)
    await Device(spec, setting, intervals).run()
