"""Full device cycles per second (offer, accept, finish, next) on live streams, and memory per idle device.

The coordinator is the real program in a process of its own; the devices are bare streams in this process, so that their
cost is as small as the echo's. A cycle is two messages up (Accepted, Finished) and, with what leaves together packed
into one, one down (the acknowledgement and the next offer). The echo exchanges as many messages as the devices' streams
carried, of the same mean sizes each way, in the same rhythm, over as many streams, in the same run and in turn with the
coordinator. A message is what gRPC sends and receives as one, however many frames are in it. What the job's driver
hears and says beside is not in the echo.
"""

import asyncio
import secrets
import statistics
import time
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import psutil

from testbed.bench.bare import TURNS, bare_channels
from testbed.bench.figures import Measured, Say, in_folder, parts
from venn.v1 import common_pb2 as common
from venn.v1 import device_pb2 as device
from venn.v1 import job_pb2 as job
from venn.v1 import task_pb2 as task
from venn.wire.admission import KEY_BYTES, identify_mac, receipt_mac, this_version
from venn.wire.calls import Exchange, device_stub, job_stub
from venn.wire.channel import bind, make_server
from venn.wire.chunks import DIGEST_BYTES
from venn.wire.keys import LocalKeys, ensure_keys
from venn.wire.login import Login
from venn.wire.trust import Trust

DEVICES = 100
CYCLES = 10_000  # per repetition
REPETITIONS = 5
IDLE_DEVICES = 2_000
PLACES = 2_000  # per attempt
RECORD_EVERY_S = 0.005
LIVE_EVERY_S = 2.0
CONNECT = "/venn.v1.DeviceService/Connect"
KEY = common.JobKey(owner="bench", name="cycles", run="1")
RESPONSE = bytes(DIGEST_BYTES)  # the digest of all responses


class Driver:
    """The least that is a driver: proves its key, opens attempt after attempt, records what the devices hand it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = job_stub(channel)
        self._drive: Exchange[job.DriveRequest, job.DriveResponse] = Exchange(self._stub.Drive)
        self._key = bytes(KEY_BYTES)  # until the coordinator has said it
        self._round = 0
        self._finished: list[int] = []

    async def _identify(self, request: task.IdentifyRequest, context: object) -> task.IdentifyResponse:
        return task.IdentifyResponse(mac=identify_mac(self._key, request.challenge))

    def serve(self, server: grpc.aio.Server) -> None:
        """The one method of TaskService that is called here."""
        identify = grpc.unary_unary_rpc_method_handler(
            self._identify,
            request_deserializer=task.IdentifyRequest.FromString,
            response_serializer=task.IdentifyResponse.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler("venn.v1.TaskService", {"Identify": identify})
        server.add_generic_rpc_handlers((service,))

    async def start(self, address: str) -> None:
        answer = await self._stub.SubmitJob(submission(KEY, address))
        self._key = answer.ticket_key
        await self._open_next()

    async def follow(self) -> None:
        async for _ in self._stub.FollowJob(job.FollowJobRequest(job=KEY, driver_incarnation=1)):
            pass

    async def live(self) -> None:
        """Say something now and then, whatever there is to do."""
        while True:
            await asyncio.sleep(LIVE_EVERY_S)
            await self._stub.ReportActivity(job.ReportActivityRequest(job=KEY, driver_incarnation=1))

    async def record(self) -> None:
        """Hand over in batches, as a driver does."""
        while True:
            await asyncio.sleep(RECORD_EVERY_S)
            if not self._finished:
                continue
            batch, self._finished = self._finished, []
            request = job.RecordResponsesRequest(attempt=self._attempt(), driver_incarnation=1)
            for lease in batch:
                request.responses.add(lease=lease, outcome=common.OUTCOME_COUNTED)
            answer = await self._drive.ask(job.DriveRequest(record_responses=request))
            if answer.responses_recorded.status == job.ATTEMPT_STATUS_CLOSED:
                await self._open_next()

    def receive(self, offer: device.Offer) -> common.Receipt:
        """Count the response of a device; returns its receipt."""
        self._finished.append(offer.lease)
        mac = receipt_mac(self._key, offer.lease, common.OUTCOME_COUNTED, RESPONSE)
        return common.Receipt(
            lease=offer.lease, attempt=offer.attempt, outcome=common.OUTCOME_COUNTED, digest=RESPONSE, mac=mac
        )

    def _attempt(self) -> common.AttemptKey:
        return common.AttemptKey(job=KEY, round=self._round, attempt=1)

    async def _open_next(self) -> None:
        self._round += 1
        request = job.OpenAttemptRequest(key=self._attempt(), driver_incarnation=1, task=common.Task())
        await self._drive.ask(job.DriveRequest(open_attempt=request))


def submission(key: common.JobKey, address: str) -> job.SubmitJobRequest:
    """The request that submits a job of this benchmark. ``address``: where its driver serves."""
    spec = job.JobSpec(requirement_name="any", demand=PLACES, min_response="1", over_commit="0")
    spec.repeat = job.REPEAT_ALLOW  # few devices, many cycles
    spec.requirement.all.SetInParent()
    spec.deadline.FromSeconds(3600)
    return job.SubmitJobRequest(key=key, spec=spec, driver_incarnation=1, address=address, version=this_version())


@dataclass(slots=True)
class Traffic:
    """What went over the devices' streams."""

    up: int = 0  # messages
    up_bytes: int = 0
    down: int = 0
    down_bytes: int = 0

    def sent(self, message: bytes) -> None:
        self.up += 1
        self.up_bytes += len(message)

    def received(self, message: bytes) -> None:
        self.down += 1
        self.down_bytes += len(message)

    @property
    def messages(self) -> int:
        return self.up + self.down


class Counter:
    """Counts cycles and messages, and lets the devices work only while somebody counts."""

    def __init__(self) -> None:
        self.cycles = self._goal = 0
        self.traffic = Traffic()
        self.working = asyncio.Event()
        self._reached = asyncio.Event()

    async def until(self, more: int) -> tuple[float, Traffic]:
        """Seconds and traffic of the next ``more`` cycles; afterwards the devices pause."""
        self._reached.clear()
        self.traffic, started = Traffic(), time.perf_counter()
        self._goal = self.cycles + more
        self.working.set()
        await self._reached.wait()
        return time.perf_counter() - started, self.traffic

    def cycle(self) -> None:
        self.cycles += 1
        if self.cycles == self._goal:
            self.working.clear()
            self._reached.set()


class BenchDevice:
    """One stream, in bytes, so that what goes over it can be counted."""

    def __init__(self, channel: grpc.aio.Channel, counter: Counter) -> None:
        self._call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(CONNECT)()
        self._counter = counter

    async def work(self, name: str, driver: Driver) -> None:
        """Accept and finish one offer after the other."""
        await self._say(check_in(name))
        counter, seq = self._counter, 1
        async for offer in offers(self._heard()):
            await counter.working.wait()
            lease = offer.lease
            await self._say(device.ConnectRequest(seq=seq + 1, accepted=device.Accepted(lease=lease)))
            receipt = driver.receive(offer)
            seq += 2
            await self._say(device.ConnectRequest(seq=seq, finished=device.Finished(lease=lease, receipt=receipt)))
            counter.cycle()

    async def _say(self, frame: device.ConnectRequest) -> None:
        message = frame.SerializeToString()
        self._counter.traffic.sent(message)
        await self._call.write(message)

    async def _heard(self) -> AsyncIterator[device.ConnectResponse]:
        async for message in self._call:
            self._counter.traffic.received(message)
            yield device.ConnectResponse.FromString(message)


class Echo:
    """The bare echo: as many streams, two messages up and one down a turn."""

    def __init__(self, channels: Sequence[grpc.aio.Channel]) -> None:
        self._channels = channels
        self.exchanged = Traffic()  # the last time, timed

    async def exchange(self, traffic: Traffic) -> float:
        """Seconds for so many messages, both ways counted, of the same mean sizes."""
        turns = max(1, traffic.up // (2 * len(self._channels)))
        up = bytes(round(traffic.up_bytes / traffic.up))
        down = b"%d" % round(traffic.down_bytes / traffic.down)
        calls: list[grpc.aio.StreamStreamCall[bytes, bytes]]
        calls = [channel.stream_stream(TURNS)() for channel in self._channels]
        await asyncio.gather(*(call.write(down) for call in calls))
        await asyncio.gather(*(self._turns(call, up, 1) for call in calls))
        self.exchanged, started = Traffic(), time.perf_counter()
        await asyncio.gather(*(self._turns(call, up, turns) for call in calls))
        seconds = time.perf_counter() - started
        for call in calls:
            call.cancel()
        return seconds * traffic.messages / self.exchanged.messages

    async def _turns(self, call: grpc.aio.StreamStreamCall[bytes, bytes], up: bytes, turns: int) -> None:
        for _ in range(turns):
            await call.write(up)
            await call.write(up)
            self.exchanged.sent(up)
            self.exchanged.sent(up)
            answer = await call.read()
            assert isinstance(answer, bytes)
            self.exchanged.received(answer)


@asynccontextmanager
async def cycling(address: str, keys: LocalKeys, trust: Trust | None = None) -> AsyncIterator[Counter]:
    """Devices that work in cycles for a job of a coordinator, warm. ``trust``: None if it does not encrypt."""
    jobs = Login(address, keys.job, "job", trust).channel()
    driver, counter = Driver(jobs), Counter()
    server = make_server()
    driver.serve(server)
    served = bind(server, "127.0.0.1:0", insecure=False)
    await server.start()
    await driver.start(served)
    devices = Login(address, keys.device, "device", trust)
    channels = [devices.channel() for _ in range(DEVICES)]
    async with asyncio.TaskGroup() as group:
        background = [group.create_task(task) for task in (driver.follow(), driver.live(), driver.record())]
        for number, channel in enumerate(channels):
            background.append(group.create_task(BenchDevice(channel, counter).work(f"bench-{number}", driver)))
        await counter.until(CYCLES // 5)  # warm
        yield counter
        for running in background:
            running.cancel()
    for channel in [*channels, jobs]:
        await channel.close()
    await server.stop(0)


async def measure_cycles(address: str, keys: LocalKeys, say: Say) -> tuple[list[float], list[float]]:
    """Seconds per repetition of the coordinator and of the echo, in turn."""
    ours: list[float] = []
    bare: list[float] = []
    async with bare_channels(DEVICES) as bare_ones, cycling(address, keys) as counter:
        echo = Echo(bare_ones)
        for repetition in range(REPETITIONS):
            seconds, traffic = await counter.until(CYCLES)
            ours.append(seconds)
            bare.append(await echo.exchange(traffic))
            say(f"{repetition + 1} of {REPETITIONS}: {CYCLES / seconds:,.0f} cycles/s, echo {CYCLES / bare[-1]:,.0f}/s")
    return ours, bare


async def measure_memory(address: str, pid: int, keys: LocalKeys) -> float:
    """KiB of the coordinator's resident memory per connected idle device. A job without an attempt keeps them there."""
    jobs = Login(address, keys.job, "job").channel()
    idle = common.JobKey(owner="bench", name="idle", run="1")
    await job_stub(jobs).SubmitJob(submission(idle, "127.0.0.1:1"))
    process = psutil.Process(pid)
    before = process.memory_info().rss
    devices = Login(address, keys.device, "device")
    channels: list[grpc.aio.Channel] = []
    calls: list[grpc.aio.StreamStreamCall[device.ConnectRequest, device.ConnectResponse]] = []
    for number in range(IDLE_DEVICES):
        channels.append(devices.channel())
        calls.append(device_stub(channels[-1]).Connect())
        await calls[-1].write(check_in(f"idle-{number}"))
        await calls[-1].read()  # Welcome
    grown = process.memory_info().rss - before
    for call in calls:
        call.cancel()
    await job_stub(jobs).CancelJob(job.CancelJobRequest(job=idle, reason="measured"))
    for channel in [*channels, jobs]:
        await channel.close()
    return grown / 1024 / IDLE_DEVICES


async def _measured(folder: Path, say: Say) -> Measured:
    async with parts(folder) as running:
        keys = ensure_keys(running.keys)
        say(f"connecting {IDLE_DEVICES:,} idle devices")
        idle_kib = await measure_memory(running.address, running.coordinator.pid, keys)
        ours, bare = await measure_cycles(running.address, keys, say)
    return Measured(
        name="coordinator",
        figures={"cycles_per_s": CYCLES / statistics.median(ours), "idle_device_kib": idle_kib},
        baseline={"cycles_per_s": CYCLES / statistics.median(bare)},
        ratio=statistics.median(b / a for a, b in zip(ours, bare, strict=True)),
    )


def run(say: Say) -> Measured:
    """Measure; about a minute."""
    return in_folder(lambda folder: _measured(folder, say))


def check_in(name: str) -> device.ConnectRequest:
    frame = device.CheckIn(device=name, instance=secrets.token_bytes(16), version=this_version(), interval=1)
    frame.capabilities.numbers["cpu"] = 4.0
    frame.capabilities.numbers["memory"] = 4e9
    return device.ConnectRequest(seq=1, check_in=frame)


async def offers(messages: AsyncIterable[device.ConnectResponse]) -> AsyncIterator[device.Offer]:
    """The offers among what comes down a stream, those in ``more`` included."""
    async for message in messages:
        for frame in (message, *message.more):
            if frame.WhichOneof("frame") == "offer":
                yield frame.offer
