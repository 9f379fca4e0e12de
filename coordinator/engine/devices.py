"""Devices: check-ins, and what they say about their leases.

A frame about a lease that is not in the device's hand never fails: it is answered by Revoke with the reason
(docs/protocol.md, "Leases"). Where the driver's record has ended the lease, the device learns that from its receipt,
and is not told here.
"""

from typing import assert_never

from coordinator.engine.effects import CloseSession, OpenSession, RevokeLease
from coordinator.engine.events import (
    DeviceCheckedIn,
    DeviceHeard,
    DevicesDrained,
    LeaseAccepted,
    LeaseDeclined,
    LeaseReleased,
    SessionEnded,
    TaskFailed,
    TaskFinished,
    TaskProgressed,
)
from coordinator.engine.failures import decline, fail
from coordinator.engine.ids import LeaseSeq
from coordinator.engine.leases import accept, close, deliver, end, lose, resume, revoke, settle, stopped
from coordinator.engine.lifecycle import ABSENT, CHECK_IN, GONE, IDLE, OFFERED, RUNNING
from coordinator.engine.model import FailureReason, HeldLease, HeldPhase, LeaseEnd, Outcome, Phase, SessionEnd
from coordinator.engine.recovery import come_back
from coordinator.engine.state import Device, Lease, Session
from coordinator.engine.world import World

_BY_RECORD = frozenset({LeaseEnd.COUNTED, LeaseEnd.STRAGGLER, LeaseEnd.REJECTED})


def check_in(world: World, event: DeviceCheckedIn) -> None:
    """Open a session: the newest stream of an instance wins, another instance waits until that session has ended."""
    if event.session in world.sessions:
        return  # the same frame again
    device = world.devices.get(event.device)
    if world.draining or (device is not None and device.drained):
        _refuse(world, event, SessionEnd.DRAINED)
        return
    if device is None:
        memory_bytes = event.capabilities.memory_bytes
        _make_room(world, memory_bytes)
        class_id = world.regions.classify(event.device, event.capabilities)
        device = Device(event.device, event.capabilities, class_id, memory_bytes)
        world.devices[device.id] = device
        world.device_bytes += memory_bytes
        world.regions.count(class_id, 1)
        world.device_counts[GONE] += 1
    elif event.session <= device.last_session:
        _refuse(world, event, SessionEnd.SUPERSEDED)
        return
    if device.session is not None and device.session.unheard:
        come_back(world, device.session, event)
    elif device.session is not None:
        if event.instance != device.instance:
            world.note(
                device, "DUPLICATE", f"instance {event.instance[:8]} was refused while {device.instance[:8]} lives"
            )
            _refuse(world, event, SessionEnd.DUPLICATE_DEVICE, world.settings.liveness_s)
            return
        close(world, device.session, SessionEnd.SUPERSEDED)
    _open(world, device, event)


def heard(world: World, session: Session) -> None:
    """Note a sign of life from the device itself: it may get offers again."""
    device = session.device
    if device.quiet:
        device.quiet = False
        if device.state is IDLE:
            world.fresh.append(session)


def is_news(session: Session, event: DeviceHeard | TaskProgressed) -> bool:
    """Whether a sign of life changes anything: the device was quiet, or works on what it does not hold by our books."""
    if session.device.quiet:
        return True
    if isinstance(event, DeviceHeard):
        return False
    lease = _in_hand(session, event.lease)
    return lease is None or lease.state is not RUNNING


def accepted(world: World, event: LeaseAccepted, session: Session) -> None:
    lease = _in_hand(session, event.lease)
    if lease is None:
        _tell_ended(world, session, event.lease)
    elif lease.state is OFFERED:
        accept(world, lease)


def progressed(world: World, event: TaskProgressed, session: Session) -> None:
    lease = _in_hand(session, event.lease)
    if lease is None:
        _tell_ended(world, session, event.lease)
    elif lease.state is OFFERED:  # its acceptance was lost
        accept(world, lease)


def declined(world: World, event: LeaseDeclined, session: Session) -> None:
    lease = _in_hand(session, event.lease)
    if lease is not None and lease.state is OFFERED:
        decline(world, lease, event.reason, event.retry_after_s, event.message)
    elif lease is not None:  # it had accepted: then it fails
        fail(world, lease, Phase.ON_DEVICE, event.reason, event.message)
    else:
        stopped(world, session.device, event.lease)


def finished(world: World, event: TaskFinished, session: Session) -> None:
    lease = _in_hand(session, event.lease)
    if lease is not None:
        deliver(world, lease, event.outcome)
    else:
        _stopped_late(world, session, event.lease)


def failed(world: World, event: TaskFailed, session: Session) -> None:
    lease = _in_hand(session, event.lease)
    if lease is not None:
        fail(world, lease, event.phase, event.reason, event.message)
    else:
        _stopped_late(world, session, event.lease)


def released(world: World, event: LeaseReleased, session: Session) -> None:
    lease = _in_hand(session, event.lease)
    if lease is not None:  # nobody told it to
        fail(world, lease, Phase.ON_DEVICE, FailureReason.CANCELLED, "released by the device")
    else:
        stopped(world, session.device, event.lease)


def session_ended(world: World, event: SessionEnded, session: Session) -> None:
    lose(world, session, event.reason)


def drain(world: World, event: DevicesDrained) -> None:
    """Send devices away: idle ones now, busy ones after their task."""
    if event.devices is None:
        world.draining = True
        waiting = list(world.idle_sessions())
    else:
        devices = [world.devices[id_] for id_ in event.devices if id_ in world.devices]
        for device in devices:
            device.drained = True
        waiting = [device.session for device in devices if device.session and device.state is IDLE]
    for session in waiting:
        if session.seq in world.sessions:  # a device may be named twice
            close(world, session, SessionEnd.DRAINED)


def _open(world: World, device: Device, event: DeviceCheckedIn) -> None:
    again = event.interval == device.interval and event.instance == device.instance
    session = Session(event.session, device, world.now, world.now)
    world.sessions[session.seq] = device.session = session
    world.gone.pop(device.id, None)
    world.move(device, CHECK_IN)
    device.last_session, device.resting_until = session.seq, 0.0
    device.instance, device.interval, device.left = event.instance, event.interval, None
    device.tasks_per_session, device.tasks_per_day = event.tasks_per_session, event.tasks_per_day
    device.tier = world.tiers.of(event.reference_s)
    if event.capabilities is not device.capabilities and event.capabilities != device.capabilities:
        _reclassify(world, device, event)
    if not again:
        device.tasks_in_interval = 0
        device.check_ins += 1
        if not device.limited(world.now):
            world.supply.count(device.capability_class)
            world.tiers.count(event.reference_s, device.tier, device.capability_class)
    if device.cooling:
        device.cooling = {
            id_: cool for id_, cool in device.cooling.items() if id_ in world.jobs and not world.jobs[id_].ended
        }
    text = "session {}, interval {} again" if again else "session {}, interval {}"
    device.history.append((world.now, "CHECKED IN", text, session.seq, event.interval))
    world.effects.append(OpenSession(session.seq, device.id))
    if device.lease is not None or device.stopping or event.held or event.foreign:
        _take_up(world, session, event.held, event.foreign)
    if device.state is IDLE:
        settle(world, session)


def _reclassify(world: World, device: Device, event: DeviceCheckedIn) -> None:
    world.regions.count(device.capability_class, -1)
    world.device_bytes -= device.memory_bytes
    device.capabilities, device.memory_bytes = event.capabilities, event.capabilities.memory_bytes
    world.device_bytes += device.memory_bytes
    device.capability_class = world.regions.classify(device.id, device.capabilities)
    world.regions.count(device.capability_class, 1)


def _take_up(world: World, session: Session, held: tuple[HeldLease, ...], foreign: tuple[LeaseSeq, ...]) -> None:
    """Keep or revoke what the device still holds; what it no longer names is lost, or was stopped."""
    device = session.device
    device.stopping.clear()
    awaited = device.lease
    for one in held:
        if awaited is not None and one.lease == awaited.seq and awaited.state is ABSENT:
            _take_up_one(world, session, awaited, one)
        elif one.phase not in (HeldPhase.DONE, HeldPhase.BROKEN) and _in_hand(session, one.lease) is None:
            revoke(world, session, one.lease, _end_of(world, device, one.lease), _stop_by(world, device, one.lease))
    if awaited is not None and device.lease is awaited and awaited.state is ABSENT:
        end(world, awaited, LeaseEnd.LOST)
    for seq in foreign:
        revoke(world, session, seq, LeaseEnd.UNKNOWN, world.now + world.settings.liveness_s)


def _take_up_one(world: World, session: Session, lease: Lease, held: HeldLease) -> None:
    match held.phase:
        case HeldPhase.DONE:
            deliver(world, lease, held.outcome or Outcome.STRAGGLER)
        case HeldPhase.BROKEN:
            fail(world, lease, None, held.failure or FailureReason.TASK_CRASHED, held.message)
        case HeldPhase.FETCHING | HeldPhase.WORKING | HeldPhase.SUBMITTING:
            resume(world, lease, session)
        case _:
            assert_never(held.phase)


def _in_hand(session: Session, seq: LeaseSeq) -> Lease | None:
    """The lease, if it is the one that this session's device holds."""
    lease = session.device.lease
    return lease if lease is not None and lease.seq == seq else None


def _tell_ended(world: World, session: Session, seq: LeaseSeq) -> None:
    """The device works on a lease that is not, or no longer, its own."""
    reason = _end_of(world, session.device, seq)
    if reason not in _BY_RECORD:
        revoke(world, session, seq, reason, _stop_by(world, session.device, seq))


def _stopped_late(world: World, session: Session, seq: LeaseSeq) -> None:
    """The device is through with a lease that had ended."""
    reason = _end_of(world, session.device, seq)
    if reason not in _BY_RECORD:
        world.effects.append(RevokeLease(session.seq, seq, reason))
    stopped(world, session.device, seq)


def _end_of(world: World, device: Device, seq: LeaseSeq) -> LeaseEnd:
    """Why a lease that the device names has ended; UNKNOWN if it is not known, or never was the device's."""
    stopping = device.stopping.get(seq)
    if stopping is not None:
        return stopping.reason
    lease = world.ended.get(seq)
    if lease is None or lease.device is not device or lease.reason is None:
        return LeaseEnd.UNKNOWN
    return lease.reason


def _stop_by(world: World, device: Device, seq: LeaseSeq) -> float:
    """A device that never says that it has stopped is taken for free from then on: at the lease's expiry, if known."""
    stopping = device.stopping.get(seq)
    if stopping is not None:
        return stopping.until
    lease = world.ended.get(seq)
    if lease is not None and lease.device is device and lease.ends_at > world.now:
        return lease.ends_at
    return world.now + world.settings.liveness_s


def _refuse(world: World, event: DeviceCheckedIn, reason: SessionEnd, retry_after_s: float = 0.0) -> None:
    world.effects.append(CloseSession(event.session, event.device, reason, retry_after_s))


def _make_room(world: World, memory_bytes: int) -> None:
    """Forget the devices that left first, as many as are too many with one more device of this size."""
    devices, settings = world.devices, world.settings
    if len(devices) < settings.most_devices and world.device_bytes + memory_bytes <= settings.most_device_bytes:
        return
    forgotten: list[Device] = []
    count, room = len(devices), settings.most_device_bytes - memory_bytes
    left_bytes = world.device_bytes
    for id_ in world.gone:
        if count < settings.most_devices and left_bytes <= room:
            break
        if devices[id_].lease is None:
            forgotten.append(devices[id_])
            count, left_bytes = count - 1, left_bytes - devices[id_].memory_bytes
    for device in forgotten:
        del devices[device.id], world.gone[device.id]
        world.regions.count(device.capability_class, -1)
        world.device_counts[device.state] -= 1
    world.device_bytes = left_bytes
