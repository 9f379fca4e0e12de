"""A job belongs to the identity that submitted it: to others it is not there."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from coordinator.engine import effects
from coordinator.service.facts import JobOwned
from coordinator.service.identities import Identity
from tests.integration.gate import KEYS, login
from tests.integration.service.peers import Driver, World, world
from venn.v1 import admin_pb2, common_pb2, job_pb2
from venn.wire.calls import admin_stub, job_stub
from venn.wire.keys import Key, new_key
from venn.wire.status import reason_of

BEN = new_key()
NOT_THERE = (grpc.StatusCode.NOT_FOUND, "UNKNOWN_JOB")


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), reason_of(caught.value)


def ben(made: World, name: str = "digits", **options: Any) -> Driver:
    """A driver of another owner than the local key's."""
    made.coordinator.admission.identities.add(Identity(BEN.id, BEN.public, "job", "ben"))
    return made.driver(name, key=BEN, **options)


async def test_another_owner_reads_drives_and_ends_nothing() -> None:
    async with world() as made:
        driver, thief = made.driver(), ben(made, incarnation=2)
        await driver.start()
        await driver.open()
        key = driver.key
        for call in (
            thief.stub.CancelJob(job_pb2.CancelJobRequest(job=key)),
            thief.stub.CancelJob(job_pb2.CancelJobRequest(job=key, failed=True, driver_incarnation=2)),
            thief.stub.FinishJob(job_pb2.FinishJobRequest(job=key, driver_incarnation=1)),
            thief.stub.ReportActivity(job_pb2.ReportActivityRequest(job=key, driver_incarnation=1)),
            thief.stub.ReportRound(job_pb2.ReportRoundRequest(job=key, driver_incarnation=1, round=1)),
            thief.stub.WatchJob(job_pb2.WatchJobRequest(job=key)).read(),
            thief.follow().next("alive"),
            thief.open(round_=2),
            thief.record(1),
        ):
            assert await refusal(call) == NOT_THERE
        assert not made.of(effects.EndJob)


async def test_another_owner_gets_no_key_of_tickets_and_supersedes_nobody() -> None:
    async with world() as made:
        driver, thief = made.driver(), ben(made, incarnation=2**40)
        await driver.start()
        assert await refusal(thief.submit()) == (grpc.StatusCode.NOT_FOUND, "OTHER_OWNER")
        assert not thief.ticket_key
        assert (await driver.open()).places == 1


async def test_what_an_owner_lists_are_the_owners_own_jobs_and_an_administrator_sees_all() -> None:
    async with world() as made:
        await made.driver("one").submit()
        other = ben(made, "two")
        await other.submit()
        assert await listed(made, KEYS.job) == ["one"]
        assert await names(admin_stub(other.channel)) == ["two"]
        assert await names(made.admin) == ["one", "two"]


async def listed(made: World, key: Key) -> list[str]:
    async with login(made.address, "job").channel() as channel:
        assert key is KEYS.job
        return await names(admin_stub(channel))


async def names(admin: Any) -> list[str]:
    return [job.key.name for job in (await admin.ListJobs(admin_pb2.ListJobsRequest())).jobs]


async def test_an_administrator_watches_and_cancels_and_does_not_drive() -> None:
    async with world() as made, login(made.address, "admin").channel() as channel:
        driver = made.driver()
        await driver.submit()
        admin: Any = job_stub(channel)
        assert (await admin.WatchJob(job_pb2.WatchJobRequest(job=driver.key)).read()).job.key == driver.key
        finish = job_pb2.FinishJobRequest(job=driver.key, driver_incarnation=1)
        assert await refusal(admin.FinishJob(finish)) == NOT_THERE
        answer = await admin.CancelJob(job_pb2.CancelJobRequest(job=driver.key, reason="enough"))
        assert answer.phase == job_pb2.JOB_PHASE_CANCELLED


async def test_a_refused_submission_takes_no_name() -> None:
    async with world() as made:
        driver, other = made.driver(), ben(made)
        code, _ = await refusal(other.submit(demand=0))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        await driver.submit()
        assert await refusal(other.submit()) == (grpc.StatusCode.NOT_FOUND, "OTHER_OWNER")


async def test_the_owner_is_recorded(tmp_path: Path) -> None:
    async with world(folder=tmp_path) as made:
        driver = made.driver()
        await driver.submit()
        assert list(made.coordinator.host.facts.of(JobOwned)) == [JobOwned("ann/digits/1", KEYS.job.id.hex())]  # type: ignore[arg-type]
        assert driver.key == common_pb2.JobKey(owner="ann", name="digits", run="1")
