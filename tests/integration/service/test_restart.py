"""A coordinator that is killed and comes back from its folder is the same one: for devices, for drivers, for people."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from coordinator.engine import effects
from coordinator.engine.events import CoordinatorRestarted, JournalRotated
from coordinator.engine.lifecycle import LeaseState
from coordinator.policies.registry import load_policy
from coordinator.service.restore import restore
from coordinator.service.sealed import seal
from coordinator.service.segments import SNAPSHOTS_KEPT, closed_segments, segment_path, snapshot_path, snapshots
from testbed.report.replay import replay
from testbed.runfolder.journal import read_lives
from testbed.testing.clock import FakeClock
from tests.integration.service.peers import Driver, World, coordinator, world
from tests.integration.service.test_journal import play
from tests.unit.engine.snapshot import snapshot as snapshot_of
from venn.v1 import admin_pb2, common_pb2, device_pb2, job_pb2
from venn.wire.errors import UsageError
from venn.wire.status import reason_of

INSTANCE = bytes(16)


@asynccontextmanager
async def killed(made: World, folder: Path, place: Path) -> AsyncIterator[World]:
    """The coordinator that comes back from what the folder of another holds at this moment."""
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("*.lock"))
    async with world(folder=place) as again:
        yield again


def same_driver(driver: Driver, again: World) -> Driver:
    """The driver, as it turns to the coordinator that came back."""
    moved = again.driver(driver.key.name, incarnation=driver.incarnation)
    moved.address, moved.ticket_key = driver.address, driver.ticket_key
    return moved


def held(welcome: device_pb2.Welcome, lease: int) -> device_pb2.HeldLease:
    return device_pb2.HeldLease(lease=lease, incarnation=welcome.incarnation, working=device_pb2.Working())


async def test_a_device_goes_on_with_its_lease_and_its_driver_with_the_attempt(tmp_path: Path) -> None:
    folder = tmp_path / "before"
    async with world(folder=folder) as made:
        driver = made.driver()
        await driver.start(demand=1, rounds=2)
        opened = await driver.open()
        phone = made.device("phone")
        welcome = await phone.check_in(instance=INSTANCE)
        offer = await phone.accept()
        await made.until(effects.RunLease)
        async with killed(made, folder, tmp_path / "after") as again:
            assert again.coordinator.host.incarnation == welcome.incarnation
            moved = same_driver(driver, again)
            answer = await moved.submit(demand=1, rounds=2)
            assert (answer.ticket_key, answer.incarnation) == (driver.ticket_key, welcome.incarnation)
            assert list(answer.open_attempt.leases) == [offer.lease]
            back = again.device("phone")
            await back.check_in(instance=INSTANCE, held=[held(welcome, offer.lease)])
            resumed = await again.until(effects.ResumeLease)
            assert resumed.lease == offer.lease
            same = await moved.open()
            assert (same.request, same.status) == (opened.request, job_pb2.ATTEMPT_STATUS_OPEN)
            recorded = await moved.record(offer.lease)
            assert recorded.status == job_pb2.ATTEMPT_STATUS_CLOSED
            assert not again.of(effects.RevokeLease)


async def test_offers_of_an_open_attempt_are_made_from_what_was_kept(tmp_path: Path) -> None:
    folder = tmp_path / "before"
    async with world(folder=folder) as made:
        driver = made.driver()
        await driver.start(demand=2, rounds=2)
        await driver.open(params={"rate": common_pb2.Value(number=0.5)}, code_name="job.py")
        before = await made.device("phone").check_in()
        first = made.coordinator.jobs.get(next(iter(made.coordinator.engine.jobs)))
        async with killed(made, folder, tmp_path / "after") as again:
            moved = same_driver(driver, again)
            await moved.submit(demand=2, rounds=2)
            follower = moved.follow()
            while not (await follower.next("alive")).alive.address_verified:
                pass
            tablet = again.device("tablet")
            await tablet.check_in()
            offer = (await tablet.next("offer")).offer
            assert (offer.task.params["rate"].number, offer.task.code_name) == (0.5, "job.py")
            assert offer.driver_address == driver.address
            assert first is not None
            assert offer.ticket.key_id == first.key_id
            assert before.session < again.coordinator.engine.devices["tablet"].last_session  # type: ignore[index]


async def test_a_follower_of_before_starts_over_and_another_task_is_still_another(tmp_path: Path) -> None:
    folder = tmp_path / "before"
    async with world(folder=folder) as made:
        driver = made.driver()
        follower = await driver.start(demand=1)
        await driver.open()
        await made.device("phone").check_in()
        await follower.next("filled")
        last = follower.seen[-1].seq
        async with killed(made, folder, tmp_path / "after") as again:
            moved = same_driver(driver, again)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await moved.follow(after_seq=last).next("filled")
            assert reason_of(caught.value) == "HISTORY_GONE"
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await moved.open(code_name="other.py")
            assert reason_of(caught.value) == "KEY_REUSED"


async def test_people_see_the_same_and_that_it_was_restarted(tmp_path: Path) -> None:
    folder = tmp_path / "before"
    async with world(folder=folder, name="shown") as made:
        driver = made.driver()
        await driver.start(demand=1, rounds=3)
        await driver.open()
        phone = made.device("phone")
        await phone.check_in()
        offer = await phone.accept()
        await driver.record(offer.lease)
        report = job_pb2.ReportRoundRequest(job=driver.key, driver_incarnation=1, round=1, metrics={"accuracy": 0.5})
        await driver.stub.ReportRound(report)
        await made.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="srsf"))
        before = made.coordinator.view.snapshot()
        async with killed(made, folder, tmp_path / "after") as again:
            after = again.coordinator.view.snapshot()
            assert (after.policy, after.seed, after.incarnation) == ("srsf", before.seed, before.incarnation)
            (job,) = after.jobs
            assert [(entry.round, entry.metrics["accuracy"]) for entry in job.history] == [(1, 0.5)]
            assert after.leases.granted == before.leases.granted
            assert "RESTARTED" in [entry.kind for entry in after.log]
            (device,) = (await again.admin.ListDevices(admin_pb2.ListDevicesRequest())).devices
            assert device.device == "phone"


async def test_a_restart_is_an_event_and_the_journal_goes_on_in_the_same_file(tmp_path: Path) -> None:
    for _ in range(2):
        async with coordinator(folder=tmp_path):
            pass
    path = tmp_path / "events.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row.get("kind") or row["event"][0] for row in rows] == [
        "start", "end", "CoordinatorRestarted", "TurnEnded", "end",
    ]  # fmt: skip
    assert rows[2]["event"] == ["CoordinatorRestarted", True]
    restored = restore(path.parent, load_policy)
    assert restored is not None
    assert restored.stopped


async def test_engine_time_goes_on_from_the_last_record_whatever_the_clock_says(tmp_path: Path) -> None:
    time = FakeClock()
    async with world(folder=tmp_path, time=time) as made:
        await time.advance(500.0)
        await made.device("phone").check_in()
        last = made.coordinator.engine.now
    async with world(folder=tmp_path, time=FakeClock()) as again:  # boots at 0; the wall clock has hardly moved
        assert again.coordinator.engine.now >= last >= 500.0


async def test_after_a_kill_at_any_line_the_state_is_whole(tmp_path: Path) -> None:
    async with world(policy="venn", folder=tmp_path, name="cut") as made:
        await play(made)
        await made.until(effects.EndAttempt, lambda effect: effect.round == 2)
    data = (tmp_path / "events.jsonl").read_bytes()
    ends = [place for place, byte in enumerate(data) if byte == 0x0A]
    path = tmp_path / "cut" / "events.jsonl"
    path.parent.mkdir()
    for end in ends:
        for cut in (end + 1, end - 3):  # after a line, and within it
            path.write_bytes(data[:cut])
            if (restored := restore(path.parent, load_policy)) is None:
                assert cut < ends[0]
                continue
            engine = restored.engine
            engine.validate()
            effects_ = engine.handle(CoordinatorRestarted(restored.stopped), restored.last_s + 1.0)
            engine.validate()
            assert not [one for one in effects_ if isinstance(one, effects.EndLease | effects.EndAttempt)]
            assert all(lease.state is not LeaseState.ENDED for lease in engine.leases.values())


def spoilt(path: Path, line: int, old: bytes, new: bytes, *, sealed: bool) -> None:
    lines = path.read_bytes().splitlines()
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new)
    if sealed:
        rows = [json.loads(one) for one in lines]
        bodies = [json.dumps({k: row[k] for k in row if k != "crc"}, separators=(",", ":")) for row in rows]
        path.write_bytes(seal(bodies, 0)[0])
    else:
        path.write_bytes(b"\n".join(lines) + b"\n")


async def recorded(folder: Path) -> Path:
    async with world(folder=folder) as made:
        driver = made.driver()
        await driver.start(demand=1)
        await driver.open()
        await made.device("phone").check_in()
    return folder / "events.jsonl"


async def test_a_damaged_line_is_named_and_stops_the_start(tmp_path: Path) -> None:
    path = await recorded(tmp_path)
    spoilt(path, 3, b'"t":', b'"T":', sealed=False)
    with pytest.raises(UsageError) as caught:
        async with coordinator(folder=tmp_path):
            pass
    assert (caught.value.reason, caught.value.where) == ("JOURNAL_DAMAGED", f"{path}:3")
    assert "backup" in caught.value.fix


async def test_other_decisions_than_the_recorded_ones_stop_the_start(tmp_path: Path) -> None:
    path = await recorded(tmp_path)
    line = next(n for n, said in enumerate(path.read_bytes().splitlines(), 1) if b"OfferLease" in said)
    spoilt(path, line, b'"OfferLease",1,"phone"', b'"OfferLease",1,"other"', sealed=True)
    with pytest.raises(UsageError) as caught:
        async with coordinator(folder=tmp_path):
            pass
    assert (caught.value.reason, caught.value.where) == ("JOURNAL_DIFFERS", f"{path}:{line}")


async def test_a_journal_of_an_earlier_format_is_not_taken_up(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"kind":"start","format":2}\n')
    with pytest.raises(UsageError, match="format 2"):
        async with coordinator(folder=tmp_path):
            pass


async def test_a_folder_has_one_coordinator(tmp_path: Path) -> None:
    async with coordinator(folder=tmp_path):
        with pytest.raises(UsageError, match="another coordinator works in this folder"):
            async with coordinator(folder=tmp_path):
                pass


async def test_the_digest_goes_on(tmp_path: Path) -> None:
    path = await recorded(tmp_path)
    async with coordinator(folder=tmp_path):
        pass
    ends = [json.loads(line)["digest"] for line in path.read_text().splitlines() if '"kind":"end"' in line]
    restored = restore(path.parent, load_policy)
    assert restored is not None
    assert restored.written.digest.hex() == ends[1] == ends[0]  # an idle life decides nothing


SEGMENT_BYTES = 4_000


async def play_in_segments(folder: Path, **options: int) -> World:
    """Some rounds, which take several segments."""
    async with world(policy="venn", folder=folder, segment_bytes=SEGMENT_BYTES, **options) as made:
        driver = made.driver()
        await driver.start(demand=1, rounds=40)
        phone = made.device("phone")
        await phone.check_in(instance=INSTANCE)
        for round_ in range(1, 16):
            await driver.open(round_)
            offer = await phone.accept()
            await driver.record(offer.lease, round_=round_)
            await phone.finish(offer)
        return made


async def test_a_long_journal_goes_on_in_segments_that_are_read_as_one(tmp_path: Path) -> None:
    made = await play_in_segments(tmp_path)
    segments = closed_segments(tmp_path)
    assert len(segments) >= 3
    assert snapshots(tmp_path) == segments[::-1][:SNAPSHOTS_KEPT]
    journal = read_lives(tmp_path)
    assert [entry.n for entry in journal.entries] == list(range(1, len(journal.entries) + 1))
    assert sum(isinstance(entry.event, JournalRotated) for entry in journal.entries) == len(segments)
    replayed = replay(tmp_path)
    assert (replayed.same, replayed.events) == (True, len(journal.entries))
    restored = restore(tmp_path, load_policy)
    assert restored is not None
    restored.engine.validate()
    assert restored.written.digest.hex() == journal.digest == replayed.digest
    assert restored.engine.world.leases_granted == made.coordinator.engine.world.leases_granted == 15


@pytest.mark.parametrize("spoilt", [0, 1, 2])
async def test_it_comes_back_from_the_newest_whole_snapshot_or_without_one(tmp_path: Path, spoilt: int) -> None:
    await play_in_segments(tmp_path)
    whole = restore(tmp_path, load_policy)
    for segment in snapshots(tmp_path)[:spoilt]:
        path = snapshot_path(tmp_path, segment)
        path.write_bytes(path.read_bytes()[:-10])
    restored = restore(tmp_path, load_policy)
    assert whole is not None
    assert restored is not None
    assert snapshot_of(restored.engine) == snapshot_of(whole.engine)
    assert list(restored.facts) == list(whole.facts)
    assert (restored.written.number, restored.last_s) == (whole.written.number, whole.last_s)


async def test_killed_as_it_begins_another_segment_it_begins_it_when_it_is_back(tmp_path: Path) -> None:
    await play_in_segments(tmp_path)
    closed = closed_segments(tmp_path)
    (tmp_path / "events.jsonl").rename(tmp_path / f"events-{closed[-1] + 1}.jsonl")  # and no more
    async with world(folder=tmp_path) as again:
        assert again.coordinator.engine.world.leases_granted == 15
    start = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[0])
    assert start["segment"] == closed[-1] + 2
    assert replay(tmp_path).same


async def test_the_oldest_segments_go_where_they_are_not_to_be_kept(tmp_path: Path) -> None:
    await play_in_segments(tmp_path, keep_journal=3 * SEGMENT_BYTES)
    kept = closed_segments(tmp_path)
    assert kept[0] > 1
    restored = restore(tmp_path, load_policy)
    assert restored is not None
    assert restored.engine.world.leases_granted == 15
    with pytest.raises(UsageError, match="dropped"):
        read_lives(tmp_path)
    segment_path(tmp_path, kept[-1]).unlink()
    snapshot_path(tmp_path, snapshots(tmp_path)[0]).unlink()
    with pytest.raises(UsageError, match=f"segment {kept[-1]} is missing"):
        restore(tmp_path, load_policy)
