"""The work for one lease on one device, from the fetch to the receipt."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from device_agent.actions import StartTask
from device_agent.answers import Output
from device_agent.artifacts import ArtifactStore, Fetched
from device_agent.held import Stage
from device_agent.session import Session
from device_agent.spec import DeviceSpec
from device_agent.terms import Terms, parameters
from device_agent.transfer import Drivers, Response, Transfer
from device_agent.worker_process import Work
from device_agent.workers import WorkerPool
from venn.v1 import common_pb2, device_pb2
from venn.wire.calls import duration

NO_DATA = "/dev/null"


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources that all devices of a process share to do their tasks."""

    pool: WorkerPool
    store: ArtifactStore
    terms: Terms  # of an offer
    modelled: bool  # a result is held until compute / cpu has passed
    shares: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)  # by data set, what its jobs may read


class Finished(NamedTuple):
    """The result of an assignment."""

    receipt: common_pb2.Receipt
    measure: device_pb2.TaskMeasure


class Assignment:
    """The work for one lease on one device."""

    def __init__(
        self,
        start: StartTask,
        spec: DeviceSpec,
        resources: Resources,
        drivers: Drivers,
        fetched: Fetched,
        session: Session,
        rng: random.Random,
    ) -> None:
        """``fetched``: what this device need not fetch again. ``session`` is told how far the work is."""
        self._offer, self._task, self._spec, self._resources = start.offer, start.offer.task, spec, resources
        self._fetched, self._session, self._key = fetched, session, start.key
        self._ends_at, self._grace_s = start.ends_at, start.grace_s
        self._clock = asyncio.get_running_loop().time
        self._measure = device_pb2.TaskMeasure()
        self._drivers, key = drivers, start.offer.attempt.job
        self._job = f"{key.owner}/{key.name}/{key.run}"
        drivers.expect(start.offer.driver_address, start.offer.driver_certificate, self._job)
        self._transfer = Transfer(
            drivers,
            start.offer.driver_address,
            start.offer.ticket,
            lease=start.key.lease,
            ends_at=start.ends_at,
            grace_s=start.grace_s,
            rng=rng,
        )

    def move(self, address: str, certificate: bytes) -> None:
        """Go on with the driver at another address, with this certificate."""
        self._drivers.expect(address, certificate, self._job)
        self._transfer.move(address)

    async def run(self) -> Finished:
        """Do the task; returns the receipt and what the task took. Raises TaskFailed or LeaseOver."""
        began = self._clock()
        code = await self._fetch(self._task.code) if self._task.code.digest else None
        model = await self._fetch(self._task.model)
        ready = self._clock()
        self._measure.fetch.CopyFrom(duration(ready - began))
        self._moved(Stage.WORKING)
        output = await self._resources.pool.run(self._work(code, model))
        await self._hold(output, ready)
        self._moved(Stage.SUBMITTING)
        submitting = self._clock()
        response = Response(output.body, output.digest, output.weight, output.metrics)
        receipt = await self._transfer.submit(response, lambda offset: self._moved(Stage.SUBMITTING, offset))
        self._measure.submit.CopyFrom(duration(self._clock() - submitting))
        self._measure.download_bytes = self._transfer.downloaded
        self._measure.upload_bytes = self._transfer.uploaded
        return Finished(receipt, self._measure)

    def _moved(self, stage: Stage, offset: int = 0) -> None:
        """Note the stage; ``offset``: the bytes that the driver has."""
        self._session.moved(self._key, stage, offset=offset)

    async def _fetch(self, artifact: common_pb2.Artifact) -> bytes:
        known = self._resources.store.get(artifact.digest)
        if known is None or artifact.digest not in self._fetched:
            known = await self._transfer.fetch(artifact, self._resources.store)
        self._fetched.add(artifact.digest)
        return known

    def _work(self, code: bytes | None, model: bytes) -> Work:
        attempt = self._offer.attempt
        share = self._spec.data.get(self._task.data)
        return Work(
            code=code,
            code_digest=self._task.code.digest,
            model=model,
            model_digest=self._task.model.digest,
            params=parameters(self._task),
            data=NO_DATA if share is None else str(share),
            reads=() if share is None else self._resources.shares.get(self._task.data, (share,)),
            device=self._spec.device,
            round=attempt.round,
            attempt=attempt.attempt,
            seed=self._task.seed,
            ends_at=self._ends_at,
            grace_s=self._grace_s,
            progress=lambda fraction: self._session.progressed(self._key, fraction),
        )

    async def _hold(self, output: Output, ready: float) -> None:
        """Hold the result: where time is modelled it waits until it has passed; a task that took longer is late."""
        self._measure.compute.CopyFrom(duration(output.compute_s))
        self._measure.compute_cpu.CopyFrom(duration(output.compute_cpu_s))
        self._measure.held_back = max(0, output.held_back)
        modelled_s = self._modelled_s()
        if modelled_s <= 0:
            return
        due, now = ready + modelled_s, self._clock()
        if now > due:
            self._measure.late.CopyFrom(duration(now - due))
            return
        self._moved(Stage.HELD)
        await asyncio.sleep(due - now)
        self._measure.held.CopyFrom(duration(due - now))

    def _modelled_s(self) -> float:
        cpu = self._spec.numbers.get("cpu", 0.0)
        if not self._resources.modelled or cpu <= 0:
            return 0.0
        return self._task.workload.compute.ToNanoseconds() / 1e9 / cpu
