"""A lease that a device holds: how far its task is, and what the coordinator is told of that.

The result of a lease (DONE, BROKEN) is kept until the coordinator has acknowledged it. What is not in ``STAGE`` is not
done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from device_agent.actions import LeaseKey
from venn.v1 import device_pb2


class Stage(Enum):
    """The progress of a device with a lease."""

    FETCHING = "fetching"
    WORKING = "working"
    HELD = "held"  # the result waits until its modelled time has passed
    SUBMITTING = "submitting"
    DONE = "done"  # the driver has answered
    BROKEN = "broken"  # the task failed
    STOPPING = "stopping"  # revoked; the task still runs


STAGE: Mapping[Stage, frozenset[Stage]] = {
    Stage.FETCHING: frozenset({Stage.FETCHING, Stage.WORKING, Stage.BROKEN, Stage.STOPPING}),
    Stage.WORKING: frozenset({Stage.HELD, Stage.SUBMITTING, Stage.BROKEN, Stage.STOPPING}),
    Stage.HELD: frozenset({Stage.SUBMITTING, Stage.BROKEN, Stage.STOPPING}),
    Stage.SUBMITTING: frozenset({Stage.SUBMITTING, Stage.DONE, Stage.BROKEN, Stage.STOPPING}),
    Stage.DONE: frozenset(),
    Stage.BROKEN: frozenset(),
    Stage.STOPPING: frozenset({Stage.STOPPING}),
}
ENDED = frozenset({Stage.DONE, Stage.BROKEN})


@dataclass(slots=True)
class Held:
    """A lease that the device holds."""

    offer: device_pb2.Offer
    drop_at: float  # the device's own time limit: no lease lasts longer, though its driver was away
    stage: Stage = Stage.FETCHING
    offset: int = 0  # of SUBMITTING: bytes that the driver has
    fraction: float | None = None  # progress that was not told yet
    end: device_pb2.ConnectRequest | None = None  # of DONE and BROKEN: the frame that tells it
    told: int = 0  # seq of the frame of this stream that told the end; 0: none did

    def enter(self, stage: Stage) -> bool:
        """Go to ``stage`` if ``STAGE`` leads there from here; returns whether it does."""
        may = stage in STAGE[self.stage]
        if may:
            self.stage = stage
        return may


def held_lease(key: LeaseKey, lease: Held) -> device_pb2.HeldLease:
    """The lease as a check-in names it."""
    held = device_pb2.HeldLease(lease=key.lease, incarnation=key.incarnation)
    match lease.stage:
        case Stage.FETCHING:
            held.fetching.SetInParent()
        case Stage.SUBMITTING:
            held.submitting.offset = lease.offset
        case Stage.DONE:
            assert lease.end is not None
            held.done.receipt.CopyFrom(lease.end.finished.receipt)
        case Stage.BROKEN:
            assert lease.end is not None
            failed = lease.end.failed
            held.broken.CopyFrom(device_pb2.Broken(phase=failed.phase, reason=failed.reason, message=failed.message))
        case Stage.WORKING | Stage.HELD | Stage.STOPPING:
            held.working.SetInParent()
        case _:
            assert_never(lease.stage)
    return held
