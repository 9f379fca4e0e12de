"""A coordinator that was killed and started again: its journals, told as one."""

from fractions import Fraction

from coordinator.engine import effects as done
from coordinator.engine import events as past
from coordinator.engine.events import Event
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.model import (
    AttemptEndReason,
    AttemptStatus,
    EngineSettings,
    HeldLease,
    HeldPhase,
    JobSpec,
    LeaseEnd,
    Outcome,
    SessionEnd,
)
from coordinator.engine.requirements import AllDevices, Capabilities
from testbed.report.history import read_history
from testbed.runfolder.journal import Entry, Journal, joined

JOB, PHONE, TABLET = JobId("o/job/r"), DeviceId("phone"), DeviceId("tablet")
SPEC = JobSpec(JOB, AllDevices(), "all", 2, 1, Fraction(1), Fraction(0), 60.0, 60.0)
CLOSED = (AttemptStatus.CLOSED, AttemptEndReason.ENOUGH)


def journal(incarnation: int, wall_ms: int, *entries: tuple[float, Event, list[done.Effect]], digest: str) -> Journal:
    told = tuple(Entry(number, t, event, tuple(made)) for number, (t, event, made) in enumerate(entries, start=1))
    return Journal("run", incarnation, wall_ms, EngineSettings(1, "fifo"), "0", told, digest)


def checked_in(device: DeviceId, session: int, lease: int, round_: int, attempt: int) -> list[done.Effect]:
    number = SessionSeq(session)
    offer = done.OfferLease(number, device, LeaseSeq(lease), RequestId(1), JOB, round_, attempt, 65.0)
    return [done.OpenSession(number, device), offer, done.RunLease(LeaseSeq(lease), device)]


def opened(round_: int, attempt: int, request: int = 1) -> done.AcceptAttempt:
    return done.AcceptAttempt(RequestId(request), JOB, round_, attempt, AttemptStatus.OPEN, 1, 1, 60.0)


def lives(*, told: bool) -> tuple[Journal, Journal]:
    """The first is killed in mid-round, with a device at work and another idle; ``told``: its driver knows of the
    close of round 1.
    """
    number = 1 if told else 0
    closes: list[done.Effect] = [
        done.EndLease(LeaseSeq(1), PHONE, RequestId(1), JOB, 1, 1, LeaseEnd.COUNTED),
        done.EndAttempt(RequestId(1), JOB, 1, 1, *CLOSED, 1),
    ]
    counted = past.ResponsesRecorded(JOB, 1, 1, 1, ((LeaseSeq(1), Outcome.COUNTED),))
    first = journal(
        100,
        1_000_000,
        (0.0, past.JobSubmitted(SPEC, 1), [done.AcceptJob(JOB, None)]),
        (0.0, past.AttemptOpened(JOB, 1, 1, 1, 2), [opened(1, 1)]),
        (1.0, past.DeviceCheckedIn(SessionSeq(1), PHONE, "0", 1, Capabilities()), checked_in(PHONE, 1, 1, 1, 1)),
        (2.0, counted, closes),
        (2.5, past.AttemptOpened(JOB, 1, 2, 1, 1), [opened(2, 1, request=2)] if told else []),
        digest="",
    )
    held = (HeldLease(LeaseSeq(1), HeldPhase.WORKING),)
    again = past.DeviceCheckedIn(SessionSeq(1), TABLET, "0", 1, Capabilities(), held)
    second = journal(
        200,
        1_010_000,
        (0.5, past.JobSubmitted(SPEC, 1), [done.AcceptJob(JOB, None)]),
        (0.5, past.AttemptOpened(JOB, 1, 1 + number, 2, 1), [opened(1 + number, 2)]),
        (1.0, again, checked_in(TABLET, 1, 1, 1 + number, 2)),
        (3.0, past.TimePassed(), [done.EndAttempt(RequestId(1), JOB, 1 + number, 2, *CLOSED, 1)]),
        digest="00ff",
    )
    return first, second


def test_one_journal_is_itself() -> None:
    first, _ = lives(told=True)
    assert joined([first]) is first


def test_later_lives_have_numbers_and_times_of_their_own() -> None:
    whole = joined(lives(told=True))
    assert [entry.n for entry in whole.entries] == list(range(1, 11))
    assert (whole.restarts, whole.last_s) == ((10.0,), 13.0)
    again = whole.entries[-2]
    assert isinstance(again.event, past.DeviceCheckedIn)
    assert (again.t, again.event.session, again.event.held[0].lease) == (11.0, 2, 2)
    offer = again.effects[1]
    assert isinstance(offer, done.OfferLease)
    assert (offer.lease, offer.session, offer.request, offer.ends_at) == (2, 2, 3, 75.0)
    assert [whole.lease(*of) for of in ((99, 1), (100, 1), (150, 1), (200, 1))] == [None, 1, 1, 2]
    assert whole.digest.endswith("-00ff")


def test_what_was_open_is_over_where_a_life_breaks_off() -> None:
    history = read_history(joined(lives(told=True)))
    session = history.sessions[SessionSeq(1)]
    assert (session.ended_at, session.end, session.in_task) == (2.5, SessionEnd.COORDINATOR_RESTARTED, False)
    attempts = [(one.round, one.attempt, one.status, one.reason) for one in history.jobs[JOB].attempts]
    assert attempts == [
        (1, 1, *CLOSED),
        (2, 1, AttemptStatus.ABORTED, AttemptEndReason.UNKNOWN),
        (2, 2, *CLOSED),
    ]
    assert history.leases[LeaseSeq(1)].end is LeaseEnd.COUNTED
    assert history.leases[LeaseSeq(2)].end is None  # of the last life: it lives


def test_a_round_that_no_driver_heard_was_closed_is_aborted() -> None:
    history = read_history(joined(lives(told=False)))
    assert [(one.attempt, one.status) for one in history.jobs[JOB].attempts] == [
        (1, AttemptStatus.ABORTED),
        (2, AttemptStatus.CLOSED),
    ]
