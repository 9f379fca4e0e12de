"""An asynchronous job over real gRPC: one request, rounds that close under its leases, tasks of each round."""

from tests.integration.service.peers import Device, World, world
from venn.v1 import admin_pb2, job_pb2
from venn.wire.admission import verify

OPEN, CLOSED = job_pb2.ATTEMPT_STATUS_OPEN, job_pb2.ATTEMPT_STATUS_CLOSED
SPEC = {"demand": 2, "asynchronous": job_pb2.Asynchronous(buffer=1, max_staleness=3)}


async def some_device(made: World, name: str) -> Device:
    device = made.device(name)
    await device.check_in()
    return device


async def test_rounds_close_under_the_leases_of_one_request() -> None:
    async with world() as made:
        driver = made.driver()
        follower = await driver.start(**SPEC)
        opened = await driver.open(data="one")
        assert (opened.places, opened.responses_needed, opened.HasField("remaining")) == (2, 1, False)
        phones = [await some_device(made, f"phone-{n}") for n in (1, 2)]
        first, second = [await phone.accept() for phone in phones]
        assert (await driver.record(first.lease)).status == CLOSED
        ended = (await follower.next("attempt_ended")).attempt_ended
        assert (ended.attempt.round, ended.status) == (1, CLOSED)
        told = [frame for frame in follower.seen if frame.HasField("granted") or frame.HasField("ended")]
        leases = [frame.granted.lease or frame.ended.lease for frame in told]
        assert leases == [first.lease, second.lease, first.lease]  # granted, granted, counted

        third = await (await some_device(made, "phone-3")).accept()  # the next model is not there yet
        assert (third.task.data, third.attempt.round) == ("one", 1)
        again = await driver.open(round_=2, data="two")
        assert (again.request, again.status) == (opened.request, OPEN)
        assert (await driver.open(data="one")).status == CLOSED

        await phones[0].finish(first)
        await driver.record(second.lease, round_=2)
        fourth = await phones[0].accept()
        assert (fourth.task.data, fourth.attempt.round) == ("two", 2)
        admitted = verify(fourth.ticket, driver.ticket_key, fourth.ticket.key_id, now_ms=0)
        assert admitted.attempt == driver.attempt(2)


async def test_people_see_its_buffer_and_its_concurrency() -> None:
    async with world() as made:
        driver = made.driver()
        await driver.start(demand=1, asynchronous=job_pb2.Asynchronous(buffer=3))
        await driver.open()
        await (await some_device(made, "phone-1")).accept()
        (seen,) = (await made.admin.GetSnapshot(admin_pb2.GetSnapshotRequest())).snapshot.jobs
        assert (seen.leased, seen.places, seen.responses, seen.responses_needed) == (1, 1, 0, 3)
        assert seen.waits == "at its concurrency: 1 lease live, the buffer lacks 3 of 3 responses"
