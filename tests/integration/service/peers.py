"""Scripted devices and drivers over real gRPC on loopback, and a coordinator whose time stands still until told."""

import asyncio
import secrets
import typing
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from coordinator.engine.effects import Effect
from coordinator.engine.model import EngineSettings
from coordinator.policies.registry import load_policy
from coordinator.service.server import Coordinator, CoordinatorSettings, running
from testbed.testing.clock import FakeClock
from tests.integration.gate import KEYS, login
from venn.v1 import common_pb2, device_pb2, job_pb2, task_pb2
from venn.v1.task_pb2_grpc import TaskServiceServicer, add_TaskServiceServicer_to_server
from venn.wire.admission import identify_mac, receipt_mac, this_version
from venn.wire.calls import Exchange, admin_stub, device_stub, job_stub
from venn.wire.channel import bind, make_server
from venn.wire.keys import Key
from venn.wire.login import Login

E = typing.TypeVar("E", bound=Effect)
TICKET_KEYS: dict[str, bytes] = {}  # of all drivers, by id
PATIENCE_S = 60.0  # of a test for a frame that must come


@asynccontextmanager
async def coordinator(
    *,
    time: FakeClock | None = None,
    policy: str = "fifo",
    folder: Path | None = None,
    engine: Any = None,
    **options: Any,
) -> AsyncIterator[Coordinator]:
    """One that validates its engine after every event, and must not have failed at the end."""
    seams: dict[str, Any] = {"clock": time, "call_later": time.call_later} if time else {}
    settings = CoordinatorSettings(
        engine=engine or EngineSettings(seed=7, policy=policy),
        keys=KEYS,
        folder=folder,
        validate=True,
        **seams,
        **options,
    )
    async with running(settings, load_policy(policy)) as started:
        yield started
        if started.host.failure.done():
            started.host.failure.result()


def receipt_of(offer: device_pb2.Offer, outcome: common_pb2.Outcome = common_pb2.OUTCOME_COUNTED) -> common_pb2.Receipt:
    """The receipt that the driver of an offer gives for a response."""
    digest = bytes(32)
    mac = receipt_mac(TICKET_KEYS[offer.ticket.key_id], offer.lease, outcome, digest)
    return common_pb2.Receipt(lease=offer.lease, attempt=offer.attempt, outcome=outcome, digest=digest, mac=mac)


def check_in_frame(name: str, **fields: Any) -> device_pb2.ConnectRequest:
    fields.setdefault("instance", secrets.token_bytes(16))
    fields.setdefault("version", this_version())
    fields.setdefault("interval", 1)
    return device_pb2.ConnectRequest(seq=1, check_in=device_pb2.CheckIn(device=name, **fields))


class Device:
    """One stream of one device."""

    def __init__(self, address: str, name: str, *, key: Key = KEYS.device) -> None:
        self.name, self.seq = name, 1
        self.channel = Login(address, key, "device").channel()
        self.call = device_stub(self.channel).Connect()
        self.heard: deque[device_pb2.ConnectResponse] = deque()  # not yet looked at

    async def check_in(self, **fields: Any) -> device_pb2.Welcome:
        await self.call.write(check_in_frame(self.name, **fields))
        return (await self.next("welcome")).welcome

    async def say(self, **frame: Any) -> int:
        """Send the next frame; returns its seq."""
        self.seq += 1
        await self.call.write(device_pb2.ConnectRequest(seq=self.seq, **frame))
        return self.seq

    async def next(self, kind: str) -> device_pb2.ConnectResponse:
        """The next frame of this kind; others are passed over. Raises AioRpcError at the end of the stream."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                while self.heard:
                    frame = self.heard.popleft()
                    if frame.WhichOneof("frame") == kind:
                        return frame
                message = await self.call.read()
                if message is grpc.aio.EOF:
                    raise EOFError(await self.call.code(), await self.call.details())
                assert isinstance(message, device_pb2.ConnectResponse)
                self.heard.extend((message, *message.more))

    async def accept(self) -> device_pb2.Offer:
        """Take the next offer."""
        offer = (await self.next("offer")).offer
        await self.say(accepted=device_pb2.Accepted(lease=offer.lease))
        return offer

    async def finish(self, offer: device_pb2.Offer, outcome: common_pb2.Outcome = common_pb2.OUTCOME_COUNTED) -> None:
        """Say that the driver has answered, with its receipt."""
        receipt = receipt_of(offer, outcome)
        await self.say(finished=device_pb2.Finished(lease=offer.lease, receipt=receipt))

    async def end(self) -> tuple[grpc.StatusCode, grpc.aio.AioRpcError | None]:
        """Read to the end of the stream: its status."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                while await self.call.read() is not grpc.aio.EOF:
                    pass
                return await self.call.code(), None
            except grpc.aio.AioRpcError as error:
                return error.code(), error

    async def vanish(self) -> None:
        """Like a phone that loses power: no goodbye."""
        self.call.cancel()  # an older grpcio keeps a stream that nobody reads when its channel is closed
        await self.channel.close()


class Driver(TaskServiceServicer):
    """One driver: serves Identify, submits, opens, follows."""

    def __init__(self, address: str, name: str = "digits", *, incarnation: int = 1, key: Key = KEYS.job) -> None:
        self.key = common_pb2.JobKey(owner="ann", name=name, run="1")
        self.incarnation = incarnation
        self.ticket_key = b""
        self.certificate = b""  # DER
        self.channel = Login(address, key, "job").channel()
        self.stub = job_stub(self.channel)
        self.drive: Exchange[job_pb2.DriveRequest, job_pb2.DriveResponse] = Exchange(self.stub.Drive)
        self.server: grpc.aio.Server | None = None
        self.address = ""
        self._followers: list[Follower] = []  # an older grpcio cancels a call that nobody holds

    async def Identify(self, request: task_pb2.IdentifyRequest, context: Any) -> task_pb2.IdentifyResponse:  # type: ignore[override]
        return task_pb2.IdentifyResponse(mac=identify_mac(self.ticket_key, request.challenge))

    async def Fetch(self, request: Any, context: Any) -> Any:  # type: ignore[override]
        raise NotImplementedError

    async def Submit(self, request: Any, context: Any) -> Any:  # type: ignore[override]
        raise NotImplementedError

    async def serve(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.server = make_server()
        add_TaskServiceServicer_to_server(self, self.server)
        self.address = bind(self.server, "127.0.0.1:0", credentials=credentials)
        await self.server.start()

    async def submit(self, **spec: Any) -> job_pb2.SubmitJobResponse:
        answer: job_pb2.SubmitJobResponse = await self.stub.SubmitJob(self.submission(**spec))
        self.ticket_key = TICKET_KEYS[answer.key_id] = answer.ticket_key
        return answer

    def submission(self, **spec: Any) -> job_pb2.SubmitJobRequest:
        spec.setdefault("demand", 1)
        spec.setdefault("min_response", "1")
        message = job_pb2.JobSpec(**spec)
        if not message.HasField("deadline"):
            message.deadline.FromSeconds(60)
        return job_pb2.SubmitJobRequest(
            key=self.key,
            spec=message,
            driver_incarnation=self.incarnation,
            address=self.address or "127.0.0.1:1",
            version=this_version(),
            certificate=self.certificate,
        )

    def attempt(self, round_: int = 1, attempt: int = 1) -> common_pb2.AttemptKey:
        return common_pb2.AttemptKey(job=self.key, round=round_, attempt=attempt)

    async def open(self, round_: int = 1, attempt: int = 1, **task: Any) -> job_pb2.OpenAttemptResponse:
        task.setdefault("code", common_pb2.Artifact(digest=bytes(32), size=1))
        task.setdefault("model", common_pb2.Artifact(digest=bytes(32), size=1))
        request = job_pb2.OpenAttemptRequest(
            key=self.attempt(round_, attempt), driver_incarnation=self.incarnation, task=common_pb2.Task(**task)
        )
        return (await self.drive.ask(job_pb2.DriveRequest(open_attempt=request))).attempt_opened

    def follow(self, after_seq: int = 0) -> "Follower":
        request = job_pb2.FollowJobRequest(job=self.key, driver_incarnation=self.incarnation, after_seq=after_seq)
        return Follower(self.stub.FollowJob(request))

    async def record(
        self, *leases: int, round_: int = 1, attempt: int = 1, outcome: common_pb2.Outcome = common_pb2.OUTCOME_COUNTED
    ) -> job_pb2.RecordResponsesResponse:
        request = job_pb2.RecordResponsesRequest(
            attempt=self.attempt(round_, attempt), driver_incarnation=self.incarnation
        )
        for lease in leases:
            request.responses.add(lease=lease, outcome=outcome)
        return (await self.drive.ask(job_pb2.DriveRequest(record_responses=request))).responses_recorded

    async def start(self, credentials: grpc.ServerCredentials | None = None, **spec: Any) -> "Follower":
        """Serve, submit, follow; the job may be served."""
        await self.serve(credentials)
        await self.submit(**spec)
        follower = self.follow()
        self._followers.append(follower)
        while not (await follower.next("alive")).alive.address_verified:
            pass
        return follower

    async def stop(self) -> None:
        for follower in self._followers:
            follower.call.cancel()
        await self.channel.close()
        if self.server is not None:
            await self.server.stop(0)


class Follower:
    """A follow stream."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.seen: list[job_pb2.FollowJobResponse] = []
        self._coming: deque[job_pb2.FollowJobResponse] = deque()

    async def next(self, kind: str) -> job_pb2.FollowJobResponse:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                while self._coming:
                    self.seen.append(self._coming.popleft())
                    if self.seen[-1].WhichOneof("frame") == kind:
                        return self.seen[-1]
                message = await self.call.read()
                if message is grpc.aio.EOF:
                    raise EOFError(await self.call.code())
                self._coming.extend((message, *message.more))


class World:
    """A coordinator with its peers, all closed at the end."""

    def __init__(self, started: Coordinator) -> None:
        self.coordinator = started
        self.address = started.address
        self._peers: list[Device | Driver] = []
        self.effects: list[Effect] = []
        self._happened = asyncio.Event()
        for kind in typing.get_args(Effect):
            started.host.listen(kind, self._listen)
        self._admin = login(started.address, "admin").channel()
        self.admin = admin_stub(self._admin)

    def device(self, name: str = "phone-1", **options: Any) -> Device:
        device = Device(self.address, name, **options)
        self._peers.append(device)
        return device

    def driver(self, name: str = "digits", **options: Any) -> Driver:
        driver = Driver(self.address, name, **options)
        self._peers.append(driver)
        return driver

    def _listen(self, now: float, effect: Effect) -> None:
        self.effects.append(effect)
        self._happened.set()

    def of(self, kind: type[E]) -> list[E]:
        """The effects of one kind that have left so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    async def next_effect(self) -> None:
        """Wait until one more effect leaves."""
        self._happened.clear()
        async with asyncio.timeout(PATIENCE_S):
            await self._happened.wait()

    async def until(self, kind: type[E], holds: Callable[[E], bool] = lambda _: True) -> E:
        """The first effect of this kind for which it holds, had or still to come."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := [effect for effect in self.of(kind) if holds(effect)]):
                self._happened.clear()
                await self._happened.wait()
        return found[0]

    async def close(self) -> None:
        for peer in self._peers:
            await (peer.stop() if isinstance(peer, Driver) else peer.vanish())
        await self._admin.close()


@asynccontextmanager
async def world(**options: Any) -> AsyncIterator[World]:
    async with coordinator(**options) as started:
        made = World(started)
        try:
            yield made
        finally:
            await made.close()
