"""Why a request waits for devices, in parts that add up.

At a moment each further device that the request may use and that is present is busy with a job, or idle and held back.
Nothing else can be: an idle device that a request could take is leased to it at once (the invariant of ``matching``).
Where no such device is present, beside those that serve the request, that is the reason. The live view and ``explain``
count devices of this moment; a report adds up the same parts over the scheduling delay, each moment divided among the
devices that are present.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import assert_never

from coordinator.engine.ids import JobId, job_name
from coordinator.engine.regions import OVERFLOW
from coordinator.engine.state import Device, Job, Request
from coordinator.engine.world import World


class Why(StrEnum):
    ABSENT = "absent"  # no further eligible device is present
    OWN = "own"  # one is present and works for an earlier attempt of the job
    BUSY = "busy"  # one is present and has worked for another job since before the attempt opened
    GIVEN = "given"  # it became free after the attempt had opened, and went to another job, by the policy
    HELD = "held"  # it is idle: cooling, at a limit, sent away, of another tier, or counted in the round already
    PAUSED = "paused"  # the job, for a reason


@dataclass(frozen=True, slots=True, order=True)
class Part:
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
        """By class; and each by itself of those beyond the bound on classes."""
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
