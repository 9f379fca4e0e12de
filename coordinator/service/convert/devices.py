"""Frames of devices to events, with every field checked and bounded; effects to frames for devices.

What a device says of a response is believed only with the driver's receipt. ``proves`` says whether one is genuine;
with any other the task has failed.
"""

import math
from collections.abc import Callable
from typing import Any, assert_never

from google.protobuf.duration_pb2 import Duration

from coordinator.engine import events
from coordinator.engine.effects import RevokeLease, SendAway
from coordinator.engine.ids import DeviceId, LeaseSeq, SessionSeq
from coordinator.engine.model import (
    EngineSettings,
    FailureReason,
    HeldLease,
    HeldPhase,
    Outcome,
    Phase,
    SessionEnd,
)
from coordinator.engine.requirements import Capabilities
from coordinator.service.convert import fields
from coordinator.service.convert.fields import MalformedError, known
from venn.v1 import common_pb2, device_pb2
from venn.wire.text import printable

Proves = Callable[[common_pb2.Receipt], bool]

FORGED = "it says that the driver answered, without the driver's receipt"
HELD_PHASES = {phase.value: phase for phase in HeldPhase}  # a phase's name on the wire is its value


def seconds(value: Duration, where: str) -> float:
    """The seconds of a duration, 0 to a year. Raises MalformedError."""
    length = value.seconds + value.nanos / 1e9
    if not 0 <= length <= fields.MOST_SECONDS:
        raise MalformedError(where, f"{length} s is not between 0 s and a year")
    return length


def split(length: float) -> tuple[int, int]:
    """A length of at least 0 s as whole seconds and the nanoseconds beyond them, of a length of at least 0 s."""
    return divmod(max(0, round(length * 1e9)), 1_000_000_000)


def duration(length: float) -> Duration:
    """A duration of ``length`` seconds, at least 0."""
    whole, nanos = split(length)
    return Duration(seconds=whole, nanos=nanos)


# -- up


def parse_frame(raw: bytes) -> device_pb2.ConnectRequest:
    """Parse a frame of a device, of at most MOST_FRAME_BYTES. Raises MalformedError."""
    if len(raw) > fields.MOST_FRAME_BYTES:
        raise MalformedError("frame", f"{len(raw)} bytes; a frame has at most {fields.MOST_FRAME_BYTES}")
    try:
        return device_pb2.ConnectRequest.FromString(raw)
    except Exception as error:  # protobuf's implementations raise different types
        raise MalformedError("frame", "these bytes are not a ConnectRequest") from error


def check_in(
    frame: device_pb2.CheckIn, session: SessionSeq, incarnation: int, proves: Proves
) -> events.DeviceCheckedIn:
    """The event of a check-in; held leases of other incarnations than ours are only named. Raises MalformedError."""
    if len(frame.instance) != 16:
        raise MalformedError("check_in.instance", f"{len(frame.instance)} bytes; it has 16")
    fields.at_most(len(frame.held), fields.MOST_HELD_LEASES, "check_in.held")
    has = capabilities(frame.capabilities)
    return events.DeviceCheckedIn(
        session=session,
        device=DeviceId(fields.name(frame.device, "check_in.device")),
        instance=frame.instance.hex(),
        interval=fields.at_most(frame.interval, fields.MOST_COUNT, "check_in.interval"),
        capabilities=has,
        held=tuple(_held(item, proves) for item in frame.held if item.incarnation == incarnation),
        foreign=tuple(LeaseSeq(item.lease) for item in frame.held if item.incarnation != incarnation),
        tasks_per_session=frame.tasks_per_session,
        tasks_per_day=frame.tasks_per_day,
        reference_s=_reference_s(has.numbers.get("cpu", 0.0)),
    )


def capabilities(message: common_pb2.Capabilities) -> Capabilities:
    """The capabilities in a message, within the bounds of the protocol. Raises MalformedError."""
    fields.at_most(len(message.numbers), fields.MOST_CAPABILITIES, "capabilities.numbers")
    fields.at_most(len(message.labels), fields.MOST_CAPABILITIES, "capabilities.labels")
    numbers = {
        fields.short(key, "capabilities.numbers"): fields.number(value, f"capabilities.{printable(key, limit=64)}")
        for key, value in message.numbers.items()
    }
    labels = {
        fields.short(key, "capabilities.labels"): _label(label.values, printable(key, limit=64))
        for key, label in message.labels.items()
    }
    return Capabilities(numbers, labels)


def _reference_s(cpu: float) -> float:
    """The seconds that this device takes for one second of work of a device whose score is 1; 0: not known."""
    return 1.0 / cpu if cpu > 0.0 and math.isfinite(1.0 / cpu) else 0.0


def _label(values: Any, key: str) -> frozenset[str]:
    fields.at_most(len(values), fields.MOST_LABEL_VALUES, f"capabilities.{key}")
    return frozenset(fields.short(value, f"capabilities.{key}") for value in values)


def _held(item: device_pb2.HeldLease, proves: Proves) -> HeldLease:
    phase = HELD_PHASES.get(item.WhichOneof("phase") or "")
    if phase is None:
        raise MalformedError("check_in.held.phase", "it is missing")
    if phase is HeldPhase.DONE and not proves(item.done.receipt):
        failure = FailureReason.RECEIPT_FORGED
        return HeldLease(LeaseSeq(item.lease), HeldPhase.BROKEN, failure=failure, message=FORGED)
    return HeldLease(
        LeaseSeq(item.lease),
        phase,
        outcome=_outcome(item.done.receipt, item.lease) if phase is HeldPhase.DONE else None,
        failure=known(fields.FAILURE_FROM_WIRE, item.broken.reason, "reason") if phase is HeldPhase.BROKEN else None,
        message=printable(item.broken.message, limit=fields.MOST_TEXT) if phase is HeldPhase.BROKEN else "",
    )


def _outcome(receipt: common_pb2.Receipt, lease: int) -> Outcome:
    if receipt.lease != lease:
        raise MalformedError("receipt.lease", f"the receipt is of lease {receipt.lease}, not of {lease}")
    said = receipt.first_outcome if receipt.outcome == common_pb2.OUTCOME_DUPLICATE else receipt.outcome
    return known(fields.OUTCOME_FROM_WIRE, said, "receipt.outcome")


def _declined(session: SessionSeq, said: device_pb2.Declined) -> events.Event:
    return events.LeaseDeclined(
        session,
        LeaseSeq(said.lease),
        known(fields.FAILURE_FROM_WIRE, said.reason, "reason"),
        seconds(said.retry_after, "declined.retry_after"),
        printable(said.message, limit=fields.MOST_TEXT),
    )


def _finished(session: SessionSeq, said: device_pb2.Finished, proves: Proves) -> events.Event:
    outcome = _outcome(said.receipt, said.lease)
    if not proves(said.receipt):
        reason = FailureReason.RECEIPT_FORGED
        return events.TaskFailed(session, LeaseSeq(said.lease), Phase.SUBMIT, reason, FORGED)
    if not said.HasField("measure"):
        return events.TaskFinished(session, LeaseSeq(said.lease), outcome)
    return events.TaskFinished(
        session,
        LeaseSeq(said.lease),
        outcome,
        seconds(said.measure.compute, "measure.compute"),
        seconds(said.measure.late, "measure.late"),
        seconds(said.measure.compute_cpu, "measure.compute_cpu"),
        fields.at_most(said.measure.held_back, fields.MOST_COUNT, "measure.held_back"),
    )


def _failed(session: SessionSeq, said: device_pb2.Failed) -> events.Event:
    """The event of a failed task. Its message is one line; the last lines of the task's output follow on lines of their
    own.
    """
    message = printable(said.message, limit=fields.MOST_TEXT)
    if output := printable(said.output_tail[-fields.MOST_OUTPUT :], limit=fields.MOST_OUTPUT, keep_newlines=True):
        message = f"{message}\n{output}"
    return events.TaskFailed(
        session,
        LeaseSeq(said.lease),
        known(fields.PHASE_FROM_WIRE, said.phase, "phase"),
        known(fields.FAILURE_FROM_WIRE, said.reason, "reason"),
        message,
    )


def device_event(session: SessionSeq, frame: device_pb2.ConnectRequest, proves: Proves) -> events.Event:
    """The event that a frame after the check-in stands for. Raises MalformedError."""
    match frame.WhichOneof("frame"):
        case "accepted":
            return events.LeaseAccepted(session, LeaseSeq(frame.accepted.lease))
        case "finished":
            return _finished(session, frame.finished, proves)
        case "heartbeat":
            return events.DeviceHeard(session)
        case "progress":
            fraction = fields.number(frame.progress.fraction, "progress.fraction")
            return events.TaskProgressed(session, LeaseSeq(frame.progress.lease), min(1.0, max(0.0, fraction)))
        case "declined":
            return _declined(session, frame.declined)
        case "failed":
            return _failed(session, frame.failed)
        case "released":
            return events.LeaseReleased(session, LeaseSeq(frame.released.lease))
        case "goodbye":
            reason = fields.GOODBYE_FROM_WIRE.get(frame.goodbye.reason, SessionEnd.GOODBYE_STOPPED)
            return events.SessionEnded(session, reason)
        case "check_in" | None as kind:
            raise MalformedError("frame", f"a {kind or 'frame of no kind'} is not allowed here")
        case other:
            assert_never(other)


# -- down


def redirect_frame(lease: int, address: str, certificate: bytes) -> device_pb2.ConnectResponse:
    moved = device_pb2.Redirect(lease=lease, driver_address=address, driver_certificate=certificate)
    return device_pb2.ConnectResponse(redirect=moved)


def revoke_frame(effect: RevokeLease) -> device_pb2.ConnectResponse:
    return device_pb2.ConnectResponse(
        revoke=device_pb2.Revoke(lease=effect.lease, reason=fields.LEASE_END[effect.reason])
    )


def come_back_frame(effect: SendAway) -> device_pb2.ConnectResponse:
    after = None if effect.after_s is None else duration(effect.after_s)
    reason = fields.COME_BACK[effect.reason]
    return device_pb2.ConnectResponse(come_back=device_pb2.ComeBack(after=after, reason=reason))


def offer_template(
    attempt: common_pb2.AttemptKey, task: common_pb2.Task, key_id: str, settings: EngineSettings
) -> device_pb2.ConnectResponse:
    """The frame that all offers of one attempt are made from."""
    offer = device_pb2.Offer(
        attempt=attempt,
        task=task,
        accept_within=duration(settings.accept_timeout_s),
        grace=duration(settings.driver_grace_s),
    )
    offer.ticket.key_id = key_id
    return device_pb2.ConnectResponse(offer=offer)


def offer_bytes(
    template: device_pb2.ConnectResponse,
    lease: LeaseSeq,
    *,
    payload: bytes,
    mac: bytes,
    address: str,
    certificate: bytes,
    remaining_s: float,
) -> bytes:
    """One offer, serialised. It is filled into the template itself: each offer overwrites what differs."""
    offer = template.offer
    ticket, remaining = offer.ticket, offer.remaining
    offer.lease, offer.driver_address, offer.driver_certificate = lease, address, certificate
    ticket.payload, ticket.mac = payload, mac
    remaining.seconds, remaining.nanos = split(remaining_s)
    return template.SerializeToString()
