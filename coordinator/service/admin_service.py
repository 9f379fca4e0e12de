"""AdminService: for people and their tools. Role: admin; a job's owner may list the owner's own jobs."""

import asyncio
from typing import Any, NoReturn

import grpc

from coordinator.engine import events
from coordinator.engine.ids import DeviceId
from coordinator.policies.registry import load_policy, policy_names, split
from coordinator.service.convert.devices import duration, seconds
from coordinator.service.convert.fields import MalformedError
from coordinator.service.convert.jobs import job_id
from coordinator.service.device_service import DeviceService
from coordinator.service.event_log import EventLog
from coordinator.service.guard import caller
from coordinator.service.host import Host
from coordinator.service.owners import Owners
from coordinator.service.view import View
from venn.v1 import admin_pb2
from venn.v1.admin_pb2_grpc import AdminServiceServicer
from venn.wire.errors import VennError
from venn.wire.status import abort
from venn.wire.text import did_you_mean, printable

Context = grpc.aio.ServicerContext[Any, Any]

SERVICE = "venn.v1.AdminService"
WATCH_S = 0.5
SHORTEST_WATCH_S, LONGEST_WATCH_S = 0.1, 60.0
PAGE, LARGEST_PAGE = 100, 1_000
MOST_DRAINED = 10_000  # devices named in one call


class AdminService(AdminServiceServicer):
    """Serves admins: shows everything, changes the policy, drains devices and, where allowed, injects faults."""

    def __init__(
        self,
        host: Host,
        view: View,
        log: EventLog,
        devices: DeviceService,
        owners: Owners,
        *,
        allow_faults: bool,
    ) -> None:
        self._host, self._view, self._log, self._devices = host, view, log, devices
        self._owners, self._allow_faults = owners, allow_faults
        self._coming: dict[int, asyncio.Task[admin_pb2.Snapshot]] = {}  # by interval, in tenths of a second

    async def GetSnapshot(
        self, request: admin_pb2.GetSnapshotRequest, context: Context
    ) -> admin_pb2.GetSnapshotResponse:
        return admin_pb2.GetSnapshotResponse(snapshot=self._view.snapshot())

    async def Watch(self, request: admin_pb2.WatchRequest, context: Context) -> None:  # type: ignore[override]
        interval = WATCH_S
        if request.HasField("interval"):
            try:
                interval = seconds(request.interval, "interval")
            except MalformedError as error:
                await _invalid(context, error.message)
            if not SHORTEST_WATCH_S <= interval <= LONGEST_WATCH_S:
                await _invalid(context, f"an interval is between {SHORTEST_WATCH_S} s and {LONGEST_WATCH_S:g} s")
        snapshot = self._view.snapshot()
        while True:
            await context.write(admin_pb2.WatchResponse(snapshot=snapshot))
            snapshot = await self._next(interval)

    async def _next(self, interval: float) -> admin_pb2.Snapshot:
        """The next snapshot of those that are taken at this interval: one for all who watch."""
        tenths = round(interval / SHORTEST_WATCH_S)
        if tenths not in self._coming:
            self._coming[tenths] = asyncio.create_task(self._take(tenths))
        return await asyncio.shield(self._coming[tenths])

    async def _take(self, tenths: int) -> admin_pb2.Snapshot:
        await asyncio.sleep(tenths * SHORTEST_WATCH_S)
        del self._coming[tenths]
        return self._view.snapshot()

    async def ListJobs(self, request: admin_pb2.ListJobsRequest, context: Context) -> admin_pb2.ListJobsResponse:
        size = request.page_size or PAGE
        if size > LARGEST_PAGE:
            await _invalid(context, f"a page has at most {LARGEST_PAGE} jobs")
        me, may_see = caller(), self._owners.may_see
        jobs, more = self._view.jobs(after=request.page_token, most=size, shown=lambda job: may_see(job, me))
        token = job_id(jobs[-1].key) if more else ""
        return admin_pb2.ListJobsResponse(jobs=jobs, next_page_token=token)

    async def ListDevices(
        self, request: admin_pb2.ListDevicesRequest, context: Context
    ) -> admin_pb2.ListDevicesResponse:
        size = request.page_size or PAGE
        if size > LARGEST_PAGE:
            await _invalid(context, f"a page has at most {LARGEST_PAGE} devices")
        devices, more = self._view.devices(after=request.page_token, most=size)
        now = self._host.now()
        for device in devices:
            if last := self._devices.last_seen(DeviceId(device.device)):
                device.address = printable(last.address, limit=64)
                device.unheard.CopyFrom(duration(max(0.0, now - last.heard_at)))
        token = devices[-1].device if more else ""
        return admin_pb2.ListDevicesResponse(devices=devices, next_page_token=token)

    async def Explain(self, request: admin_pb2.ExplainRequest, context: Context) -> admin_pb2.ExplainResponse:
        answer = self._view.explain(request.subject)
        if answer is None:
            asked = printable(request.subject, limit=128)
            hint = did_you_mean(request.subject, self._view.like(request.subject))
            message = f"no job and no device is called {asked!r}" + (f"; {hint}" if hint else "")
            await abort(context, grpc.StatusCode.NOT_FOUND, "UNKNOWN_SUBJECT", message)
        return answer

    async def SetPolicy(self, request: admin_pb2.SetPolicyRequest, context: Context) -> admin_pb2.SetPolicyResponse:
        """Change to an installed policy. Only the coordinator's own user may name one by its file, never a call."""
        if split(request.policy)[0] not in policy_names():
            known = ", ".join(policy_names())
            await _invalid(context, f"no policy is called {printable(request.policy, limit=64)!r}; known are {known}")
        before = self._view.policy
        try:
            policy = load_policy(request.policy)
        except (VennError, ValueError) as error:
            await _invalid(context, str(error))
        self._host.engine.set_policy(policy)
        await self._host.ask(events.PolicyChanged(request.policy))
        self._view.policy = request.policy
        self._log.add(self._host.now(), "POLICY", f"{before} gives way to {request.policy}")
        return admin_pb2.SetPolicyResponse(before=before)

    async def DrainDevices(
        self, request: admin_pb2.DrainDevicesRequest, context: Context
    ) -> admin_pb2.DrainDevicesResponse:
        if len(request.devices) > MOST_DRAINED:
            await _invalid(context, f"at most {MOST_DRAINED} devices in one call")
        for device in request.devices:
            if not self._view.is_connected(device):
                asked, hint = printable(device, limit=128), did_you_mean(device, self._view.connected_like(device))
                message = f"no device called {asked!r} is connected" + (f"; {hint}" if hint else "")
                await abort(context, grpc.StatusCode.NOT_FOUND, "UNKNOWN_SUBJECT", message)
        named = tuple(DeviceId(device) for device in request.devices)
        drained = len(named) if named else len(self._host.engine.sessions)
        await self._host.ask(events.DevicesDrained(named or None))
        return admin_pb2.DrainDevicesResponse(drained=drained)

    async def InjectFault(
        self, request: admin_pb2.InjectFaultRequest, context: Context
    ) -> admin_pb2.InjectFaultResponse:
        if not self._allow_faults:
            await abort(
                context,
                grpc.StatusCode.PERMISSION_DENIED,
                "FAULTS_OFF",
                "this coordinator injects no faults",
                fix="start it with --allow-faults",
            )
        if request.WhichOneof("fault") != "drop_session":
            await _invalid(context, "name a fault")
        if not self._devices.drop(request.drop_session.device):
            await abort(context, grpc.StatusCode.NOT_FOUND, "UNKNOWN_SUBJECT", "no such device is connected")
        return admin_pb2.InjectFaultResponse()


async def _invalid(context: Context, message: str) -> NoReturn:
    await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED", message)
