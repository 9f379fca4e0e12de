"""Counts and lines for people: devices, regions, leases, jobs. Read-only; each call is for the present moment.

Devices add up: known = waiting + busy + served + gone. One that was sent away and has not left yet is gone.
"""

from dataclasses import dataclass
from itertools import islice

from coordinator.engine.engine import Engine
from coordinator.engine.explain import Present, device_reasons, job_reasons, observed_s
from coordinator.engine.ids import DeviceId, JobId, RegionId
from coordinator.engine.lifecycle import DeviceState
from coordinator.engine.model import LeaseSum, sum_leases
from coordinator.engine.regions import OVERFLOW
from coordinator.engine.state import Device, Job
from coordinator.engine.tiers import EVERY_TIER
from coordinator.engine.world import World

MOST_IN_ORDER = 32  # jobs that a region's line names


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """Devices by what they do."""

    known: int
    waiting: int
    busy: int
    served: int  # reached a limit in its last availability interval
    gone: int


@dataclass(frozen=True, slots=True)
class RegionCount:
    """A region, for people."""

    region: RegionId
    groups: tuple[str, ...]  # names of its requirements, the most common first; empty: no job is for it
    devices: int  # known
    check_ins_per_s: float
    waiting: int  # idle
    order: tuple[JobId, ...]  # who gets the next device, the first of them; full ones are left out


@dataclass(frozen=True, slots=True)
class JobCount:
    """A job, for people."""

    job: JobId
    requirement: str  # its name
    phase: str  # arriving, filling, collecting, aggregating, paused, finished, cancelled, failed
    round: int  # of the latest attempt; 0: none yet
    rounds: int | None
    places: int  # C of the latest attempt
    leased: int  # live with a place + counted, of the latest attempt
    responses: int
    responses_needed: int  # K
    aborts: int
    waits: str  # the strongest reason; empty: it does not wait


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """A device, for people."""

    device: DeviceId
    state: str  # waiting, busy, served, gone
    tasks: int  # that it brought to a receipt
    job: JobId | None  # that it works for
    waits: str  # why it idles; empty: it does not


_SHOWN_AS = {
    DeviceState.IDLE: "waiting",
    DeviceState.BUSY: "busy",
    DeviceState.SERVED: "served",
    DeviceState.LEAVING: "gone",
    DeviceState.GONE: "gone",
}


def device_counts(engine: Engine) -> DeviceCounts:
    counts = engine.world.device_counts
    return DeviceCounts(
        known=sum(counts.values()),
        waiting=counts[DeviceState.IDLE],
        busy=counts[DeviceState.BUSY],
        served=counts[DeviceState.SERVED],
        gone=counts[DeviceState.GONE] + counts[DeviceState.LEAVING],
    )


def lease_counts(engine: Engine) -> LeaseSum:
    """The sum of all leases. DELIVERED ones, which the driver has not recorded yet, are live as well."""
    world = engine.world
    return sum_leases(world.ends, granted=world.leases_granted, live=len(world.leases))


def region_counts(engine: Engine, most: int | None = None) -> tuple[list[RegionCount], int]:
    """The regions by check-in rate, descending, at most ``most`` of them, and how many more there are.

    Regions without known devices and check-ins are left out.
    """
    world = engine.world
    classes, totals = world.regions.classes, world.supply.totals
    live = [
        (-sum(totals.get(class_id, 0) for class_id in region.classes), region.id)
        for region in world.regions.regions.values()
        if any(classes[class_id].devices or totals.get(class_id, 0) for class_id in region.classes)
    ]
    if world.regions.overflow_devices:
        live.append((-totals.get(OVERFLOW, 0), world.regions.overflow))
    shown = sorted(live)[:most]
    return [_region(engine, id_) for _, id_ in shown], len(live) - len(shown)


def job_counts(engine: Engine) -> list[JobCount]:
    """The counts of all jobs, by arrival."""
    present = Present(engine.world)
    return [job_count(engine, job, present) for job in engine.jobs.values()]


def job_count(engine: Engine, job: Job, present: Present | None = None) -> JobCount:
    """The counts of one job. ``present`` saves those who ask about many jobs from looking at all devices for each."""
    latest, spec = job.latest, job.spec
    reasons = [] if job.ended else job_reasons(engine.world, job, present)
    return JobCount(
        job=job.id,
        requirement=spec.requirement_label,
        phase="paused" if job.pauses else job.state.value,
        round=latest.round if latest else 0,
        rounds=spec.rounds,
        places=latest.places if latest else spec.places,
        leased=latest.placed + latest.counted if latest else 0,
        responses=latest.responses if latest else 0,
        responses_needed=latest.needed if latest else spec.responses_needed,
        aborts=job.aborts,
        waits=reasons[0] if reasons else "",
    )


def device_line(engine: Engine, device: Device) -> DeviceLine:
    working = device.lease is not None and device.state is DeviceState.BUSY
    reasons = [] if working else device_reasons(engine.world, engine.matcher, device)
    return DeviceLine(
        device=device.id,
        state=_SHOWN_AS[device.state],
        tasks=device.tasks,
        job=device.lease.request.job.id if device.lease is not None and working else None,
        waits=reasons[0] if reasons else "",
    )


def _region(engine: Engine, id_: RegionId) -> RegionCount:
    world = engine.world
    regions, totals = world.regions, world.supply.totals
    if id_ == regions.overflow:
        return _overflow(world)
    classes = tuple(regions.regions[id_].classes)
    groups = sorted(
        (world.regions.groups[group] for group in regions.regions[id_].groups),
        key=lambda group: (-len(group.regions), group.id),
    )
    sample, capabilities = regions.classes[classes[0]].sample
    like_it = Device(sample, capabilities, classes[0], tier=EVERY_TIER)
    order = dict.fromkeys(
        islice((one.job.id for one in engine.matcher.candidates(like_it) if one.unmet > 0), MOST_IN_ORDER)
    )
    return RegionCount(
        region=id_,
        groups=tuple(group.name or group.id for group in groups),
        devices=sum(regions.classes[class_id].devices for class_id in classes),
        check_ins_per_s=sum(totals.get(class_id, 0) for class_id in classes) / observed_s(world),
        waiting=sum(len(world.idle.get(class_id, ())) for class_id in classes),
        order=tuple(order),
    )


def _overflow(world: World) -> RegionCount:
    return RegionCount(
        region=world.regions.overflow,
        groups=("(checked one by one)",),
        devices=world.regions.overflow_devices,
        check_ins_per_s=world.supply.totals.get(-1, 0) / observed_s(world),
        waiting=len(world.idle.get(-1, ())),
        order=(),
    )
