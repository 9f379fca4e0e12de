"""The world as people see it: the engine's state, and what the shell knows beside it, as messages."""

from collections import Counter

from google.protobuf.duration_pb2 import Duration

from coordinator.engine import state
from coordinator.engine.ids import DeviceId, JobId, RegionId, RequestId
from coordinator.engine.lifecycle import DeviceState, JobState
from coordinator.engine.lifecycle import Story as StoryOf
from coordinator.engine.regions import Region
from coordinator.service.convert import jobs as convert
from coordinator.service.convert import names
from coordinator.service.convert.devices import duration
from coordinator.service.host import Host
from coordinator.service.jobs import Job, Jobs
from coordinator.service.ledger import Ledger
from coordinator.service.machine import Machine
from coordinator.service.story import Story, short_name
from venn.v1 import admin_pb2, common_pb2, job_pb2
from venn.wire.versions import this_version

PHASES = {
    JobState.ARRIVING: job_pb2.JOB_PHASE_ARRIVING,
    JobState.FILLING: job_pb2.JOB_PHASE_FILLING,
    JobState.COLLECTING: job_pb2.JOB_PHASE_COLLECTING,
    JobState.AGGREGATING: job_pb2.JOB_PHASE_AGGREGATING,
    JobState.FINISHED: job_pb2.JOB_PHASE_FINISHED,
    JobState.CANCELLED: job_pb2.JOB_PHASE_CANCELLED,
    JobState.FAILED: job_pb2.JOB_PHASE_FAILED,
}
DEVICES = {
    DeviceState.IDLE: "waiting",
    DeviceState.BUSY: "busy",
    DeviceState.SERVED: "served",
    DeviceState.LEAVING: "gone",
    DeviceState.GONE: "gone",
}


class View:
    """Reads only. ``policy`` is the name of the one in force."""

    def __init__(
        self,
        host: Host,
        *,
        jobs: Jobs,
        ledger: Ledger,
        story: Story,
        machine: Machine,
        name: str,
        policy: str,
        seed: int,
    ) -> None:
        self._host, self._engine, self._jobs, self._ledger = host, host.engine, jobs, ledger
        self._story, self._machine, self._name, self._seed = story, machine, name, seed
        self.policy = policy

    # -- all

    def snapshot(self) -> admin_pb2.Snapshot:
        now = self._host.now()
        return admin_pb2.Snapshot(
            name=self._name,
            policy=self.policy,
            seed=self._seed,
            elapsed=duration(now),
            jobs=[self.job(job) for job in self._jobs],
            devices=self._device_counts(),
            regions=self._regions(now),
            leases=self._ledger.counts(),
            host=self._machine.status(),
            log=self._story.latest(),
            incarnation=self._host.incarnation,
            version=this_version(),
        )

    # -- jobs

    def job(self, job: Job) -> job_pb2.JobStatus:
        known = self._engine.jobs[job.job]
        request = known.latest
        status = job_pb2.JobStatus(
            key=convert.job_key(job.job),
            requirement=known.spec.requirement_name,
            phase=_phase(known),
            round=request.round if request else 0,
            rounds=known.spec.rounds or 0,
            places=request.places if request else known.spec.places,
            leased=request.placed + request.counted if request else 0,
            responses=request.counted if request else 0,
            responses_needed=request.needed if request else known.spec.responses_needed,
            aborts=known.aborts,
            waits=self._waits(job, known),
            age=self._age(known),
        )
        for round_, metrics in job.metrics:
            status.history.add(round=round_, metrics=metrics)
        return status

    def _waits(self, job: Job, known: state.Job) -> str:
        """One sentence; empty if it waits for nothing but its devices' work."""
        if known.ended:
            return ""
        if job.problem:
            return f"its driver cannot be reached: {job.problem}"
        return "; ".join(self._engine.explain_job(job.job)[:1])

    def _age(self, known: state.Job) -> Duration:
        until = self._host.now() if known.ended_at is None else known.ended_at
        return duration(until - known.arrival)

    def attempt_state(self, request: RequestId | None) -> job_pb2.AttemptState | None:
        """What a restarted driver needs to know of its open attempt."""
        found = None if request is None else self._engine.requests.get(request)
        if found is None:
            return None
        return job_pb2.AttemptState(
            key=convert.attempt_key(found.job.id, found.round, found.attempt),
            status=names.ATTEMPT_STATUS[found.status],
            leases=[lease.seq for lease in found.live()],
            counted=[lease.seq for lease in found.counted_leases()],
        )

    # -- devices

    def devices(self, *, after: str, most: int) -> tuple[list[admin_pb2.DeviceStatus], bool]:
        """A page by id, and whether more follow."""
        ids = sorted(device for device in self._engine.devices if device > after)
        return [self.device(self._engine.devices[device]) for device in ids[:most]], len(ids) > most

    def device(self, device: state.Device) -> admin_pb2.DeviceStatus:
        idle = device.state is DeviceState.IDLE
        capabilities = common_pb2.Capabilities(numbers=device.capabilities.numbers)
        for label, values in device.capabilities.labels.items():
            capabilities.labels[label].values.extend(sorted(values))
        return admin_pb2.DeviceStatus(
            device=device.id,
            state=DEVICES[device.state],
            capabilities=capabilities,
            tasks=device.tasks,
            job=short_name(device.lease.request.job.id) if device.lease else "",
            waits="; ".join(self._engine.explain_device(device.id)[:1]) if idle else "",
        )

    def connected(self) -> set[str]:
        """Ids of devices with a session."""
        return {session.device.id for session in self._engine.sessions.values()}

    def _device_counts(self) -> admin_pb2.DeviceCounts:
        found = Counter(DEVICES[device.state] for device in self._engine.devices.values())
        return admin_pb2.DeviceCounts(known=found.total(), **found)

    # -- regions

    def _regions(self, now: float) -> list[admin_pb2.RegionStatus]:
        """By check-in rate, descending."""
        classes = self._engine.regions.classes
        rates = self._engine.supply_rates(now)
        waiting: Counter[RegionId] = Counter()
        for session in self._engine.sessions.values():
            if session.device.state is DeviceState.IDLE:
                waiting[self._engine.regions.region_of(session.device.klass)] += 1
        found = [
            admin_pb2.RegionStatus(
                groups=self._group_names(region),
                devices=sum(classes[klass].devices for klass in region.classes),
                check_ins_per_s=rates.get(region.id, 0.0),
                waiting=waiting[region.id],
                order=self._order(region.id),
            )
            for region in self._engine.regions.regions.values()
        ]
        return sorted(found, key=lambda region: (-region.check_ins_per_s, list(region.groups)))

    def _group_names(self, region: Region) -> list[str]:
        groups = self._engine.regions.groups
        return [group.name for group in groups.values() if group.id in region.groups]

    def _order(self, region: RegionId) -> list[str]:
        """Job names, who gets the next device first."""
        plan = self._engine.plan
        queues = plan.orders.get(region, plan.default)
        requests = [self._engine.requests.get(request) for queue in queues for request in plan.queues[queue]]
        jobs = (request.job for request in requests if request is not None and request.open and request.unmet > 0)
        return list(dict.fromkeys(short_name(job.id) for job in jobs if job.servable))

    # -- one of them

    def explain(self, subject: str) -> admin_pb2.ExplainResponse | None:
        """Why a job (by name or key) or a device (by id) waits, and its recent story; None if there is no such."""
        device = self._engine.devices.get(DeviceId(subject))
        if device is not None:
            reasons = self._engine.explain_device(device.id)
            return _explanation(subject, DEVICES[device.state], reasons, device.story)
        job = self._named(subject)
        if job is None:
            return None
        known = self._engine.jobs[job.job]
        phase = job_pb2.JobPhase.Name(_phase(known)).removeprefix("JOB_PHASE_").lower()
        reasons = [*([job.problem] if job.problem else []), *self._engine.explain_job(job.job)]
        return _explanation(job.job, phase, reasons, known.story)

    def subjects(self) -> list[str]:
        """What can be explained."""
        return [*(short_name(job.job) for job in self._jobs), *self._engine.devices]

    def _named(self, subject: str) -> Job | None:
        """By key, else the latest job of this name."""
        by_key = self._jobs.get(JobId(subject))
        named = [job for job in self._jobs if short_name(job.job) == subject]
        return by_key or (named[-1] if named else None)


def _phase(known: state.Job) -> job_pb2.JobPhase.ValueType:
    return job_pb2.JOB_PHASE_PAUSED if known.pauses and not known.ended else PHASES[known.state]


def _explanation(subject: str, state_: str, reasons: list[str], story: StoryOf) -> admin_pb2.ExplainResponse:
    answer = admin_pb2.ExplainResponse(subject=subject, state=state_, reasons=reasons)
    for at, kind, text in story:
        answer.story.add(at=duration(at), kind=kind, text=text)
    return answer
