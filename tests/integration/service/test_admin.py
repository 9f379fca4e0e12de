"""AdminService, health and reflection over real gRPC."""

import asyncio
import re

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from coordinator.engine import effects, events
from coordinator.engine.ids import DeviceId, JobId, SessionSeq
from coordinator.engine.model import JobEnd, SessionEnd
from coordinator.engine.requirements import Capabilities
from coordinator.service import device_service
from coordinator.service.convert import jobs as convert
from coordinator.service.jobs import Job
from coordinator.service.sessions import Session
from tests.integration.gate import login
from tests.integration.service.peers import World, check_in_frame, world
from venn.v1 import admin_pb2, common_pb2, device_pb2, job_pb2
from venn.wire.channel import open_channel
from venn.wire.status import reason_of


async def snapshot(made: World) -> admin_pb2.Snapshot:
    answer = await made.admin.GetSnapshot(admin_pb2.GetSnapshotRequest())
    return answer.snapshot


async def refusal(call: object) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    return caught.value.code(), reason_of(caught.value)


async def test_the_snapshot_adds_up() -> None:
    async with world(name="three-jobs") as made:
        driver = made.driver()
        await driver.start(demand=3, over_commit="0", requirement_name="any", rounds=4)
        await driver.open()
        phones = [made.device(f"phone-{n}") for n in range(4)]
        for phone in phones:
            await phone.check_in()
        offers = [await phone.accept() for phone in phones[:3]]
        await driver.record(offers[0].lease)
        await phones[0].finish(offers[0])
        await phones[0].next("ack")
        await phones[1].vanish()
        await made.until(effects.EndSession)
        seen = await snapshot(made)
        assert (seen.name, seen.policy, seen.seed) == ("three-jobs", "fifo", 7)
        (job,) = seen.jobs
        assert (job.round, job.rounds, job.places, job.responses_needed) == (1, 4, 3, 3)
        assert (job.leased, job.responses, job.phase) == (3, 1, job_pb2.JOB_PHASE_COLLECTING)
        counted = seen.devices
        assert counted.known == 4 == counted.waiting + counted.busy + counted.served + counted.gone
        assert (counted.busy, counted.gone) == (2, 1)
        leases = seen.leases
        assert leases.granted == 4
        assert leases.granted == sum(
            getattr(leases, name)
            for name in ("responses", "stragglers", "lost", "failed", "expired", "revoked", "live")
        )
        (region,) = seen.regions
        assert (list(region.groups), region.devices, region.waiting) == (["any"], 4, 1)
        assert seen.host.memory_total_bytes > 0
        assert {entry.kind for entry in seen.log} == {"JOB", "LOST"}


async def test_the_snapshot_is_watched() -> None:
    async with world() as made:
        call = made.admin.Watch(admin_pb2.WatchRequest(interval={"nanos": 100_000_000}))
        assert [(await call.read()).snapshot.policy for _ in range(2)] == ["fifo", "fifo"]
        call.cancel()
        code, _ = await refusal(made.admin.Watch(admin_pb2.WatchRequest(interval={"seconds": 3600})).read())
        assert code is grpc.StatusCode.INVALID_ARGUMENT


def finished_jobs(made: World, count: int) -> list[Job]:
    """Jobs that have ended after 64 rounds with metrics."""
    jobs = []
    for number in range(count):
        name = JobId(f"ann/digits/{number:03}")
        spec = job_pb2.JobSpec(demand=1, min_response="1", deadline={"seconds": 60})
        spec.requirement.all.SetInParent()
        made.coordinator.host.handle(events.JobSubmitted(convert.job_spec(name, spec), 1))
        job = Job(name, "127.0.0.1:1", 1)
        made.coordinator.jobs.add(job, made.coordinator.engine.jobs)
        for round_ in range(1, 65):
            job.metrics.append((round_, {"accuracy": 0.9, "loss": 0.1}))
        made.coordinator.host.handle(events.JobEnded(name, JobEnd.FINISHED))
        job.ended = True
        jobs.append(job)
    return jobs


async def test_a_snapshot_has_a_bound_and_jobs_are_listed_in_pages() -> None:
    async with world() as made:
        await made.driver("going").start()
        finished_jobs(made, 250)
        seen = await snapshot(made)
        assert (len(seen.jobs), seen.more_jobs) == (100, 151)
        assert [job.key.run for job in seen.jobs] == [seen.jobs[0].key.run, *(f"{n:03}" for n in range(151, 250))]
        assert seen.jobs[0].key.name == "going"
        assert seen.ByteSize() < 1 << 20
        listed, request = [], admin_pb2.ListJobsRequest()
        while True:
            page = await made.admin.ListJobs(request)
            listed += [job.key.run for job in page.jobs]
            if not page.next_page_token:
                break
            assert len(page.jobs) == 100
            request.page_token = page.next_page_token
        assert listed == [seen.jobs[0].key.run, *(f"{number:03}" for number in range(250))]
        code, _ = await refusal(made.admin.ListJobs(admin_pb2.ListJobsRequest(page_size=1001)))
        assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_job_that_has_ended_is_described_once() -> None:
    async with world() as made:
        (job,) = finished_jobs(made, 1)
        view = made.coordinator.view
        described = view.job(job)
        assert view.job(job) is described
        job.report(64, {"accuracy": 0.95})
        assert view.job(job).history[-1].metrics["accuracy"] == 0.95


async def test_who_watches_at_the_same_interval_shares_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as made:
        taken = 0
        take = made.coordinator.view.snapshot

        def counted() -> admin_pb2.Snapshot:
            nonlocal taken
            taken += 1
            return take()

        monkeypatch.setattr(made.coordinator.view, "snapshot", counted)
        request = admin_pb2.WatchRequest(interval={"nanos": 100_000_000})
        calls = [made.admin.Watch(request) for _ in range(20)]
        await asyncio.gather(*(call.read() for call in calls))
        assert taken == 20  # each has its first at once
        first = [await call.read() for call in calls]
        assert all(one.snapshot.elapsed == first[0].snapshot.elapsed for one in first)
        for call in calls:
            call.cancel()


async def test_a_mistyped_name_is_held_against_a_bounded_number_of_others() -> None:
    async with world() as made:
        for number in range(500):
            name = DeviceId(f"device-{number:06}")
            checked_in = events.DeviceCheckedIn(SessionSeq(10_000 + number), name, "i", 1, Capabilities())
            made.coordinator.host.handle(checked_in)
        await made.until(effects.OpenSession, lambda effect: effect.device == "device-000499")
        finished_jobs(made, 250)
        assert len(made.coordinator.view.like("device-000234x")) == 1 + 400
        assert len(made.coordinator.view.connected_like("device-000234x")) == 400
        with pytest.raises(grpc.aio.AioRpcError, match=r"did you mean device-000234\?"):
            await made.admin.Explain(admin_pb2.ExplainRequest(subject="device-000234x"))
        with pytest.raises(grpc.aio.AioRpcError, match=r"did you mean device-000234\?"):
            await made.admin.DrainDevices(admin_pb2.DrainDevicesRequest(devices=["device-000234x"]))


async def test_devices_are_listed_in_pages() -> None:
    async with world() as made:
        await made.driver().start()
        for name in ("c", "a", "b"):
            await made.device(name).check_in(
                capabilities=common_pb2.Capabilities(
                    numbers={"cpu": 4.0}, labels={"site": common_pb2.LabelValues(values=["lab"])}
                )
            )
        first = await made.admin.ListDevices(admin_pb2.ListDevicesRequest(page_size=2))
        assert [(device.device, device.state) for device in first.devices] == [("a", "waiting"), ("b", "waiting")]
        assert first.devices[0].capabilities.labels["site"].values == ["lab"]
        assert first.devices[0].waits
        assert re.fullmatch(r"127\.0\.0\.1:\d+", first.devices[0].address)
        assert first.devices[0].HasField("unheard")
        rest = await made.admin.ListDevices(admin_pb2.ListDevicesRequest(page_size=2, page_token=first.next_page_token))
        assert [device.device for device in rest.devices] == ["c"]
        assert not rest.next_page_token


async def test_where_devices_are_is_looked_up_for_those_of_the_page_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    seen = device_service._seen

    def look(session: Session) -> device_service.LastSeen:
        looked.append(session.device)
        return seen(session)

    async with world() as made:
        await made.driver().start()
        phones = {name: made.device(name) for name in ("a", "b", "c")}
        for phone in phones.values():
            await phone.check_in()
        await phones["a"].vanish()
        await made.until(effects.EndSession)
        monkeypatch.setattr(device_service, "_seen", look)
        page = await made.admin.ListDevices(admin_pb2.ListDevicesRequest(page_size=2))
        assert [device.device for device in page.devices if device.address] == ["a", "b"]
        assert "c" not in looked


async def test_a_job_and_a_device_are_explained() -> None:
    async with world() as made:
        driver = made.driver("label-count")
        await driver.start()
        await driver.open()
        device = made.device()
        await device.check_in()
        await device.accept()
        await made.until(effects.RunLease)
        job = await made.admin.Explain(admin_pb2.ExplainRequest(subject="label-count"))
        assert (job.subject, job.state) == ("ann/label-count/1", "collecting")
        assert [entry.kind for entry in job.history][-1] == "FILLED"
        by_key = await made.admin.Explain(admin_pb2.ExplainRequest(subject="ann/label-count/1"))
        assert by_key.subject == job.subject
        phone = await made.admin.Explain(admin_pb2.ExplainRequest(subject="phone-1"))
        assert phone.state == "busy"
        with pytest.raises(grpc.aio.AioRpcError, match="did you mean phone-1") as caught:
            await made.admin.Explain(admin_pb2.ExplainRequest(subject="phone-2"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_the_policy_changes_live() -> None:
    async with world() as made:
        await made.driver().start()
        answer = await made.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy="venn(fairness=2)"))
        assert answer.before == "fifo"
        seen = await snapshot(made)
        assert seen.policy == "venn(fairness=2)"
        assert seen.log[0].kind == "POLICY"


@pytest.mark.parametrize("name", ["nonsense", "", "/tmp/evil.py:Policy", "venn(/tmp/evil.py:Policy)", "venn(speed=2)"])
async def test_only_installed_policies_come_over_the_wire(name: str) -> None:
    async with world() as made:
        code, _ = await refusal(made.admin.SetPolicy(admin_pb2.SetPolicyRequest(policy=name)))
        assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_drained_devices_leave() -> None:
    async with world() as made:
        await made.driver().start()
        named, other = made.device("named"), made.device("other")
        await named.check_in()
        await other.check_in()
        both = admin_pb2.DrainDevicesRequest(devices=["named", "othre"])
        assert await refusal(made.admin.DrainDevices(both)) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_SUBJECT")
        assert not made.of(effects.EndSession)  # none of them then
        answer = await made.admin.DrainDevices(admin_pb2.DrainDevicesRequest(devices=["named"]))
        assert answer.drained == 1
        ended = await made.until(effects.EndSession)
        assert (ended.device, ended.reason) == ("named", SessionEnd.DRAINED)
        assert reason_of((await named.end())[1] or grpc.RpcError()) == "DRAINED"


async def test_faults_are_off_unless_allowed() -> None:
    fault = admin_pb2.InjectFaultRequest(drop_session=admin_pb2.DropSession(device="phone-1"))
    async with world() as made:
        assert await refusal(made.admin.InjectFault(fault)) == (grpc.StatusCode.PERMISSION_DENIED, "FAULTS_OFF")
    async with world(allow_faults=True) as made:
        await made.driver().start()
        device = made.device()
        await device.check_in()
        await made.admin.InjectFault(fault)
        assert (await made.until(effects.EndSession)).reason is SessionEnd.CONNECTION_ENDED
        assert (await device.end())[0] is grpc.StatusCode.UNAVAILABLE
        assert await refusal(made.admin.InjectFault(fault)) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_SUBJECT")


async def test_going_down_tells_devices_first_and_waits_for_the_busy_ones() -> None:
    async with world() as made:
        driver = made.driver()
        follower = await driver.start()
        await driver.open()
        busy, idle = made.device("busy"), made.device("idle")
        await busy.check_in()
        await busy.accept()
        await made.until(effects.RunLease)
        await idle.check_in()
        draining = asyncio.create_task(made.coordinator.drain(10.0))
        await busy.next("drain")
        code, error = await idle.end()
        assert (code, reason_of(error or grpc.RpcError())) == (grpc.StatusCode.UNAVAILABLE, "DRAINED")
        assert not draining.done()
        late = made.device("late")
        await late.call.write(check_in_frame("late"))
        code, error = await late.end()
        assert (code, reason_of(error or grpc.RpcError())) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        await busy.say(goodbye=device_pb2.Goodbye(reason=device_pb2.GOODBYE_REASON_TOLD_TO))
        await draining
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await follower.next("job_ended")
        assert (caught.value.code(), reason_of(caught.value)) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert not made.of(effects.PauseJob)


async def test_health_needs_no_login_and_admin_calls_do() -> None:
    async with world() as made, open_channel(made.address) as bare:
        stub = HealthStub(bare)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service="venn.v1.DeviceService"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        await made.coordinator.drain(1.0)
        answer = await stub.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
        code, reason = await refusal(bare.unary_unary("/venn.v1.AdminService/GetSnapshot")(b""))
        assert (code, reason) == (grpc.StatusCode.UNAUTHENTICATED, "LOGIN")


@pytest.mark.parametrize("on", [True, False])
async def test_reflection_is_by_flag_and_for_admins(on: bool) -> None:
    method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    listing = bytes([0x3A, 0])  # ServerReflectionRequest(list_services="")
    async with world(reflection=on) as made, login(made.address, "admin").channel() as channel:
        call = channel.stream_stream(method)()

        async def ask() -> bytes:
            await call.write(listing)  # which fails itself if the refusal is here already
            return bytes(await call.read())

        if not on:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask()
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        else:
            assert b"venn.v1.DeviceService" in await ask()
            call.cancel()
