"""Snapshots, pages and explanations for people: the counts of the engine and the service, as messages."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import islice

import psutil

from coordinator.engine import counts, effects
from coordinator.engine.counts import JobCount, RegionCount
from coordinator.engine.explain import Present, device_reasons, job_reasons
from coordinator.engine.ids import DeviceId, JobId, RequestId, job_name
from coordinator.engine.lifecycle import History, entries
from coordinator.engine.state import Device
from coordinator.service.convert import fields
from coordinator.service.convert import jobs as convert
from coordinator.service.convert.devices import duration
from coordinator.service.durability import FULL
from coordinator.service.event_log import EventLog
from coordinator.service.host import Host
from coordinator.service.jobs import Job, Jobs
from venn.v1 import admin_pb2, common_pb2, job_pb2
from venn.wire.admission import this_version
from venn.wire.process import LagMonitor

SAMPLE_S = 1.0  # between two samples of the machine
MOST_JOBS, MOST_REGIONS = 100, 64  # in a snapshot
FEW_DEVICES, LATELY_S = 100, 1.0  # more than so many are looked at again after so long, whoever asks
MOST_GUESSES = 200  # jobs, and devices each way, that a mistyped name is held against


class Machine:
    """The coordinator's own machine: how busy it is, and how late the event loop. Sampled once a second."""

    def __init__(self, lag: LagMonitor) -> None:
        self._lag = lag
        self._seen = admin_pb2.HostStatus()

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            self._sample()
            await asyncio.sleep(SAMPLE_S)

    def _sample(self) -> None:
        """Look at the machine. A look opens files; where no more may be open, the last one stands."""
        with suppress(OSError):
            memory = psutil.virtual_memory()
            self._seen.memory_used_bytes = memory.total - memory.available
            self._seen.memory_total_bytes = memory.total
            self._seen.cpu_fraction = psutil.cpu_percent(interval=None) / 100  # since the last look

    def status(self) -> admin_pb2.HostStatus:
        self._seen.loop_lag_p99.CopyFrom(duration(self._lag.p99_s))
        return self._seen


class View:
    """Makes the messages that the admin's calls answer with; it only reads. ``policy`` is the name of that in force."""

    def __init__(
        self,
        host: Host,
        *,
        jobs: Jobs,
        log: EventLog,
        machine: Machine,
        name: str,
        policy: str,
        seed: int,
        refused: Mapping[str, int],
    ) -> None:
        """``refused``: how often each bound was met."""
        self._host, self._engine, self._jobs, self._refused = host, host.engine, jobs, refused
        self._log, self._machine, self._name, self._seed = log, machine, name, seed
        self._roster = Roster(host, host.engine.devices)
        self.policy = policy
        self._seen: tuple[float, Present] | None = None

    def snapshot(self) -> admin_pb2.Snapshot:
        """A snapshot of the foremost of everything: its size has a bound, however much there is."""
        jobs = self._foremost()
        regions, more_regions = counts.region_counts(self._engine, MOST_REGIONS)
        return admin_pb2.Snapshot(
            name=self._name,
            policy=self.policy,
            seed=self._seed,
            elapsed=duration(self._host.now()),
            jobs=[self.job(job) for job in jobs],
            more_jobs=len(self._engine.jobs) - len(jobs),
            devices=admin_pb2.DeviceCounts(**asdict(counts.device_counts(self._engine))),
            regions=[_region(count) for count in regions],
            more_regions=more_regions,
            leases=admin_pb2.LeaseCounts(**asdict(counts.lease_counts(self._engine))),
            host=self._machine.status(),
            log=self._log.latest(),
            incarnation=self._host.incarnation,
            version=this_version(),
            refused=[admin_pb2.Refused(bound=bound, times=times) for bound, times in sorted(self._refused.items())],
        )

    # -- jobs

    def jobs(
        self, *, after: str, most: int, shown: Callable[[JobId], bool] = lambda _: True
    ) -> tuple[list[job_pb2.JobStatus], bool]:
        """A page of jobs by arrival, of those that may be ``shown``, and whether more follow. If the job that it comes
        after is forgotten it is the first.
        """
        known = [job for job in self._jobs if job.job in self._engine.jobs and shown(job.job)]
        first = next((place for place, job in enumerate(known, 1) if job.job == after), 0)
        return [self.job(job) for job in known[first : first + most]], len(known) > first + most

    def _foremost(self) -> list[Job]:
        """The foremost jobs by arrival: unfinished ones, and, where there is room, the latest of those that ended."""
        known = [job for job in self._jobs if job.job in self._engine.jobs]
        going = [job for job in known if not job.ended][:MOST_JOBS]
        over = [job for job in known if job.ended][len(going) - MOST_JOBS :] if len(going) < MOST_JOBS else []
        shown = {job.job for job in (*going, *over)}
        return [job for job in known if job.job in shown]

    def job(self, job: Job) -> job_pb2.JobStatus:
        if job.last_status is not None:
            return job.last_status
        known = self._engine.jobs[job.job]
        count = counts.job_count(self._engine, known, self._present_lately())
        until = self._host.now() if known.ended_at is None else known.ended_at
        status = job_pb2.JobStatus(
            key=convert.job_key(job.job),
            requirement=count.requirement,
            phase=fields.JOB_PHASE[count.phase],
            round=count.round,
            rounds=count.rounds or 0,
            places=count.places,
            leased=count.leased,
            responses=count.responses,
            responses_needed=count.responses_needed,
            aborts=count.aborts,
            waits=FULL if self._host.full and not known.ended else _waits(job, count),
            age=duration(until - known.arrival),
        )
        for round_, metrics in job.metrics:
            status.history.add(round=round_, metrics=metrics)
        if job.ended and known.ended:
            job.last_status = status
        return status

    def _present_lately(self) -> Present:
        now = self._host.now()
        many = len(self._engine.sessions) > FEW_DEVICES
        if self._seen is None or not many or now - self._seen[0] >= LATELY_S:
            self._seen = now, Present(self._engine.world)
        return self._seen[1]

    def attempt_state(self, request: RequestId | None) -> job_pb2.AttemptState | None:
        """The state of an attempt, as a restarted driver needs it."""
        found = None if request is None else self._engine.requests.get(request)
        if found is None:
            return None
        return job_pb2.AttemptState(
            key=convert.attempt_key(found.job.id, found.round, found.attempt),
            status=fields.ATTEMPT_STATUS[found.status],
            leases=[lease.seq for lease in found.live()],
            counted=[lease.seq for lease in found.counted_leases()],
        )

    # -- devices

    def devices(self, *, after: str, most: int) -> tuple[list[admin_pb2.DeviceStatus], bool]:
        """A page of devices by id, and whether more follow."""
        ids = self._roster.after(after, most + 1)
        return [self._device(self._engine.devices[device]) for device in ids[:most]], len(ids) > most

    def is_connected(self, device: str) -> bool:
        """Whether a device has a session."""
        known = self._engine.devices.get(DeviceId(device))
        return known is not None and known.session is not None

    def _device(self, device: Device) -> admin_pb2.DeviceStatus:
        line = counts.device_line(self._engine, device)
        capabilities = common_pb2.Capabilities(numbers=device.capabilities.numbers)
        for label, texts in device.capabilities.labels.items():
            capabilities.labels[label].values.extend(sorted(texts))
        return admin_pb2.DeviceStatus(
            device=line.device,
            state=line.state,
            capabilities=capabilities,
            tasks=line.tasks,
            job=job_name(line.job) if line.job else "",
            waits=line.waits,
        )

    # -- one of them

    def explain(self, subject: str) -> admin_pb2.ExplainResponse | None:
        """Why a job (by name or key) or a device (by id) waits, and its recent history; None if there is no such."""
        engine = self._engine
        device = engine.devices.get(DeviceId(subject))
        if device is not None:
            line = counts.device_line(engine, device)
            reasons = [*self._troubles(), *device_reasons(engine.world, engine.matcher, device)]
            return _explanation(subject, line.state, reasons, device.history)
        job = self._named(subject)
        if job is None:
            return None
        known = engine.jobs[job.job]
        reasons = [*self._troubles(), *([job.problem] if job.problem else [])]
        reasons.extend(job_reasons(engine.world, known))
        return _explanation(job.job, counts.job_count(engine, known).phase, reasons, known.history)

    def _troubles(self) -> list[str]:
        """What keeps everything waiting."""
        return [FULL] if self._host.full else []

    def like(self, subject: str) -> list[str]:
        """The names that can be explained and may have been meant: the latest jobs, and devices whose names begin
        alike.
        """
        jobs = {job_name(job.job): None for job in islice(reversed(self._jobs), MOST_GUESSES)}
        return [*jobs, *self._roster.near(subject, MOST_GUESSES)]

    def connected_like(self, device: str) -> list[str]:
        """Devices with a session that may have been meant: their names begin alike."""
        return [near for near in self._roster.near(device, MOST_GUESSES) if self.is_connected(near)]

    def _named(self, subject: str) -> Job | None:
        """The latest job of this key or name."""
        named = [job for job in self._jobs if subject in (job.job, job_name(job.job))]
        known = [job for job in named if job.job in self._engine.jobs]
        return known[-1] if known else None


def _waits(job: Job, count: JobCount) -> str:
    """Why a job waits, in one sentence; empty if it waits for nothing."""
    return f"its driver cannot be offered: {job.problem}" if job.problem and count.waits else count.waits


def _region(count: RegionCount) -> admin_pb2.RegionStatus:
    return admin_pb2.RegionStatus(
        groups=count.groups,
        devices=count.devices,
        check_ins_per_s=count.check_ins_per_s,
        waiting=count.waiting,
        order=[job_name(job) for job in count.order],
    )


def _explanation(subject: str, state: str, reasons: list[str], history: History) -> admin_pb2.ExplainResponse:
    answer = admin_pb2.ExplainResponse(subject=subject, state=state, reasons=reasons)
    for at, kind, text in entries(history):
        answer.history.add(at=duration(at), kind=kind, text=text)
    return answer


MOST_NEW = 1_000  # devices that are not merged in yet


class Roster:
    """The sorted names of all known devices. Newcomers are merged in when somebody asks, at the latest when they are
    many.

    A page or a guess looks at no more names than it shows. What the engine forgot
    is skipped.
    """

    def __init__(self, host: Host, known: Mapping[DeviceId, Device]) -> None:
        self._known = known  # by the engine
        self._names = sorted(known)  # may include some that it forgot
        self._new: set[DeviceId] = set()
        host.listen(effects.OpenSession, self._opened)

    def after(self, name: str, most: int) -> list[DeviceId]:
        """The next devices by name, at most ``most``."""
        names = self._merged()
        return list(islice(self._from(bisect_right(names, name)), most))

    def near(self, name: str, most: int) -> list[DeviceId]:
        """The devices next to where the name would stand, at most ``most`` on each side: they begin as it does, if any
        do.
        """
        names = self._merged()
        return list(islice(self._from(max(0, bisect_left(names, name) - most)), 2 * most))

    def _from(self, place: int) -> Iterator[DeviceId]:
        names = self._names
        return (names[index] for index in range(place, len(names)) if names[index] in self._known)

    def _opened(self, now: float, effect: effects.OpenSession) -> None:
        place = bisect_left(self._names, effect.device)
        if place == len(self._names) or self._names[place] != effect.device:
            self._new.add(effect.device)
            if len(self._new) >= MOST_NEW:
                self._merged()

    def _merged(self) -> list[DeviceId]:
        if self._new:
            self._names.extend(self._new)
            self._new.clear()
            if len(self._names) > 2 * len(self._known):
                self._names = list(self._known)
            self._names.sort()  # a sorted run and a short one: little more than a merge
        return self._names
