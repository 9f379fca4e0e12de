"""The device's half of the session protocol. Pure: frames and ``now`` (seconds, never decreasing) in, actions out.

A ``Session`` lives as long as the device's process (its *instance*), over many streams. Its link and each lease that
the device holds (``held``) go from state to state as the tables ``LINK`` and ``STAGE`` say; what is not in a table is
not done. The result of a lease is named at every check-in until it is acknowledged (docs/protocol.md, "Sessions").
"""

import math
from collections.abc import Callable, Mapping
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
from device_agent.held import ENDED, Held, Stage, held_lease
from device_agent.pace import Pace
from venn.v1 import common_pb2, device_pb2
from venn.wire.admission import this_version
from venn.wire.calls import duration

WELCOME_WITHIN_S = 10.0  # from the check-in
BUSY_RETRY_S = 1.0


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


class Session:
    """The session of one device, over many streams."""

    def __init__(
        self,
        check_in: device_pb2.CheckIn,
        check_offer: Callable[[device_pb2.Offer], Refusal | None],
        draw: Callable[[], float],
    ) -> None:
        """``check_offer`` says whether an offer is declined, and why; ``draw`` gives numbers from 0 to 1."""
        self._check_in, self._check_offer, self._pace = check_in, check_offer, Pace(draw)
        self.link = Link.AWAY
        self.held: dict[LeaseKey, Held] = {}
        self.incarnation = 0  # of the coordinator that was met last
        self._seq = 0  # of the last frame of this stream
        self._heard_at = self._said_at = 0.0
        self._actions: list[Action] = []

    @property
    def in_task(self) -> bool:
        """Whether a lease's work is under way."""
        return any(lease.stage not in ENDED for lease in self.held.values())

    @property
    def reconnect_s(self) -> float:
        """The seconds within which to connect again, at a random moment, once the connection is lost."""
        return self._pace.reconnect_s(at_a_task=self.in_task)

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
                frame.held.append(held_lease(key, lease))
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
            case "pace":
                self._pace.told(frame.pace)
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
        at = min(at, self._heard_at + self._patience_s)
        return min(at, self._beat_at) if self.link is Link.OPEN else at

    def tick(self, now: float) -> list[Action]:
        """Do what is due now: heartbeats, the coordinator's silence, leases that nobody ended."""
        for key, lease in list(self.held.items()):
            if now >= lease.drop_at:
                del self.held[key]
                if lease.stage not in ENDED:
                    self._actions.append(StopTask(key, "its lease is over"))
        if now >= self._heard_at + self._patience_s and self._enter(Link.LEAVING):
            self._actions.append(CloseStream(CloseReason.SILENT))
        elif self.link is Link.OPEN and now >= self._beat_at:
            self._beat(now)
        return self._take()

    @property
    def _patience_s(self) -> float:
        """The seconds without a frame after which the coordinator is given up."""
        match self.link:
            case Link.DIALLING:
                return WELCOME_WITHIN_S
            case Link.OPEN:
                return self._pace.silence_s(at_a_task=self.in_task)
            case Link.AWAY | Link.LEAVING:
                return math.inf
            case _:
                assert_never(self.link)

    @property
    def _beat_at(self) -> float:
        """When the next heartbeat is due, of an open link."""
        return self._said_at + self._pace.heartbeat_s(at_a_task=self.in_task)

    # -- frames down

    def _welcome(self, welcome: device_pb2.Welcome, now: float) -> None:
        if not self._enter(Link.OPEN):
            return
        self.incarnation = welcome.incarnation
        self._pace.welcomed(welcome)
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
            self._actions.append(MoveDriver(key, redirect.driver_address, redirect.driver_certificate))

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
        self._pace.spoke()
        self._actions.append(Send(numbered))
        return self._seq

    def _take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions
