"""The device's half of the session protocol. Pure: frames and ``now`` (seconds, never decreasing) in, actions out.

A ``Session`` lives as long as the device's process (its *instance*), over many streams. Its link and each lease that
the device holds go from state to state as the tables ``LINK`` and ``STAGE`` say; what is not in a table is not done.
The result of a lease (DONE, BROKEN) is kept until the coordinator has acknowledged it, and is named at every check-in
until then (docs/protocol.md, "Sessions").
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from device_agent.actions import (
    Action,
    CloseReason,
    CloseStream,
    LeaseKey,
    MoveDriver,
    Refusal,
    Send,
    StartTask,
    StopTask,
)
from venn.v1 import common_pb2, device_pb2
from venn.wire.admission import this_version
from venn.wire.calls import duration

WELCOME_WITHIN_S = 10.0  # from the check-in
BUSY_RETRY_S = 1.0
LEAST_HEARTBEAT_S = 0.05  # whatever a coordinator asks for


class Link(Enum):
    """The device's connection to the coordinator."""

    AWAY = "away"
    DIALLING = "dialling"  # the check-in is sent
    OPEN = "open"  # the coordinator has answered with a Welcome
    LEAVING = "leaving"  # the goodbye is sent, or the coordinator is silent


LINK: Mapping[Link, frozenset[Link]] = {
    Link.AWAY: frozenset({Link.AWAY, Link.DIALLING}),
    Link.DIALLING: frozenset({Link.OPEN, Link.LEAVING, Link.AWAY}),
    Link.OPEN: frozenset({Link.LEAVING, Link.AWAY}),
    Link.LEAVING: frozenset({Link.AWAY}),
}


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


class Session:
    """The session of one device, over many streams. ``check_offer`` says whether an offer is declined, and why."""

    def __init__(self, check_in: device_pb2.CheckIn, check_offer: Callable[[device_pb2.Offer], Refusal | None]) -> None:
        self._check_in, self._check_offer = check_in, check_offer
        self.link = Link.AWAY
        self.held: dict[LeaseKey, Held] = {}
        self.incarnation = 0  # of the coordinator that was met last
        self._seq = 0  # of the last frame of this stream
        self._heard_at = self._said_at = 0.0
        self._heartbeat_s = self._silence_s = math.inf
        self._actions: list[Action] = []

    @property
    def in_task(self) -> bool:
        """Whether a lease's work is under way."""
        return any(lease.stage not in ENDED for lease in self.held.values())

    # -- the stream

    def dial(self, interval: int, now: float) -> list[Action]:
        """Begin a new stream: check in, and name the leases that are held."""
        self.cut()
        self._enter(Link.DIALLING)
        self._seq, self._heard_at = 0, now
        frame = device_pb2.CheckIn()
        frame.CopyFrom(self._check_in)
        frame.version.CopyFrom(this_version())
        frame.interval = interval
        for key, lease in list(self.held.items()):
            if lease.stage is Stage.STOPPING:
                del self.held[key]  # not named: so the coordinator knows that it is over
            else:
                frame.held.append(_held_lease(key, lease))
                lease.told = 1 if lease.end else 0
        self._say(device_pb2.ConnectRequest(check_in=frame), now)
        return self._take()

    def cut(self) -> None:
        """Note that the stream is gone."""
        self._enter(Link.AWAY)

    def leave(self, reason: device_pb2.GoodbyeReason.ValueType, now: float) -> list[Action]:
        """Say goodbye: the device leaves by itself. Work stops; results are kept."""
        for key, lease in list(self.held.items()):
            if lease.stage not in ENDED:
                del self.held[key]
                self._actions.append(StopTask(key, "the device leaves"))
        self._goodbye(reason, now)
        return self._take()

    def receive(self, frame: device_pb2.ConnectResponse, now: float) -> list[Action]:
        """Take a frame from the coordinator."""
        self._heard_at = now
        match frame.WhichOneof("frame"):
            case "welcome":
                self._welcome(frame.welcome, now)
            case "offer":
                self._offer(frame.offer, now)
            case "revoke":
                self._revoke(frame.revoke, now)
            case "redirect":
                self._redirect(frame.redirect)
            case "ack":
                self._acknowledged(frame.ack.through)
            case "come_back":
                self._come_back(frame.come_back, now)
            case "drain":
                self._close(CloseStream(CloseReason.DRAINED), now)
            case None:
                pass  # of a newer coordinator, which does without an answer
            case other:
                assert_never(other)
        return self._take()

    # -- the task

    def moved(self, key: LeaseKey, stage: Stage, *, offset: int = 0) -> None:
        """Note how far the task is."""
        lease = self.held.get(key)
        if lease is not None and lease.enter(stage):
            lease.offset = offset

    def progressed(self, key: LeaseKey, fraction: float) -> None:
        """Note the task's progress; it is told with the next heartbeat."""
        if lease := self.held.get(key):
            lease.fraction = fraction

    def finished(
        self, key: LeaseKey, receipt: common_pb2.Receipt, measure: device_pb2.TaskMeasure, now: float
    ) -> list[Action]:
        """Note that the driver has answered."""
        finished = device_pb2.Finished(lease=key.lease, receipt=receipt, measure=measure)
        return self._ended(key, Stage.DONE, device_pb2.ConnectRequest(finished=finished), now)

    def failed(
        self,
        key: LeaseKey,
        phase: common_pb2.Phase.ValueType,
        reason: common_pb2.FailureReason.ValueType,
        message: str,
        output_tail: str,
        now: float,
    ) -> list[Action]:
        """Note that the task ended without a response."""
        failed = device_pb2.Failed(
            lease=key.lease, phase=phase, reason=reason, message=message, output_tail=output_tail
        )
        return self._ended(key, Stage.BROKEN, device_pb2.ConnectRequest(failed=failed), now)

    def stopped(self, key: LeaseKey, now: float) -> list[Action]:
        """Note that a task that was to stop has stopped, or that its lease is over."""
        lease = self.held.pop(key, None)
        if lease is not None and lease.stage is Stage.STOPPING:
            self._release(key.lease, now)
        return self._take()

    # -- time

    def next_deadline(self) -> float:
        """When ``tick`` wants to be called; inf if never."""
        at = min((lease.drop_at for lease in self.held.values()), default=math.inf)
        if self.link is Link.DIALLING:
            return min(at, self._heard_at + WELCOME_WITHIN_S)
        if self.link is Link.OPEN:
            return min(at, self._heard_at + self._silence_s, self._said_at + self._heartbeat_s)
        return at

    def tick(self, now: float) -> list[Action]:
        """Do what is due now: heartbeats, the coordinator's silence, leases that nobody ended."""
        for key, lease in list(self.held.items()):
            if now >= lease.drop_at:
                del self.held[key]
                if lease.stage not in ENDED:
                    self._actions.append(StopTask(key, "its lease is over"))
        patience = {Link.DIALLING: WELCOME_WITHIN_S, Link.OPEN: self._silence_s}.get(self.link, math.inf)
        if now >= self._heard_at + patience and self._enter(Link.LEAVING):
            self._actions.append(CloseStream(CloseReason.SILENT))
        elif self.link is Link.OPEN and now >= self._said_at + self._heartbeat_s:
            self._beat(now)
        return self._take()

    # -- frames down

    def _welcome(self, welcome: device_pb2.Welcome, now: float) -> None:
        if not self._enter(Link.OPEN):
            return
        self.incarnation = welcome.incarnation
        self._heartbeat_s = max(LEAST_HEARTBEAT_S, welcome.heartbeat.ToNanoseconds() / 1e9)
        self._silence_s = max(welcome.liveness.ToNanoseconds() / 1e9, 3 * self._heartbeat_s)
        self._acknowledged(1)  # a check-in is recorded before it is answered
        for lease in self.held.values():
            if lease.end and not lease.told:  # it ended after the check-in was said
                lease.told = self._say(lease.end, now)

    def _offer(self, offer: device_pb2.Offer, now: float) -> None:
        if self.link is not Link.OPEN:
            return  # rule 12: after a goodbye offers are ignored
        key = LeaseKey(self.incarnation, offer.lease)
        known = self.held.get(key)
        if known is None:
            refusal = self._refusal(offer)
            if refusal is not None:
                self._decline(offer.lease, refusal, now)
                return
            ends_at = now + offer.remaining.ToNanoseconds() / 1e9
            grace_s = max(0.0, offer.grace.ToNanoseconds() / 1e9)
            self.held[key] = Held(offer, ends_at + grace_s)
            self._actions.append(StartTask(key, offer, ends_at, grace_s))
        elif known.stage in ENDED or known.stage is Stage.STOPPING:
            return
        self._say(device_pb2.ConnectRequest(accepted=device_pb2.Accepted(lease=offer.lease)), now)

    def _refusal(self, offer: device_pb2.Offer) -> Refusal | None:
        if self.in_task:
            return Refusal(common_pb2.FAILURE_REASON_BUSY, "the device is busy with something else", BUSY_RETRY_S)
        return self._check_offer(offer)

    def _decline(self, lease: int, refusal: Refusal, now: float) -> None:
        retry_after = duration(refusal.retry_after_s)
        declined = device_pb2.Declined(
            lease=lease, reason=refusal.reason, retry_after=retry_after, message=refusal.message
        )
        self._say(device_pb2.ConnectRequest(declined=declined), now)

    def _revoke(self, revoke: device_pb2.Revoke, now: float) -> None:
        key = self._named(revoke.lease, foreign=revoke.reason == common_pb2.LEASE_END_UNKNOWN)
        lease = self.held.get(key)
        if lease is None or not lease.enter(Stage.STOPPING):
            self.held.pop(key, None)
            self._release(revoke.lease, now)
            return
        if self.link is Link.LEAVING:  # nobody waits for its release
            del self.held[key]
        self._actions.append(StopTask(key, f"revoked: {common_pb2.LeaseEnd.Name(revoke.reason)}"))

    def _redirect(self, redirect: device_pb2.Redirect) -> None:
        key = self._named(redirect.lease, foreign=False)
        if key in self.held:
            self._actions.append(MoveDriver(key, redirect.driver_address))

    def _named(self, lease: int, *, foreign: bool) -> LeaseKey:
        """The lease that this number means: one of an earlier incarnation only if this one does not know it."""
        if foreign:
            for key in self.held:
                if key.lease == lease and key.incarnation != self.incarnation:
                    return key
        return LeaseKey(self.incarnation, lease)

    def _acknowledged(self, through: int) -> None:
        for key, lease in list(self.held.items()):
            if 0 < lease.told <= through:
                del self.held[key]

    def _come_back(self, come_back: device_pb2.ComeBack, now: float) -> None:
        if come_back.reason == device_pb2.COME_BACK_REASON_LIMIT and not come_back.HasField("after"):
            self._close(CloseStream(CloseReason.LIMIT), now)
        else:
            self._close(CloseStream(CloseReason.COME_BACK, come_back.after.ToNanoseconds() / 1e9), now)

    def _close(self, close: CloseStream, now: float) -> None:
        if self._goodbye(device_pb2.GOODBYE_REASON_TOLD_TO, now):
            self._actions.append(close)

    def _enter(self, link: Link) -> bool:
        """Go to ``link`` if ``LINK`` leads there from here; returns whether it does."""
        may = link in LINK[self.link]
        if may:
            self.link = link
        return may

    # -- frames up

    def _goodbye(self, reason: device_pb2.GoodbyeReason.ValueType, now: float) -> bool:
        """Say goodbye; returns whether there was a stream to say it on."""
        leaves = self._enter(Link.LEAVING)
        if leaves:
            self._say(device_pb2.ConnectRequest(goodbye=device_pb2.Goodbye(reason=reason)), now)
        return leaves

    def _ended(self, key: LeaseKey, stage: Stage, end: device_pb2.ConnectRequest, now: float) -> list[Action]:
        lease = self.held.get(key)
        if lease is not None and lease.enter(stage):
            lease.end, lease.drop_at = end, math.inf
            if self.link is Link.OPEN:
                lease.told = self._say(end, now)
        elif lease is not None and lease.stage is Stage.STOPPING:
            return self.stopped(key, now)
        return self._take()

    def _release(self, lease: int, now: float) -> None:
        if self.link is Link.OPEN:
            self._say(device_pb2.ConnectRequest(released=device_pb2.Released(lease=lease)), now)

    def _beat(self, now: float) -> None:
        for key, lease in self.held.items():
            if lease.fraction is not None and lease.stage not in ENDED:
                progress = device_pb2.Progress(lease=key.lease, fraction=lease.fraction)
                lease.fraction = None
                self._say(device_pb2.ConnectRequest(progress=progress), now)
                return
        self._say(device_pb2.ConnectRequest(heartbeat=device_pb2.Heartbeat()), now)

    def _say(self, frame: device_pb2.ConnectRequest, now: float) -> int:
        """Number the frame and send it; returns its number."""
        self._seq += 1
        numbered = device_pb2.ConnectRequest()
        numbered.CopyFrom(frame)
        numbered.seq = self._seq
        self._said_at = now
        self._actions.append(Send(numbered))
        return self._seq

    def _take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions


def _held_lease(key: LeaseKey, lease: Held) -> device_pb2.HeldLease:
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
