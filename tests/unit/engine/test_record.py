"""The record: values come back as they were, and a state can be rebuilt from it anywhere."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from coordinator.engine.effects import AcceptAttempt, AdoptPlan, EndAttempt, EndLease, OfferLease, SendAway
from coordinator.engine.engine import Engine
from coordinator.engine.events import (
    DeviceCheckedIn,
    DeviceHeard,
    DevicesDrained,
    Event,
    JobSubmitted,
    LeaseDeclined,
    ResponsesRecorded,
    TimePassed,
)
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.model import (
    AttemptEndReason,
    AttemptStatus,
    ComeBackReason,
    EngineSettings,
    FailureReason,
    HeldLease,
    HeldPhase,
    LeaseEnd,
    Outcome,
    Phase,
    Workload,
)
from coordinator.engine.record import (
    Digest,
    RecordError,
    effect_from_json,
    event_from_json,
    settings_from_json,
    settings_to_json,
    text_of,
    texts_of,
)
from coordinator.engine.requirements import Any, Capabilities, Comparison, Every, Ids, Not
from coordinator.policies.fifo import Fifo
from coordinator.policies.registry import load_policy, policy_names
from testbed.testing.engine import ScriptedEngine, random_script, spec
from tests.unit.engine.snapshot import snapshot

REQUIREMENT = Any(
    (Every((Comparison("memory", ">=", 4e9), Comparison("site", "!=", "lab"))), Not(Ids((DeviceId("x"),))))
)
EVENTS: list[Event] = [
    TimePassed(),
    DeviceHeard(SessionSeq(3)),
    DeviceCheckedIn(
        SessionSeq(3),
        DeviceId("d"),
        "ab",
        7,
        Capabilities({"cpu": 0.1}, {"data": frozenset({"b", "a"})}),
        (HeldLease(LeaseSeq(4), HeldPhase.DONE, Outcome.COUNTED), HeldLease(LeaseSeq(5), HeldPhase.WORKING)),
        (LeaseSeq(9),),
        1,
        2,
    ),
    LeaseDeclined(SessionSeq(3), LeaseSeq(4), FailureReason.BUSY, 2.5, "later"),
    JobSubmitted(spec(requirement=REQUIREMENT, over_commit=Fraction(1, 3), workload=Workload(4.0, 10, 20)), 12),
    ResponsesRecorded(JobId("a"), 1, 2, 3, ((LeaseSeq(4), Outcome.COUNTED), (LeaseSeq(5), Outcome.STRAGGLER))),
    DevicesDrained(None),
    DevicesDrained((DeviceId("a"), DeviceId("b"))),
]


@pytest.mark.parametrize("policy", ["venn", "random"])
def test_what_happens_is_written_as_compact_json(policy: str) -> None:
    """Through rounds, failures, losses and aborts."""
    play = ScriptedEngine(load_policy(policy))
    request = play.request(demand=2, deadline_s=50.0)
    play.run("one", per_session=1)
    play.fail("one")
    play.record(request, play.run("two"))
    play.check_in('t"\u00fc')
    play.leave("two")
    play.wait(60.0)
    assert {type(effect) for effect in play.all} >= {EndLease, SendAway, EndAttempt, AdoptPlan}
    for effect in [*play.all, SendAway(SessionSeq(1), DeviceId("d"), ComeBackReason.LIMIT, float("inf"))]:
        record = json.loads(text_of(effect))
        assert text_of(effect) == json.dumps(record, separators=(",", ":"))
        assert effect_from_json(record) == effect


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_come_back_as_they_were(event: Event) -> None:
    assert event_from_json(json.loads(text_of(event))) == event


def test_effects_come_back_as_they_were_and_are_compact() -> None:
    end = EndLease(
        LeaseSeq(4),
        DeviceId("d"),
        RequestId(1),
        JobId("a"),
        2,
        1,
        LeaseEnd.FAILED,
        Phase.ON_DEVICE,
        FailureReason.TASK_CRASHED,
        "no",
    )
    for effect in (
        end,
        AdoptPlan(3),
        SendAway(SessionSeq(1), DeviceId("d"), ComeBackReason.LIMIT, None),
    ):
        assert effect_from_json(json.loads(text_of(effect))) == effect
    assert text_of(end) == '["EndLease",4,"d",1,"a",2,1,"failed","on_device","task_crashed","no"]'


def test_a_record_that_is_older_is_read_with_defaults() -> None:
    record = json.loads(text_of(LeaseDeclined(SessionSeq(3), LeaseSeq(4), FailureReason.BUSY)))
    assert event_from_json(record[:4]) == LeaseDeclined(SessionSeq(3), LeaseSeq(4), FailureReason.BUSY)


@pytest.mark.parametrize(
    "record", [None, [], ["OfferLease", 1], ["Nothing"], ["DeviceHeard"], ["LeaseDeclined", 1, 2, "?"]]
)
def test_what_is_no_event_is_refused(record: object) -> None:
    with pytest.raises(RecordError):
        event_from_json(record)


def test_settings_come_back_as_they_were() -> None:
    settings = EngineSettings(seed=3, policy="venn", heartbeat_s=1.5)
    assert settings_from_json(json.loads(json.dumps(settings_to_json(settings)))) == settings
    with pytest.raises(RecordError):
        settings_from_json({"seed": 1, "polcy": "venn"})


def test_the_digest_tells_leases_and_transitions_apart() -> None:
    def of(*effects: OfferLease | EndAttempt | AcceptAttempt | AdoptPlan, at: float = 1.0) -> str:
        digest = Digest()
        digest.update(at, effects)
        return digest.hex()

    offer = OfferLease(SessionSeq(1), DeviceId("d"), LeaseSeq(1), RequestId(1), JobId("a"), 1, 1, 9.0)
    other = OfferLease(SessionSeq(2), DeviceId("d"), LeaseSeq(1), RequestId(1), JobId("a"), 1, 1, 9.0)
    accept = AcceptAttempt(RequestId(1), JobId("a"), 1, 1, AttemptStatus.OPEN, 1, 1, 9.0)
    closed = EndAttempt(RequestId(1), JobId("a"), 1, 1, AttemptStatus.CLOSED, AttemptEndReason.ENOUGH, 1)
    aborted = EndAttempt(RequestId(1), JobId("a"), 1, 1, AttemptStatus.ABORTED, AttemptEndReason.ENOUGH, 1)
    digests = [of(offer), of(other), of(offer, other), of(other, offer), of(offer, at=2.0), of(accept), of(closed)]
    assert len({*digests, of(aborted), of()}) == 9
    assert of(accept, accept) == of(accept)  # an answer given twice is no transition
    assert of(offer, AdoptPlan(1)) == of(offer)
    assert of(offer) == "c6dc434ee6156889"  # pinned: another path that computes it must agree


@pytest.mark.parametrize("name", policy_names())
def test_the_invariants_hold_under_every_policy(name: str) -> None:
    play = random_script(11, load_policy(name))  # checked after each event
    assert sum(job.closed_rounds for job in play.engine.jobs.values()) > 10


def rebuild(lines: list[str]) -> str:
    """The state after the recorded events, whose effects must be as recorded."""
    engine, digest = Engine(settings_from_json(json.loads(lines[0])), Fifo()), Digest()
    for line in lines[1:]:
        now, event, recorded = json.loads(line)
        effects = engine.handle(event_from_json(event), now)
        assert json.loads(texts_of(effects)) == recorded
        digest.update(now, effects)
    return json.dumps([digest.hex(), snapshot(engine)], sort_keys=True)


def test_a_state_rebuilt_in_another_process_with_another_hash_seed_is_the_same(tmp_path: Path) -> None:
    play = random_script(5)
    assert play.engine.world.leases_granted > 100
    assert min(job.closed_rounds + job.aborts for job in play.engine.jobs.values()) > 3
    digest = Digest()
    journal = tmp_path / "events.jsonl"
    lines = [json.dumps(settings_to_json(play.engine.settings))]
    for now, event, effects in play.journal:
        lines.append(f"[{now!r}, {event}, {effects}]")
        digest.update(now, [effect_from_json(effect) for effect in json.loads(effects)])
    journal.write_text("\n".join(lines))
    here = json.dumps([digest.hex(), snapshot(play.engine)], sort_keys=True)
    code = (
        "import sys, pathlib; from tests.unit.engine.test_record import rebuild;"
        "print(rebuild(pathlib.Path(sys.argv[1]).read_text().split('\\n')))"
    )
    for hash_seed in ("1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", code, str(journal)]
        there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert there.stdout.strip() == here
