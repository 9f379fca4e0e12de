"""Explanations: why a job or a device waits, in words, and what happened to it last.

A request waits for devices for reasons that add up. At a moment each further device that the request may use and that
is present is busy with a job, or idle and held back. Nothing else can be: an idle device that a request could take is
leased to it at once (the invariant of ``matching``). Where no such device is present, beside those that serve the
request, that is the reason. The live view and ``explain_job`` count devices of this moment; a report adds up the same
parts over the scheduling delay, each moment divided among the devices that are present.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import assert_never

from coordinator.engine.failures import DRIVER_AWAY
from coordinator.engine.ids import JobId, job_name
from coordinator.engine.lifecycle import DeviceState
from coordinator.engine.matching import Matcher
from coordinator.engine.model import SessionEnd
from coordinator.engine.regions import OVERFLOW
from coordinator.engine.state import Device, Job, Lease, Request
from coordinator.engine.tiers import is_within, tier_text
from coordinator.engine.world import World


class Why(StrEnum):
    """What a device that a request could use does instead."""

    ABSENT = "absent"  # no further eligible device is present
    OWN = "own"  # one is present and works for an earlier attempt of the job
    BUSY = "busy"  # one is present and has worked for another job since before the attempt opened
    GIVEN = "given"  # it became free after the attempt had opened, and went to another job, by the policy
    HELD = "held"  # it is idle: cooling, at a limit, sent away, of another tier, or counted in the round already
    PAUSED = "paused"  # the job, for a reason


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A part of a wait: what it is due to."""

    why: Why
    job: JobId | None = None  # BUSY, GIVEN: whom the device works for
    rule: str = ""  # GIVEN: the policy that was in force; PAUSED: the reason

    @property
    def text(self) -> str:
        """The part in words."""
        job = "" if self.job is None else job_name(self.job)
        match self.why:
            case Why.ABSENT:
                return "no further eligible device present"
            case Why.OWN:
                return "present, busy with an earlier attempt of it"
            case Why.BUSY:
                return f"present, busy with {job}"
            case Why.GIVEN:
                return f"given to {job} by {self.rule}"
            case Why.HELD:
                return "present, held back (cooling, at a limit, of another tier, or counted in the round)"
            case Why.PAUSED:
                return f"paused: {self.rule}"
            case _:
                assert_never(self.why)


ABSENT, OWN, HELD = Part(Why.ABSENT), Part(Why.OWN), Part(Why.HELD)


def holder(waiting: JobId, opened_at: float, *, job: JobId, granted_at: float, rule: str) -> Part:
    """Say what a device that works for another attempt is to the one that waits; engine seconds."""
    if job == waiting:
        return OWN
    return Part(Why.GIVEN, job, rule) if granted_at >= opened_at else Part(Why.BUSY, job)


def attribute(
    whole: float, *, absent: float, busy: Mapping[Part, float], paused: Mapping[Part, float]
) -> dict[Part, float]:
    """Divide a wait: what is none of the others is HELD. The parts add up to ``whole``, in its unit; all are > 0."""
    held = whole - absent - sum(busy.values()) - sum(paused.values())
    parts = {ABSENT: absent, **busy, HELD: held, **paused}
    least = 1e-9 * max(whole, 1.0)  # what rounding leaves
    return {part: much for part, much in sorted(parts.items(), key=lambda one: (-one[1], one[0].why)) if much > least}


@dataclass(slots=True)
class _Class:
    devices: int = 0
    since: dict[Request, list[float]] = field(default_factory=dict)  # when leases in hand were granted


class Present:
    """The devices that are present at this moment, and for whom they work. O(sessions), once, when first asked."""

    def __init__(self, world: World) -> None:
        self._world = world

    @cached_property
    def _alike(self) -> tuple[dict[int, _Class], list[tuple[Device, _Class]]]:
        """Devices by class; and each by itself of those beyond the bound on classes."""
        classes: dict[int, _Class] = {}
        apart: list[tuple[Device, _Class]] = []
        for session in self._world.sessions.values():
            device = session.device
            if device.capability_class == OVERFLOW:
                apart.append((device, own := _Class()))
            else:
                own = classes.setdefault(device.capability_class, _Class())
            own.devices += 1
            if device.lease is not None:
                own.since.setdefault(device.lease.request, []).append(device.lease.granted_at)
        return classes, apart

    def keep_from(self, request: Request) -> dict[Part, float]:
        """Count what the devices do that it may use: so many of each part; of ABSENT one, if there are none."""
        world, group = self._world, request.job.group
        classes, apart = self._alike
        mine = [classes[class_id] for class_id in eligible_classes(world, request.job) if class_id in classes]
        mine += [one for device, one in apart if group.requirement.matches(device.id, device.capabilities)]
        present = sum(one.devices - len(one.since.get(request, ())) for one in mine)
        busy: dict[Part, float] = {}
        for other, granted_at in ((other, at) for one in mine for other, since in one.since.items() for at in since):
            if other is not request:
                job = other.job.id
                part = holder(request.job.id, request.opened_at, job=job, granted_at=granted_at, rule=world.policy)
                busy[part] = busy.get(part, 0.0) + 1.0
        return attribute(present or 1.0, absent=0.0 if present else 1.0, busy=busy, paused={})


def eligible_classes(world: World, job: Job) -> list[int]:
    return [class_id for region in job.group.regions for class_id in world.regions.regions[region].classes]


def job_reasons(world: World, job: Job, present: Present | None = None) -> list[str]:
    """Say what keeps a job from its next devices, the strongest reason first; empty: nothing, as far as is known.

    ``present`` saves those who ask about many jobs from looking at all devices for each.
    """
    if job.ended:
        return [f"it has {job.state}{': ' + job.message if job.message else ''}"]
    reasons = [f"{reason}: {message}" for reason, message in job.pauses.items()]
    if not job.followed and DRIVER_AWAY not in job.pauses:
        reasons.append(f"{DRIVER_AWAY}: its driver does not follow it yet, or its address is not verified")
    request = job.request
    if request is None:
        reasons.append("no attempt is open: its driver has to open one")
    elif request.unmet <= 0:
        reasons.append(_collecting(world, request))
    elif job.servable:
        reasons.extend(_filling(world, request, present or Present(world)))
    return reasons


def device_reasons(world: World, matcher: Matcher, device: Device) -> list[str]:
    """Say what keeps a device from its next lease, the strongest reason first."""
    match device.state:
        case DeviceState.GONE:
            return [f"it is gone: {_left(device)}", *_held(device.lease)]
        case DeviceState.SERVED:
            return [f"LIMIT: {_limit(device)}", *_held(device.lease)]
        case DeviceState.LEAVING:
            return ["it was sent away, and will come back"]
        case DeviceState.BUSY if device.lease is not None:
            return [f"it works: {_lease_text(device.lease)}"]
        case DeviceState.BUSY:
            lines = [f"lease {seq} ended ({one.reason})" for seq, one in device.stopping.items()]
            return [f"it has not said yet that it stopped: {', '.join(lines)}"]
        case DeviceState.IDLE:
            return _idle(world, matcher, device)
        case _:
            assert_never(device.state)


def _idle(world: World, matcher: Matcher, device: Device) -> list[str]:
    now = world.now
    reasons: list[str] = []
    if device.quiet:
        reasons.append("UNACCEPTED: it let an offer lapse, and gets no offer until it sends a message")
    if device.resting_until > now:
        reasons.append(f"BUSY: it said so; it is asked again in {device.resting_until - now:.1f} s")
    if not world.regions.wanted(device.capability_class, device.id, device.capabilities):
        return [*reasons, "NO_WORK: no unfinished job may use a device like this"]
    reasons.extend(_other_tiers(world, device))
    wanting = [request for request in matcher.candidates(device) if request.unmet > 0]
    for request in wanting:
        cooling = device.cooling.get(request.job.id)
        if cooling is not None and cooling.until > now:
            times = f"{cooling.failures} failure{'s' if cooling.failures > 1 else ''}"
            if cooling.vain_s:
                times += f"; it held places for {cooling.vain_s:.1f} s without a response"
            reasons.append(f"COOLING: for {request.job.id}, {cooling.until - now:.1f} s more after {times}")
        if device.id in request.used:
            reasons.append(f"ONCE: it counts already in round {request.offered[0]} of {request.job.id}")
    if not wanting:
        reasons.append("no open request that it could serve has a place left")
    return reasons


def _other_tiers(world: World, device: Device) -> list[str]:
    """Requests that would take it, were it faster or slower."""
    mine = tier_text(device.tier, world.tiers.number) if device.tier >= 0 else "no known tier"
    return [
        f"TIER: {request.job.id} is for {_tiers_of(world, request)}; this one is of {mine}"
        for request in world.open_requests.values()
        if not is_within(device.tier, request.tier, or_faster=world.plan.or_faster)
        and request.unmet > 0
        and world.regions.eligible(request.job.group, device.capability_class, device.id, device.capabilities)
    ]


def _tiers_of(world: World, request: Request) -> str:
    or_faster = ", or faster" if world.plan.or_faster and request.tier > 0 else ""
    return tier_text(request.tier, world.tiers.number) + or_faster


def _filling(world: World, request: Request, present: Present) -> list[str]:
    job = request.job
    places = f"{request.unmet} {'places' if request.unmet > 1 else 'place'} open"
    if not _ever_seen(world, job):
        return [f"{places}, no eligible device was ever seen; it needs {job.group.requirement}"]
    rate = f"{group_rate(world, job):.1f} check-ins per second"
    if request.tier >= 0:
        places += f" for devices of {_tiers_of(world, request)}"
    parts = present.keep_from(request)
    said = [part.text if part is ABSENT else f"{count:.0f} {part.text}" for part, count in parts.items()]
    reasons = [f"{places}; {', '.join(said)}; {rate}", *_kept_back(world, request)]
    if job.id in world.plan.reasons:
        reasons.append(world.plan.reasons[job.id])
    if shared := job.group.shared:
        reasons.append(f"supply is a guess: {shared} earlier check-ins were shared in proportion")
    return reasons


def _ever_seen(world: World, job: Job) -> bool:
    regions = world.regions
    if any(regions.classes[class_id].devices for class_id in eligible_classes(world, job)):
        return True
    return regions.overflow_devices > 0 and any(
        job.spec.requirement.matches(device.id, device.capabilities)
        for device in world.devices.values()
        if device.capability_class == OVERFLOW
    )


def _kept_back(world: World, request: Request) -> list[str]:
    """Why it may not have devices that wait, or why those that are known can never be enough."""
    job = request.job
    idle = [
        session.device for class_id in eligible_classes(world, job) for session in world.idle.get(class_id, {}).values()
    ]
    cooling = sum(job.id in device.cooling and device.cooling[job.id].until > world.now for device in idle)
    used = sum(device.id in request.used for device in idle)
    reasons: list[str] = []
    if request.once and request.eligible < request.needed:
        enough = f"a round needs responses of {request.needed} devices"
        reasons.append(f"TOO_FEW_DEVICES: {enough}, and {request.eligible} of those known are eligible")
    if cooling:
        reasons.append(f"COOLING: {cooling} idle devices failed it lately")
    if used:
        left = f"{request.left} of {request.eligible} eligible ones are left"
        reasons.append(f"ONCE: {used} idle devices count in this round already, {left}")
    return reasons


def group_rate(world: World, job: Job) -> float:
    """Check-ins per second of the devices that the job may use, over what has been seen in the window."""
    totals = world.supply.totals
    return sum(totals.get(class_id, 0) for class_id in eligible_classes(world, job)) / observed_s(world)


def observed_s(world: World) -> float:
    """Seconds that the running totals of the supply cover, at least 1."""
    return max(min(world.now - world.supply.start, world.supply.window_s), 1.0)


def _collecting(world: World, request: Request) -> str:
    live = sum(1 for _ in request.live())
    missing = request.needed - request.responses
    if request.asynchronous:
        leases = f"{live} {'leases' if live > 1 else 'lease'} live"
        return f"at its concurrency: {leases}, the buffer lacks {missing} of {request.needed} responses"
    return (
        f"collecting: {missing} of {request.needed} responses missing, {live} leases live, "
        f"deadline in {max(request.deadline_at - world.now, 0.0):.1f} s"
    )


def _limit(device: Device) -> str:
    if device.limited_in_interval:
        done = f"{device.tasks_in_interval} of {device.tasks_per_session} tasks in this availability interval"
        return f"{done}; it serves again in its next one"
    return f"{device.tasks_today} of {device.tasks_per_day} tasks today; it serves again tomorrow"


def _left(device: Device) -> str:
    return "it never had a session" if device.left is None else f"its session ended ({SessionEnd(device.left)})"


def _held(lease: Lease | None) -> list[str]:
    return [] if lease is None else [f"it may come back with {_lease_text(lease)}"]


def _lease_text(lease: Lease) -> str:
    return f"{lease} of {lease.request}, {lease.state}"
