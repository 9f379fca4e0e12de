import csv
import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.engine import effects as done
from coordinator.engine import events as past
from coordinator.engine.counts import job_counts
from coordinator.engine.explain import Part, Why
from coordinator.engine.ids import JobId
from coordinator.engine.requirements import AllDevices, Comparison
from testbed.report.draw_jobs import MOST_NAMED, waiting
from testbed.report.explain import explain, longest, rules, waits
from testbed.report.history import History, read_history
from testbed.report.record import load_run
from testbed.report.result import build_report
from testbed.report.summary import summarise
from testbed.runfolder.journal import read_journal
from testbed.testing.engine import ScriptedEngine
from tests.unit.report.world import Lease, World

BIG = Comparison("memory", ">=", 4.0)


def story_of(world: World, folder: Path) -> History:
    return read_history(read_journal(world.write(folder) / "events.jsonl"))


def told(history: History) -> dict[str, dict[str, float]]:
    """By job: seconds by text."""
    return {job: {wait.text: pytest.approx(wait.seconds) for wait in found} for job, found in waits(history).items()}


@pytest.fixture
def crowded() -> World:
    """``second`` waits from 2 to 12: nobody is there, one works for ``first``, one more is given to it."""
    world = World(policy="fifo")
    for name, memory in (("big-1", 8.0), ("big-2", 8.0), ("big-3", 8.0), ("small", 1.0)):
        world.device(name, memory=memory)
    world.job(0.0, "first", AllDevices(), label="any", demand=3, rounds=1)
    world.job(0.0, "second", BIG, label="big", demand=1, rounds=1)
    world.check_in(0.5, "big-1")
    first = world.open(1.0, "first", 1)
    world.lease(1.0, "big-1", first)
    second = world.open(2.0, "second", 1)
    world.leave(4.0, "big-1")
    world.check_in(5.0, "small")
    world.lease(5.0, "small", first)
    world.check_in(6.0, "big-2")
    world.lease(6.0, "big-2", first)
    world.check_in(12.0, "big-3")
    world.lease(12.0, "big-3", second)
    return world


def test_every_moment_goes_to_what_the_devices_did_in_it(crowded: World, tmp_path: Path) -> None:
    found = told(story_of(crowded, tmp_path))
    assert found["second"] == {
        "given to first by fifo": 6.0,
        "no further eligible device present": 2.0,
        "present, busy with first": 2.0,
    }
    assert found["first"] == {"no further eligible device present": 5.0}


def test_a_pause_is_its_own_reason(crowded: World, tmp_path: Path) -> None:
    job = crowded.specs["second"].job
    lines = crowded.lines
    crowded.lines = []
    crowded.hear(7.0, past.TimePassed(), done.PauseJob(job, "DRIVER_AWAY", ""))
    crowded.hear(9.0, past.TimePassed(), done.ResumeJob(job))
    pause, crowded.lines = crowded.lines, lines
    crowded.lines[-3:-3] = pause  # before the check-in at 12
    found = told(story_of(crowded, tmp_path))
    assert found["second"] == {
        "given to first by fifo": 4.0,
        "no further eligible device present": 2.0,
        "present, busy with first": 2.0,
        "paused: DRIVER_AWAY": 2.0,
    }


def test_of_an_attempt_that_never_fills_the_delay_runs_to_the_end(tmp_path: Path) -> None:
    world = World()
    world.device("only", memory=8.0)
    world.job(0.0, "one", AllDevices(), label="any", demand=2, rounds=1)
    world.open(1.0, "one", 1)
    world.check_in(11.0, "only")
    assert told(story_of(world, tmp_path)) == {"one": {"no further eligible device present": 10.0}}


def test_devices_that_are_present_at_once_share_the_moment(tmp_path: Path) -> None:
    world = World(policy="venn")
    for name in ("a", "b", "c", "d"):
        world.check_in(0.0, world.device(name))
    world.job(0.0, "old", AllDevices(), label="any", demand=2, rounds=1)
    world.job(0.0, "new", AllDevices(), label="any", demand=1, rounds=1)
    old = world.open(1.0, "old", 1)
    world.lease(1.0, "a", old)
    world.open(2.0, "new", 1)
    world.respond(6.0, world.lease(2.0, "b", old))  # c and d wait, as if they cooled
    world.leave(10.0, "d")
    [first, second, third] = waits(story_of(world, tmp_path))["new"]
    assert (first.why, first.seconds) == (Why.HELD, pytest.approx(4 * 2 / 4 + 4 * 3 / 4))
    assert (second.why, second.job, second.seconds) == (Why.BUSY, "old", pytest.approx(8 / 4))
    assert (third.why, third.job, third.rule, third.seconds) == (Why.GIVEN, "old", "venn", pytest.approx(4 / 4))


def test_a_device_that_still_works_for_an_earlier_attempt_is_busy_with_it(tmp_path: Path) -> None:
    world = World()
    for name in ("a", "b"):
        world.check_in(0.0, world.device(name))
    world.job(0.0, "one", AllDevices(), label="any", demand=2, rounds=2)
    early = world.open(1.0, "one", 1)
    world.lease(1.0, "a", early)
    late = world.lease(1.0, "b", early)
    early.live.discard(late.lease)  # it is not revoked: it may still come as a straggler
    world.abort(3.0, early)
    again = world.open(3.0, "one", 1, attempt=2)
    world.lease(3.0, "a", again)
    world.respond(7.0, late)
    world.lease(7.0, "b", again)
    assert told(story_of(world, tmp_path)) == {"one": {"present, busy with an earlier attempt of it": 4.0}}


@given(st.integers(0, 2**32), st.floats(0.2, 3.0))
@settings(max_examples=25, deadline=None)
def test_the_parts_add_up_to_the_delay(seed: int, pace_s: float) -> None:
    """Of a world of chance: devices that come, work, fail and leave, jobs that pause."""
    with TemporaryDirectory() as folder:
        history = story_of(by_chance(Random(seed), pace_s), Path(folder))
    for job in history.jobs.values():
        found = waits(history)[job.name]
        delay = sum(attempt.split(history.ended_s)[0] for attempt in job.attempts)
        assert sum(wait.seconds for wait in found) == pytest.approx(delay, abs=1e-6)
        assert all(wait.seconds > 0 for wait in found)


def by_chance(random: Random, pace_s: float) -> World:
    world, at = World(), 0.0
    devices = [world.device(f"d{number}", memory=random.choice([1.0, 8.0])) for number in range(6)]
    world.job(0.0, "any", AllDevices(), label="any", demand=3, rounds=9)
    world.job(0.0, "big", BIG, label="big", demand=2, rounds=9)
    attempts = {name: world.open(0.0, name, 1) for name in ("any", "big")}
    busy: dict[str, Lease] = {}
    for _ in range(120):
        at += random.expovariate(1 / pace_s)
        device, job = random.choice(devices), random.choice(["any", "big"])
        attempt = attempts[job]
        fits = job == "any" or world.devices[device].numbers["memory"] > 4
        if device not in world.open_sessions:
            world.check_in(at, device)
        elif device in busy and random.random() < 0.6:
            lease = busy.pop(device)
            if lease.lease in lease.attempt.live:
                world.fail(at, lease, "x") if random.random() < 0.3 else world.respond(at, lease)
        elif random.random() < 0.3:
            world.leave(at, device)
            if (held := busy.pop(device, None)) is not None and held.lease in held.attempt.live:
                world.lose(at + 0.01, held)
                at += 0.01
        elif device not in busy and fits and len(attempt.live) + len(attempt.counted) < attempt.places:
            busy[device] = world.lease(at, device, attempt)
        if attempt.ended or random.random() < 0.05:
            if not attempt.ended:
                world.abort(at, attempt)
                busy = {name: lease for name, lease in busy.items() if lease.attempt is not attempt}
            attempts[job] = world.open(at + 0.01, job, attempt.round + 1)
            at += 0.01
        if random.random() < 0.1:
            key = world.specs[job].job
            world.hear(at, past.TimePassed(), done.PauseJob(key, "DRIVER_AWAY", ""))
            at += random.random()
            world.hear(at, past.TimePassed(), done.ResumeJob(key))
    return world


def test_the_live_view_names_the_same_parts_of_this_moment() -> None:
    play = ScriptedEngine()
    first = play.job("a", demand=1)
    play.open(first)
    play.run("one")
    play.wait(1.0)
    play.open(play.job("b", demand=2))
    play.open(play.job("c", demand=1))
    play.run("two")
    counts = {one.job: one.waits for one in job_counts(play.engine)}
    busy = f"1 {Part(Why.BUSY, JobId('me/a/1')).text}"
    given = f"1 {Part(Why.GIVEN, JobId('me/b/1'), play.engine.world.policy).text}"
    assert counts[JobId("me/b/1")].startswith(f"1 place open; {busy}; ")
    assert counts[JobId("me/c/1")].startswith(f"1 place open; {busy}, {given}; ")
    play.leave("one")
    play.leave("two")
    assert job_counts(play.engine)[2].waits.startswith("1 place open; no further eligible device present; ")


def test_the_table_the_picture_and_explain_say_the_same(crowded: World, tmp_path: Path) -> None:
    folder = crowded.write(tmp_path)
    history = read_history(read_journal(folder / "events.jsonl"))
    found = {(job, wait.why.value): wait for job, ways in waits(history).items() for wait in ways}
    build_report(folder)
    said = json.loads((folder / "summary.json").read_text())["jobs"]
    assert {(job["name"], wait["why"]): wait["seconds"] for job in said for wait in job["waits"]} == {
        key: wait.seconds for key, wait in found.items()
    }
    with (folder / "figures" / "waits.csv").open() as file:
        drawn = {(row["job"], row["why"]): float(row["delay_s"]) for row in csv.DictReader(file)}
    assert drawn == {key: wait.seconds for key, wait in found.items()}
    page = (folder / "report.html").read_text()
    assert all(f"<span>{wait.text} <small>" in page for wait in found.values())
    assert "The rule of fifo: by job arrival." in page
    assert "the rule of fifo: by job arrival" in explain(history, "second").reasons
    assert rules(waits(history)["first"]) == {}
    assert explain_delay(folder, "second") == [
        f"{wait.seconds:.1f} s of its delay: {wait.text}" for wait in waits(history)["second"]
    ]


def test_of_many_jobs_those_that_had_the_most_are_named(tmp_path: Path) -> None:
    world = World(policy="fifo")
    world.job(0.0, "late", AllDevices(), label="any", demand=1, rounds=1)
    world.open(1.0, "late", 1)
    for number in range(12):
        name = f"j{number:02}"
        world.job(0.0, name, AllDevices(), label="any", demand=1, rounds=1)
        world.check_in(0.0, world.device(name))
        world.respond(2.0 + number, world.lease(1.0, name, world.open(1.0, name, 1)))
    folder = world.write(tmp_path)
    summary = summarise(load_run(folder))
    parts = next(job.waits for job in summary.jobs if job.name == "late")
    assert len(parts) == 13
    short = longest(parts)
    others = "given to other jobs by fifo"
    assert {wait.text for wait in short if wait.job} == {f"given to j{number:02} by fifo" for number in (11, 10, 9, 8)}
    assert {wait.text for wait in short if not wait.job} == {others, Part(Why.HELD).text}
    assert sum(wait.seconds for wait in short) == pytest.approx(sum(wait.seconds for wait in parts))
    assert [wait.text for wait in short] == [line.split(": ", 1)[1] for line in explain_delay(folder, "late")]
    drawing = waiting(summary)
    legend = [text.get_text() for text in drawing.figure.axes[0].get_legend().get_texts()]
    assert others in legend
    assert sum("given to j" in text for text in legend) == MOST_NAMED
    assert len([row for row in drawing.rows if row[0] == "late"]) == 13


def test_a_part_that_would_be_shown_as_nothing_is_left_out(tmp_path: Path) -> None:
    world = World(policy="fifo")
    world.job(0.0, "one", AllDevices(), label="any", demand=2, rounds=1)
    attempt = world.open(1.0, "one", 1)
    for number, at in enumerate((1.02, 1.04)):
        world.check_in(at, world.device(f"d{number}"))
        world.lease(at, f"d{number}", attempt)
    folder = world.write(tmp_path)
    assert told(read_history(read_journal(folder / "events.jsonl"))) == {
        "one": {"no further eligible device present": 0.04}
    }
    assert explain_delay(folder, "one") == []


def explain_delay(folder: Path, job: str) -> list[str]:
    reasons = explain(read_history(read_journal(folder / "events.jsonl")), job).reasons
    return [reason for reason in reasons if " s of its delay: " in reason]
