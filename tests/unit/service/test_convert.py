"""What comes over the wire is checked and bounded before the engine sees it."""

from fractions import Fraction

import pytest

from coordinator.engine import effects, events
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.model import (
    Asynchronous,
    AttemptStatus,
    FailureReason,
    HeldPhase,
    LeaseEnd,
    Outcome,
    Phase,
    Repeat,
    SessionEnd,
    StragglerRule,
)
from coordinator.service.convert import devices, fields, jobs
from coordinator.service.convert.fields import MalformedError, requirement_from_wire
from venn.v1 import common_pb2, device_pb2, job_pb2
from venn.wire.chunks import joined
from venn.wire.requirements import parse_requirement

SESSION = SessionSeq(5)
JOB = JobId("ann/digits/1")


def check_in(**fields: object) -> device_pb2.CheckIn:
    return device_pb2.CheckIn(**{"device": "phone-1", "instance": bytes(16), "interval": 3} | fields)


def frame(**fields: object) -> device_pb2.ConnectRequest:
    return device_pb2.ConnectRequest(seq=2, **fields)


def spec(**fields: object) -> job_pb2.JobSpec:
    made = job_pb2.JobSpec(**{"demand": 10, "min_response": "0.8", "over_commit": "0.2"} | fields)
    if not made.HasField("deadline"):
        made.deadline.FromSeconds(15)
    return made


def test_every_member_of_the_model_has_its_number_on_the_wire() -> None:
    assert fields.LEASE_END[LeaseEnd.REPLACED] == common_pb2.LEASE_END_REPLACED
    assert fields.ATTEMPT_STATUS[AttemptStatus.CLOSED] == job_pb2.ATTEMPT_STATUS_CLOSED
    assert fields.FAILURE_FROM_WIRE[common_pb2.FAILURE_REASON_BUSY] is FailureReason.BUSY


def proved(_: common_pb2.Receipt) -> bool:
    return True


def unproved(_: common_pb2.Receipt) -> bool:
    return False


def test_a_check_in_tells_own_leases_from_foreign_ones() -> None:
    message = check_in(tasks_per_session=2)
    message.held.add(lease=7, incarnation=100).working.SetInParent()
    message.held.add(lease=8, incarnation=99).fetching.SetInParent()
    message.capabilities.numbers["memory"] = 4e9
    message.capabilities.labels["data"].values.extend(["digits", "faces"])
    event = devices.check_in(message, SESSION, 100, proved)
    assert event.device == "phone-1"
    assert event.instance == "00" * 16
    assert event.tasks_per_session == 2
    assert [(held.lease, held.phase) for held in event.held] == [(7, HeldPhase.WORKING)]
    assert event.foreign == (8,)
    assert event.capabilities.labels["data"] == {"digits", "faces"}


@pytest.mark.parametrize(("cpu", "seconds"), [(4.0, 0.25), (0.0, 0.0), (-1.0, 0.0), (1e-320, 0.0)])
def test_a_reference_task_takes_one_over_the_score(cpu: float, seconds: float) -> None:
    message = check_in()
    assert devices.check_in(message, SESSION, 0, proved).reference_s == 0.0
    message.capabilities.numbers["cpu"] = cpu
    assert devices.check_in(message, SESSION, 0, proved).reference_s == seconds


def test_a_held_lease_that_is_done_carries_its_receipt() -> None:
    message = check_in()
    done = message.held.add(lease=7, incarnation=100).done
    done.receipt.lease = 7
    done.receipt.outcome = common_pb2.OUTCOME_DUPLICATE
    done.receipt.first_outcome = common_pb2.OUTCOME_STRAGGLER
    (held,) = devices.check_in(message, SESSION, 100, proved).held
    assert held.outcome is Outcome.STRAGGLER


def test_what_a_device_says_of_a_response_without_its_receipt_is_a_failure() -> None:
    receipt = common_pb2.Receipt(lease=7, outcome=common_pb2.OUTCOME_STRAGGLER)
    said = frame(finished=device_pb2.Finished(lease=7, receipt=receipt))
    failed = devices.device_event(SESSION, said, unproved)
    assert isinstance(failed, events.TaskFailed)
    assert (failed.lease, failed.phase, failed.reason) == (7, Phase.SUBMIT, FailureReason.RECEIPT_FORGED)

    message = check_in()
    message.held.add(lease=7, incarnation=100).done.receipt.CopyFrom(receipt)
    (held,) = devices.check_in(message, SESSION, 100, unproved).held
    assert (held.phase, held.outcome, held.failure) == (HeldPhase.BROKEN, None, FailureReason.RECEIPT_FORGED)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"device": ""}, "check_in.device"),
        ({"device": "x" * 65}, "check_in.device"),
        ({"device": "<script>"}, "check_in.device"),
        ({"device": "a\n"}, "check_in.device"),
        ({"instance": b"short"}, "check_in.instance"),
        ({"interval": 2**64 - 1}, "check_in.interval"),
        ({"held": [device_pb2.HeldLease(lease=1, incarnation=100)]}, "check_in.held.phase"),
        ({"held": [device_pb2.HeldLease(lease=n, incarnation=1) for n in range(17)]}, "check_in.held"),
    ],
)
def test_a_check_in_that_breaks_the_protocol_is_refused(fields: dict[str, object], where: str) -> None:
    with pytest.raises(MalformedError) as caught:
        devices.check_in(check_in(**fields), SESSION, 100, proved)
    assert caught.value.where == where


def test_capabilities_are_bounded() -> None:
    for made in (
        common_pb2.Capabilities(numbers={f"n{n}": 1.0 for n in range(65)}),
        common_pb2.Capabilities(numbers={"cpu": float("nan")}),
        common_pb2.Capabilities(numbers={"x" * 129: 1.0}),
        common_pb2.Capabilities(labels={"site": common_pb2.LabelValues(values=["v" * 129])}),
        common_pb2.Capabilities(labels={"site": common_pb2.LabelValues(values=[str(n) for n in range(65)])}),
    ):
        with pytest.raises(MalformedError):
            devices.capabilities(made)


# What a terminal obeys, what turns the direction of writing, what has no width, what ends a line.
HIDDEN = ["\x1b[31mlab", "\x9b2J", "\u202elab", "\u2066lab", "l\u200bab", "\ufefflab", "lab\n", "lab\u2028"]


@pytest.mark.parametrize("text", HIDDEN)
def test_names_have_only_characters_that_can_be_shown(text: str) -> None:
    label = common_pb2.LabelValues(values=["lab"])
    for made in (
        common_pb2.Capabilities(numbers={text: 1.0}),
        common_pb2.Capabilities(labels={text: label}),
        common_pb2.Capabilities(labels={"site": common_pb2.LabelValues(values=["lab", text])}),
    ):
        with pytest.raises(MalformedError, match=r"this one has U\+[0-9A-F]{4}") as caught:
            devices.capabilities(made)
        assert str(caught.value).isprintable()
    equal = common_pb2.OPERATOR_EQUAL
    for name, value in ((text, "lab"), ("site", text)):
        compared = common_pb2.Comparison(name=name, operator=equal, text=value)
        with pytest.raises(MalformedError):
            requirement_from_wire(common_pb2.Requirement(comparison=compared))
    assert jobs.metrics({text: 1.0, "accuracy": 0.5, "größe": 2.0}) == {"accuracy": 0.5, "größe": 2.0}


def test_frames_become_events() -> None:
    lease = LeaseSeq(9)
    receipt = common_pb2.Receipt(lease=9, outcome=common_pb2.OUTCOME_COUNTED)
    measure = device_pb2.TaskMeasure()
    measure.compute.FromMilliseconds(1500)
    measure.compute_cpu.FromMilliseconds(300)
    measure.held_back = 30
    failed = device_pb2.Failed(
        lease=9,
        phase=common_pb2.PHASE_ON_DEVICE,
        reason=common_pb2.FAILURE_REASON_TASK_CRASHED,
        message="ValueError:\x1b[31m no\n rows",
    )
    said = {
        frame(heartbeat=device_pb2.Heartbeat()).SerializeToString(): events.DeviceHeard(SESSION),
        frame(accepted=device_pb2.Accepted(lease=9)).SerializeToString(): events.LeaseAccepted(SESSION, lease),
        frame(progress=device_pb2.Progress(lease=9, fraction=7)).SerializeToString(): events.TaskProgressed(
            SESSION, lease, 1.0
        ),
        frame(
            finished=device_pb2.Finished(lease=9, receipt=receipt, measure=measure)
        ).SerializeToString(): events.TaskFinished(SESSION, lease, Outcome.COUNTED, 1.5, 0.0, 0.3, 30),
        frame(failed=failed).SerializeToString(): events.TaskFailed(
            SESSION, lease, Phase.ON_DEVICE, FailureReason.TASK_CRASHED, "ValueError:[31m no  rows"
        ),
        frame(released=device_pb2.Released(lease=9)).SerializeToString(): events.LeaseReleased(SESSION, lease),
        frame(goodbye=device_pb2.Goodbye(reason=1)).SerializeToString(): events.SessionEnded(
            SESSION, SessionEnd.GOODBYE_SESSION_OVER
        ),
    }
    for raw, event in said.items():
        assert devices.device_event(SESSION, devices.parse_frame(raw), proved) == event


@pytest.mark.parametrize(
    "said",
    [
        frame(),
        frame(check_in=check_in()),
        frame(finished=device_pb2.Finished(lease=9, receipt=common_pb2.Receipt(lease=8, outcome=1))),
        frame(finished=device_pb2.Finished(lease=9, receipt=common_pb2.Receipt(lease=9))),
        frame(failed=device_pb2.Failed(lease=9)),
        frame(failed=device_pb2.Failed(lease=9, phase=1, reason=77)),
        frame(progress=device_pb2.Progress(lease=9, fraction=float("inf"))),
        frame(declined=device_pb2.Declined(lease=9, reason=8, retry_after={"seconds": -1})),
    ],
)
def test_frames_that_break_the_protocol_are_refused(said: device_pb2.ConnectRequest) -> None:
    with pytest.raises(MalformedError):
        devices.device_event(SESSION, said, proved)


@pytest.mark.parametrize("raw", [b"\xff\xff\xff", b"\x0a\xff", bytes(fields.MOST_FRAME_BYTES + 1)])
def test_garbage_is_no_frame(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        devices.parse_frame(raw)


def test_a_spec_keeps_its_fractions_exact() -> None:
    made = jobs.job_spec(JOB, spec(demand=100, min_response="0.55", over_commit="0.1", stragglers=2, rounds=18))
    assert made.min_response == Fraction(55, 100)
    assert (made.responses_needed, made.places, made.rounds) == (55, 110, 18)
    assert made.lease_s == made.deadline_s == 15
    assert made.stragglers is StragglerRule.REVOKE
    assert made.repeat is Repeat.ONCE


def test_a_spec_says_whether_devices_may_repeat() -> None:
    assert jobs.job_spec(JOB, spec(repeat=job_pb2.REPEAT_ALLOW)).repeat is Repeat.ALLOW
    with pytest.raises(MalformedError, match="repeat"):
        jobs.job_spec(JOB, spec(repeat=9))


def test_an_asynchronous_spec_has_its_buffer() -> None:
    made = jobs.job_spec(JOB, spec(demand=100, over_commit="", asynchronous={"buffer": 7, "max_staleness": 0}))
    assert made.asynchronous == Asynchronous(7, 0)
    assert (made.responses_needed, made.places) == (7, 100)
    made = jobs.job_spec(JOB, spec(demand=100, asynchronous={"buffer": 7}))
    assert made.asynchronous == Asynchronous(7)


def test_what_a_spec_leaves_out_has_its_default() -> None:
    made = jobs.job_spec(JOB, spec(min_response="", over_commit=""))
    assert (made.min_response, made.over_commit, made.rounds) == (Fraction(4, 5), Fraction(0), None)
    assert made.requirement_name == "all"


@pytest.mark.parametrize(
    "fields",
    [
        {"demand": 0},
        {"demand": 2_000_000},
        {"min_response": "0"},
        {"min_response": "1.5"},
        {"min_response": "1e400000000"},
        {"min_response": "4/5"},
        {"over_commit": "-1"},
        {"over_commit": "nan"},
        {"deadline": {"seconds": 0}},
        {"deadline": {"seconds": -5}},
        {"lease": {"seconds": 0}},
        {"stragglers": 9},
        {"workload": {"compute": {"seconds": -1}}},
        {"workload": {"upload_bytes": 2**64 - 1}},
        {"asynchronous": {"buffer": 0}},
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(MalformedError):
        jobs.job_spec(JOB, spec(**fields))


@pytest.mark.parametrize("part", ["", "a/b", "..%2f", "x" * 65, "a b"])
def test_a_job_key_is_made_of_plain_names(part: str) -> None:
    with pytest.raises(MalformedError):
        jobs.job_id(common_pb2.JobKey(owner="ann", name=part, run="1"))


def test_requirements_come_over_whole() -> None:
    text = "memory >= 4 GB and (site = lab or not cpu < 7) and id in (a; b)"
    assert str(requirement_from_wire(parse_requirement(text))) == (
        "memory >= 4000000000 and (site = lab or not cpu < 7) and id in (a; b)"
    )
    assert str(requirement_from_wire(common_pb2.Requirement())) == "all"


def test_requirements_are_bounded() -> None:
    deep = common_pb2.Requirement()
    inner = deep
    for _ in range(fields.MOST_REQUIREMENT_DEPTH):
        inner = inner.negated
    inner.all.SetInParent()
    wide = common_pb2.Requirement()
    for _ in range(fields.MOST_REQUIREMENT_NODES):
        wide.every.items.add().all.SetInParent()
    empty = common_pb2.Requirement()
    empty.every.SetInParent()
    compared = common_pb2.Requirement(comparison=common_pb2.Comparison(name="cpu", operator=5, text="lab"))
    nothing = common_pb2.Requirement(comparison=common_pb2.Comparison(name="cpu", operator=5))
    for made in (deep, wide, empty, compared, nothing):
        with pytest.raises(MalformedError):
            requirement_from_wire(made)


def test_a_task_is_bounded() -> None:
    whole = common_pb2.Artifact(digest=bytes(32), size=1)
    jobs.check_task(common_pb2.Task(code=whole, model=whole))
    for made in (
        common_pb2.Task(code=whole, model=common_pb2.Artifact(digest=b"short")),
        common_pb2.Task(code=whole, model=whole, code_name="x" * fields.MOST_TASK_BYTES),
    ):
        with pytest.raises(MalformedError):
            jobs.check_task(made)


def test_nothing_of_the_frame_before_is_left_in_a_frame_of_the_same_attempt() -> None:
    told = (DeviceId("phone-1"), RequestId(3), JOB, 2, 1)
    failed = effects.EndLease(LeaseSeq(7), *told, LeaseEnd.FAILED, Phase.FETCH, FailureReason.BUSY, "no room")
    counted = effects.EndLease(LeaseSeq(8), *told, LeaseEnd.COUNTED)
    first = job_pb2.FollowJobResponse.FromString(jobs.lease_ended_frame(failed).SerializeToString()).ended
    second = job_pb2.FollowJobResponse.FromString(jobs.lease_ended_frame(counted).SerializeToString()).ended
    assert (first.phase, first.failure, first.message) == (
        common_pb2.PHASE_FETCH,
        common_pb2.FAILURE_REASON_BUSY,
        "no room",
    )
    assert second == job_pb2.LeaseEnded(
        lease=8, device="phone-1", attempt=jobs.attempt_key(JOB, 2, 1), reason=common_pb2.LEASE_END_COUNTED
    )


def test_frames_that_leave_together_are_one_message() -> None:
    frames = [device_pb2.ConnectResponse(ack=device_pb2.Ack(through=through)) for through in (1, 2, 3)]
    frames[1].revoke.lease = 7
    frames[1].revoke.reason = common_pb2.LEASE_END_REVOKED
    long = devices.redirect_frame(9, "x" * 300, b"")  # its length takes two bytes
    message = device_pb2.ConnectResponse.FromString(
        joined([one.SerializeToString() for one in (*frames, long)], device_pb2.ConnectResponse.MORE_FIELD_NUMBER)
    )
    assert list(message.more) == [*frames[1:], long]
    message.ClearField("more")
    assert message == frames[0]
