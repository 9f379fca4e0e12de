"""DeviceService: one bidirectional stream per session. Role: device.

Nothing a device sends can crash, block or grow the coordinator: frames are bounded and checked before they become
events, their number is limited, signs of life are events only where they change something, and what is not read
overflows an outbox and ends the session.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from typing import NamedTuple
from urllib.parse import unquote

import grpc
from grpc.aio import EOF

from coordinator.engine import effects, events
from coordinator.engine.effects import Effect
from coordinator.engine.ids import DeviceId, SessionSeq
from coordinator.engine.lifecycle import RUNNING
from coordinator.engine.model import EngineSettings, SessionEnd
from coordinator.service.allowances import RECORD_BYTES, Allowance, Allowances
from coordinator.service.bounds import CoordinatorBounds
from coordinator.service.convert import devices as convert
from coordinator.service.convert.fields import MalformedError
from coordinator.service.durability import FULL
from coordinator.service.guard import caller
from coordinator.service.host import Host
from coordinator.service.jobs import Offers
from coordinator.service.liveness import LivenessMonitor
from coordinator.service.pace import Pacer
from coordinator.service.sessions import Context, Ending, Session
from venn.v1 import device_pb2
from venn.wire.admission import check_version, this_version
from venn.wire.bounds import Refusals, host_of
from venn.wire.logs import log
from venn.wire.status import abort

SERVICE = "venn.v1.DeviceService"
FIRST_FRAME_S = 10.0  # a stream says CheckIn within it
ACKNOWLEDGED_WITHIN_S = 0.1  # the end of a task, unless an offer takes it along before

STATUS = {  # of a session that the engine ends
    SessionEnd.SILENT: (grpc.StatusCode.UNAVAILABLE, "nothing was heard from this device"),
    SessionEnd.SUPERSEDED: (
        grpc.StatusCode.ABORTED,
        "a newer stream of this device has taken over; do not connect again",
    ),
    SessionEnd.DUPLICATE_DEVICE: (
        grpc.StatusCode.ALREADY_EXISTS,
        "another device with this id is alive; give this one a name of its own",
    ),
    SessionEnd.DRAINED: (grpc.StatusCode.UNAVAILABLE, "the coordinator has drained this device"),
    SessionEnd.SENT_AWAY: (grpc.StatusCode.UNAVAILABLE, "this device was sent away and has not left"),
    SessionEnd.SLOW_READER: (grpc.StatusCode.RESOURCE_EXHAUSTED, "this device does not read what it is sent"),
}
SIGNS_OF_LIFE = (events.DeviceHeard, events.TaskProgressed)  # handled only where they are news
FLOOD = "more frames than a device needs to send"
MOST_GONE = 10_000  # devices that left, of which is known from where they came and when they were heard
logger = logging.getLogger(__name__)


class LastSeen(NamedTuple):
    address: str  # host:port
    heard_at: float  # engine time


def _seen(session: Session) -> LastSeen:
    """The address and the time of the last sign of life. gRPC writes ``ipv4:HOST:PORT``, and the brackets of ``ipv6:``
    as in a URL.
    """
    return LastSeen(unquote(session.context.peer().partition(":")[2]), session.heard_at)


class DeviceService:
    """Serves the sessions of one host: turns frames into events, and the engine's effects into frames."""

    def __init__(
        self, host: Host, settings: EngineSettings, offers: Offers, bounds: CoordinatorBounds, refusals: Refusals
    ) -> None:
        self._host, self._settings, self._offers = host, settings, offers
        self._bounds, self._refusals, self._pacer = bounds, refusals, Pacer.of(settings, bounds)
        self._recorded = Allowances(bounds.recorded_at_once, bounds.recorded)  # bytes, by identity
        self._connections: Counter[str] = Counter()  # sessions, by connection
        self._sessions: dict[SessionSeq, Session] = {}  # every stream that has said CheckIn
        self._gone: dict[DeviceId, LastSeen] = {}  # those whose stream ended, the last one at the end
        self._ack = device_pb2.ConnectResponse(ack=device_pb2.Ack())  # filled in for each
        self._gathering: list[Session] = []  # with something to say that can wait
        self._last = max((device.last_session for device in host.engine.devices.values()), default=0)
        self._streams = 0
        self._liveness = LivenessMonitor(host, settings, self._sessions, self._silent_at, self._fell_silent)
        self.draining = False
        self.empty = asyncio.Event()  # no stream is open
        self.empty.set()
        host.listen(effects.OpenSession, self._welcome)
        host.listen(effects.CloseSession, self._close)
        host.listen(effects.OfferLease, self._offer)
        host.listen(effects.RevokeLease, self._revoke)
        host.listen(effects.SendAway, self._send_away)

    def handlers(self) -> grpc.GenericRpcHandler:
        """The method handlers, without (de)serialisers: bytes are measured before they are parsed, and outboxes are
        bounded in bytes.
        """
        connect: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self.connect)
        return grpc.method_handlers_generic_handler(SERVICE, {"Connect": connect})

    async def connect(self, _: AsyncIterator[bytes], context: Context) -> None:
        """Serve one stream, from its first byte to its last."""
        self._streams += 1
        self.empty.clear()
        identity, peer = caller(), context.peer()
        who = peer if identity.local else identity.name  # a local key is that of many devices
        frames = Allowance(self._bounds.frames_at_once, self._bounds.frames)
        session = Session(SessionSeq(0), context, frames, self._recorded.of(who))
        self._connections[peer] += 1
        try:
            await self._run(session)
        except MalformedError as error:
            self._ended(session, SessionEnd.BAD_FRAME, str(error))
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT, error.reason, error.message, where=error.where)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if session.ending is None or task is None:
                raise  # the transport, not we
            task.uncancel()
            await session.farewell()
        finally:
            self._ended(session, SessionEnd.CONNECTION_ENDED, "")
            self._connections[peer] -= 1
            if not self._connections[peer]:
                del self._connections[peer]
            if self._sessions.pop(session.seq, None) is not None:
                self._remember(session)
            self._streams -= 1
            if not self._streams:
                self.empty.set()

    async def _run(self, session: Session) -> None:
        if not await self._check_in(session):
            return
        read = session.context.read
        while (raw := await read()) is not EOF:
            if not session.frames.take(1):
                self._met("frames", session, FLOOD)
                raise MalformedError("stream", FLOOD)
            frame = convert.parse_frame(raw)
            if frame.seq <= session.received:
                raise MalformedError("seq", f"{frame.seq} does not follow {session.received}")
            event = convert.device_event(session.seq, frame, self._offers.proves)
            if self._host.full and not self._is_sign_of_life(event):
                await self._host.space()  # its next frames wait unread
            session.received = frame.seq
            if isinstance(event, events.SessionEnded):
                session.open = False
                await self._host.ask(event)
                await session.flush()
                return
            self._heard(session, event, len(raw))
        await session.flush()

    async def _check_in(self, session: Session) -> bool:
        """Read the first frame and begin the session; returns False if the stream ended before it."""
        try:
            async with asyncio.timeout(FIRST_FRAME_S):
                raw = await session.context.read()
        except TimeoutError:
            message = f"no check-in within {FIRST_FRAME_S:g} s"  # a slow device's bad luck: it may connect again
            await abort(session.context, grpc.StatusCode.UNAVAILABLE, "NO_CHECK_IN", message)
        if raw is EOF:  # the end of the stream, however it came
            return False
        await self._check_bounds(session, len(raw))
        frame = convert.parse_frame(raw)
        if frame.WhichOneof("frame") != "check_in":
            raise MalformedError("frame", "the first frame is a CheckIn")
        await check_version(session.context, frame.check_in.version)
        if (size := frame.check_in.capabilities.ByteSize()) > self._bounds.capabilities:
            why = f"capabilities of {size} bytes, allowed are {self._bounds.capabilities}"
            self._met("capabilities", session, why)
            raise MalformedError("check_in.capabilities", why)
        if self.draining:
            await abort(session.context, grpc.StatusCode.UNAVAILABLE, "DRAINING", "the coordinator is shutting down")
        if self._host.full:
            await abort(session.context, grpc.StatusCode.UNAVAILABLE, "OUT_OF_SPACE", FULL)
        self._last += 1
        session.seq = SessionSeq(self._last)
        event = convert.check_in(frame.check_in, session.seq, self._host.incarnation, self._offers.proves)
        identity = caller()
        if not identity.is_device(event.device):
            message = f"this key is that of device {identity.name}, not of {event.device}"
            await abort(session.context, grpc.StatusCode.PERMISSION_DENIED, "DEVICE_ID", message)
        session.device, session.key_id = event.device, identity.key_id
        session.received, session.heard_at = frame.seq, self._host.now()
        session.acknowledged = frame.seq  # by the Welcome
        self._sessions[session.seq] = session
        session.open = True
        self._host.handle(event)
        self._liveness.watch(session.seq)
        return True

    async def _check_bounds(self, session: Session, size: int) -> None:
        """Refuse a check-in of so many bytes if its connection, or its device, has begun too many sessions."""
        context, exhausted = session.context, grpc.StatusCode.RESOURCE_EXHAUSTED
        if self._connections[context.peer()] > self._bounds.sessions_per_connection:
            why = f"more than {self._bounds.sessions_per_connection} sessions on one connection"
            self._met("sessions_per_connection", session, why)
            await abort(context, exhausted, "TOO_MANY_SESSIONS", why)
        if not session.recorded.take(size + RECORD_BYTES):
            wait_s = session.recorded.wait_s(size + RECORD_BYTES)
            self._met("recorded", session, "too many check-ins")
            await abort(context, exhausted, "TOO_FAST", "too many check-ins", retry_after_s=f"{wait_s:.3f}")

    def _met(self, bound: str, session: Session, why: str) -> None:
        identity = caller()
        self._refusals.met(bound, host_of(session.context.peer()) if identity.local else identity.name, why)

    def _is_sign_of_life(self, event: events.Event) -> bool:
        """Whether an event says that its device lives, and nothing else."""
        return isinstance(event, SIGNS_OF_LIFE) and not self._host.engine.is_news(event)

    def _heard(self, session: Session, event: events.Event, size: int) -> None:
        """Let the engine hear what is news to it, and acknowledge it once it is recorded. ``size``: bytes of the frame.

        Raises MalformedError where a device makes us record too much.
        """
        if self._is_sign_of_life(event):
            session.heard_at = self._host.now()
            self._pace(session)
            self._acknowledge(session)
            return
        if not session.recorded.take(size + RECORD_BYTES):
            self._met("recorded", session, FLOOD)
            raise MalformedError("stream", FLOOD)

        def recorded(_: list[Effect]) -> None:
            self._acknowledge(session, can_wait=isinstance(event, events.TaskFinished))  # the next offer is not far

        # The acknowledgement of an acceptance can wait for that of the lease's end.
        self._host.handle(event, None if isinstance(event, events.LeaseAccepted) else recorded)
        session.heard_at = self._host.latest

    def _acknowledge(self, session: Session, *, can_wait: bool = False) -> None:
        if session.acknowledged < session.received:
            session.acknowledged = session.received
            self._ack.ack.through = session.received
            self._send(session, self._ack.SerializeToString(), can_wait=can_wait)
            if can_wait:
                self._gather(session)

    def _pace(self, session: Session) -> None:
        """Tell a device that has just spoken another pace, if the number of devices asks for it."""
        devices = len(self._host.engine.sessions)
        interval_s = self._pacer.interval_s(devices, session.pace_s)
        if interval_s != session.pace_s:
            session.pace_s = interval_s
            pace = device_pb2.ConnectResponse(pace=self._pacer.frame(devices, interval_s))
            self._send(session, pace.SerializeToString(), can_wait=True)  # the acknowledgement takes it along

    def _ask_for_life(self, device: DeviceId) -> None:
        """Ask a device for a sign of life within a liveness interval, whatever its pace: another one has its name, and
        it may be the same one after a power cut.
        """
        known = self._host.engine.devices.get(device)
        session = self._sessions.get(known.session.seq) if known is not None and known.session is not None else None
        if session is not None and session.asked_at <= session.heard_at:
            session.asked_at, session.pace_s = self._host.now(), self._settings.heartbeat_s
            pace = self._pacer.frame(len(self._host.engine.sessions), session.pace_s)
            self._send(session, device_pb2.ConnectResponse(pace=pace).SerializeToString())

    def _gather(self, session: Session) -> None:
        """Let the outbox of a session wait a moment for more frames."""
        self._gathering.append(session)
        if len(self._gathering) == 1:
            self._host.loop.call_later(ACKNOWLEDGED_WITHIN_S, self._let_go)

    def _let_go(self) -> None:
        sessions, self._gathering = self._gathering, []
        for session in sessions:
            session.let_go()

    # -- effects

    def _welcome(self, now: float, effect: effects.OpenSession) -> None:
        if session := self._sessions.get(effect.session):
            devices = len(self._host.engine.sessions)
            session.pace_s = self._pacer.interval_s(devices)
            welcome = device_pb2.Welcome(
                incarnation=self._host.incarnation,
                session=effect.session,
                heartbeat=convert.duration(self._settings.heartbeat_s),
                liveness=convert.duration(self._settings.liveness_s),
                version=this_version(),
                pace=self._pacer.frame(devices, session.pace_s),
            )
            self._send(session, device_pb2.ConnectResponse(welcome=welcome).SerializeToString())

    def _offer(self, now: float, effect: effects.OfferLease) -> None:
        session = self._sessions.get(effect.session)
        offer = self._offers.offer(effect, self._host.latest, session.key_id) if session else None
        if session and offer:
            session.expect_answers()
            self._send(session, offer)

    def _revoke(self, now: float, effect: effects.RevokeLease) -> None:
        if session := self._sessions.get(effect.session):
            self._send(session, convert.revoke_frame(effect).SerializeToString())

    def redirect(self, session: SessionSeq, lease: int, address: str, certificate: bytes) -> None:
        """Tell a device that the driver of a live lease has moved."""
        if found := self._sessions.get(session):
            self._send(found, convert.redirect_frame(lease, address, certificate).SerializeToString())

    def _send_away(self, now: float, effect: effects.SendAway) -> None:
        """Tell a device to leave. It says goodbye then; the engine closes the session of one that does not."""
        if session := self._sessions.get(effect.session):
            self._send(session, convert.come_back_frame(effect).SerializeToString())

    def _close(self, now: float, effect: effects.CloseSession) -> None:
        if effect.reason is SessionEnd.DUPLICATE_DEVICE:
            self._ask_for_life(effect.device)
        if session := self._sessions.get(effect.session):
            session.open = False
            session.end(_ending(effect.reason, effect.retry_after_s))

    def _send(self, session: Session, frame: bytes, *, can_wait: bool = False) -> None:
        if not session.send(frame, can_wait=can_wait) and session.ending is None:
            self._ended(session, SessionEnd.SLOW_READER, "its outbox is full")
            session.end(_ending(SessionEnd.SLOW_READER))

    # -- ends

    def _ended(self, session: Session, reason: SessionEnd, why: str) -> None:
        """Tell the engine that a session has ended, if it does not know."""
        if session.open:
            session.open = False
            if why:
                log(logger, logging.WARNING, f"session ended: {reason}", device=session.device, why=why)
            self._host.handle(events.SessionEnded(session.seq, reason))

    def _silent_at(self, session: Session) -> float:
        """Engine time from which a device is silent: at a task it has a liveness interval, without one its pace's."""
        known = self._host.engine.sessions.get(session.seq)
        lease = known.device.lease if known is not None else None
        at_a_task = lease is not None and lease.state is RUNNING  # one that is offered it may not have seen
        last = max(session.heard_at, session.asked_at)
        return last + (self._settings.liveness_s if at_a_task else self._pacer.silence_s(session.pace_s))

    def _fell_silent(self, session: Session) -> None:
        self._ended(session, SessionEnd.SILENT, "")
        session.end(_ending(SessionEnd.SILENT))

    def alive(self, session: SessionSeq) -> None:
        """Note a sign of life: a driver has acknowledged bytes of a device that may not have spoken here meanwhile."""
        if found := self._sessions.get(session):
            found.heard_at = self._host.now()

    def last_seen(self, device: DeviceId) -> LastSeen | None:
        """The last sign of life of a device; None if it is neither connected nor among those that left last."""
        known = self._host.engine.devices.get(device)
        session = self._sessions.get(known.session.seq) if known is not None and known.session is not None else None
        return self._gone.get(device) if session is None else _seen(session)

    def _remember(self, session: Session) -> None:
        self._gone.pop(session.device, None)
        self._gone[session.device] = _seen(session)
        if len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def drop(self, device: str) -> bool:
        """Inject a fault: cut a device's stream, as if its connection had ended. Returns whether it had one."""
        for session in self._sessions.values():
            if session.device == device and session.ending is None:
                self._ended(session, SessionEnd.CONNECTION_ENDED, "a fault was injected")
                session.end(Ending(grpc.StatusCode.UNAVAILABLE, "FAULT", "this stream was cut on purpose"))
                return True
        return False

    async def drain(self, timeout_s: float) -> None:
        """Tell all devices that the coordinator goes down, and wait for their goodbyes, at most so many seconds."""
        self.draining = True
        drain = device_pb2.ConnectResponse(drain=device_pb2.Drain()).SerializeToString()
        for session in list(self._sessions.values()):
            self._send(session, drain)
        try:
            async with asyncio.timeout(timeout_s):
                await self._host.ask(events.DevicesDrained(None))
                await self.empty.wait()
        except TimeoutError:
            log(logger, logging.WARNING, "devices are still connected", devices=self._streams)


def _ending(reason: SessionEnd, retry_after_s: float = 0.0) -> Ending:
    code, message = STATUS[reason]
    return Ending(code, reason.name, message, retry_after_s)
