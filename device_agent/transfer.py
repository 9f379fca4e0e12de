"""A device and a driver: artifacts down, a response up; both in chunks, both resumed where they were cut. What is small
travels whole.

What a driver that is away says (UNAVAILABLE, a stream that ends) is tried again with jitter until the lease ends. A
driver that this lease never reached is given up sooner, so that its place goes to a device that can.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from device_agent.actions import LeaseOver, TaskFailed
from device_agent.artifacts import ArtifactStore, Damaged, Download
from venn.v1 import common_pb2, task_pb2
from venn.wire import chunks
from venn.wire.admission import this_version
from venn.wire.calls import Backoff, Exchange
from venn.wire.channel import is_loopback
from venn.wire.status import peer_error, reason_of
from venn.wire.trust import Trust, driver_trust, open_trusted

FIRST_CONTACT_S = 10.0  # to reach the driver at all, from the first transfer on; at most a third of the lease
DAMAGED_TRIES = 3  # transfers that end in damaged bytes

AWAY = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
    }
)
SPACE = frozenset({"OUT_OF_SPACE"})

# Called without protobuf's copies.
FETCH, SUBMIT, EXCHANGE = (f"/venn.v1.TaskService/{name}" for name in ("Fetch", "Submit", "Exchange"))

T = TypeVar("T")
M = TypeVar("M", bound=Message)


class Response(NamedTuple):
    """The response of a task."""

    body: bytes
    digest: bytes
    weight: float
    metrics: dict[str, float]


class _Connection:
    """A channel to one driver, and the exchange on it."""

    def __init__(self, address: str, trust: Trust | None, proxy: str | None) -> None:
        self.trust = trust
        self.channel = open_trusted(address, trust, proxy=proxy)
        begin: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self.channel.stream_stream(EXCHANGE)
        self.exchange: Exchange[bytes, bytes] = Exchange(begin)

    async def close(self, grace: float | None = None) -> None:
        """Close the channel; ``grace``: seconds for the transfers under way."""
        self.exchange.end()
        await self.channel.close(grace)


class Drivers:
    """A device's connections to drivers, kept while it is connected: one per address, the latest few.

    While ``reach`` is not set, transfers stand still.
    """

    MOST = 4

    def __init__(
        self,
        reach: asyncio.Event,
        proxy: str | None = None,
        *,
        insecure: bool = False,
        sign: Callable[[common_pb2.Ticket, bytes], common_pb2.Ticket] | None = None,
    ) -> None:
        """``insecure``: drivers of other machines need not encrypt. ``sign`` makes of a ticket what the driver with
        that certificate is shown; None: drivers here do not ask for that.
        """
        self.reach, self._proxy, self._insecure, self._sign = reach, proxy, insecure, sign
        self._connections: dict[str, _Connection] = {}
        self._certificates: dict[str, bytes] = {}  # by address: of drivers that encrypt, the latest few
        self._trust: dict[str, Trust] = {}  # in these certificates

    def expect(self, address: str, certificate: bytes, job: str) -> None:
        """Trust only the driver of this job with this certificate at an address; without one, nothing is encrypted
        there.
        """
        self._trust.pop(address, None)
        self._certificates.pop(address, None)
        if certificate:
            self._trust[address], self._certificates[address] = driver_trust(certificate, job), certificate
        if len(self._trust) > 2 * self.MOST:
            oldest = next(iter(self._trust))
            del self._trust[oldest], self._certificates[oldest]

    def shown(self, ticket: common_pb2.Ticket, address: str) -> common_pb2.Ticket:
        """The ticket as the driver at this address is shown it."""
        return ticket if self._sign is None else self._sign(ticket, self._certificates.get(address, b""))

    async def channel(self, address: str) -> grpc.aio.Channel:
        """The channel to the driver at this address."""
        return (await self._connection(address)).channel

    async def ask(self, address: str, request: bytes) -> bytes:
        """Ask a driver for something small; returns its answer, serialised."""
        answer = await (await self._connection(address)).exchange.ask(request)
        await self.reach.wait()
        return answer

    async def drop(self, address: str) -> None:
        """Drop the connection to a driver that is away: the next call dials at once, without gRPC's own backoff."""
        if connection := self._connections.pop(address, None):
            await connection.close()

    async def close(self) -> None:
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()

    async def _connection(self, address: str) -> _Connection:
        await self.reach.wait()
        trust = self._trust.get(address)
        if trust is None and not self._insecure and not is_loopback(address):
            raise TaskFailed(
                common_pb2.PHASE_FETCH,
                common_pb2.FAILURE_REASON_DRIVER_UNREACHABLE,
                f"driver at {address}: it does not encrypt, and this device was not told --insecure",
            )
        connection = self._connections.pop(address, None)
        if connection is not None and connection.trust != trust:
            await connection.close()
            connection = None
        connection = connection or _Connection(address, trust, self._proxy)
        self._connections[address] = connection  # the latest at the end
        if len(self._connections) > self.MOST:
            oldest = next(iter(self._connections))
            await self._connections.pop(oldest).close(grace=FIRST_CONTACT_S)
        return connection


class Transfer:
    """The transfers of one lease. It ends at ``ends_at`` (the loop's time), or at most ``grace_s`` later if its driver
    is away meanwhile.
    """

    def __init__(
        self,
        drivers: Drivers,
        address: str,
        ticket: common_pb2.Ticket,
        *,
        lease: int,
        ends_at: float,
        grace_s: float = 0.0,
        rng: random.Random,
    ) -> None:
        self.address = address
        self.downloaded = self.uploaded = 0  # bytes, those that were sent again included
        self._drivers, self._offered, self._lease, self._rng = drivers, ticket, lease, rng
        self._ticket = drivers.shown(ticket, address)
        self._last_try = ends_at + grace_s
        lease_s = max(0.0, ends_at - asyncio.get_running_loop().time())
        self._first_contact_s = min(FIRST_CONTACT_S, lease_s / 3)
        self._reach_by = math.inf  # the loop's time, once a transfer has begun
        self._reached = False
        self._patience = asyncio.timeout_at(None)  # of the transfer under way, until the driver answers
        self._under_way = self._moved = False  # a try; the driver moved in the middle of it

    def move(self, address: str) -> None:
        """Go on with the driver at another address (Redirect); a transfer that waits goes on there at once."""
        if address != self.address:
            self.address, self._moved = address, self._under_way
            self._ticket = self._drivers.shown(self._offered, address)
            if self._under_way and not self._patience.expired():
                self._patience.reschedule(asyncio.get_running_loop().time())

    async def fetch(self, artifact: common_pb2.Artifact, store: ArtifactStore) -> bytes:
        """Fetch an artifact, and check it. Raises TaskFailed or LeaseOver.

        It is taken from the store if another device of this process fetched it meanwhile; the bytes still travel.
        """
        download = Download(artifact, store, self.address)
        return await self._persist(lambda: self._fetch(download), common_pb2.PHASE_FETCH)

    async def submit(self, response: Response, moved: Callable[[int], None]) -> common_pb2.Receipt:
        """Hand the response over; ``moved`` hears how many bytes the driver has. Raises TaskFailed or LeaseOver."""
        header = task_pb2.SubmitHeader(
            ticket=self._ticket,
            version=this_version(),
            covers=[task_pb2.Cover(lease=self._lease, weight=response.weight)],
            total_bytes=len(response.body),
            digest=response.digest,
            metrics=response.metrics,
        )
        return await self._persist(lambda: self._submit(header, response.body, moved), common_pb2.PHASE_SUBMIT)

    async def _persist(self, transfer: Callable[[], Awaitable[T]], phase: common_pb2.Phase.ValueType) -> T:
        """Try until it is done, the lease is over, or trying again would change nothing."""
        backoff, damaged = Backoff(self._rng, most_s=2.0), 0
        self._reach_by = min(self._reach_by, asyncio.get_running_loop().time() + self._first_contact_s)
        while True:
            address, self._moved = self.address, False
            try:
                async with asyncio.timeout_at(None if self._reached else self._reach_by) as self._patience:
                    self._under_way = True
                    try:
                        return await transfer()
                    finally:
                        self._under_way = False
            except Damaged as error:
                damaged += 1
                if damaged == DAMAGED_TRIES:
                    raise TaskFailed(phase, common_pb2.FAILURE_REASON_TRANSFER_FAILED, str(error)) from error
            except TimeoutError as error:
                if self._moved:
                    await self._drivers.drop(address)
                    self._reach_by = asyncio.get_running_loop().time() + self._first_contact_s
                    continue
                message = f"driver at {self.address}: it does not answer"
                raise TaskFailed(phase, common_pb2.FAILURE_REASON_DRIVER_UNREACHABLE, message) from error
            except grpc.aio.AioRpcError as error:
                self._give_up(error, phase)
                await self._drivers.drop(address)
            await self._pause(backoff.next_s(), phase)

    def _give_up(self, error: grpc.aio.AioRpcError, phase: common_pb2.Phase.ValueType) -> None:
        """Raise TaskFailed unless it is worth trying again."""
        said = peer_error(error, where=f"driver at {self.address}")
        if error.code() not in AWAY:
            full = reason_of(error) in SPACE
            reason = common_pb2.FAILURE_REASON_OUT_OF_SPACE if full else common_pb2.FAILURE_REASON_TRANSFER_FAILED
            raise TaskFailed(phase, reason, str(said)) from error
        if not self._reached and asyncio.get_running_loop().time() > self._reach_by:
            raise TaskFailed(phase, common_pb2.FAILURE_REASON_DRIVER_UNREACHABLE, str(said)) from error

    def _heard(self) -> None:
        """Note that the driver has answered: from now on it may take its time."""
        if not self._reached:
            self._reached = True
            self._patience.reschedule(None)

    async def _pause(self, seconds: float, phase: common_pb2.Phase.ValueType) -> None:
        until = self._last_try if self._reached else min(self._last_try, self._reach_by)
        left = until - asyncio.get_running_loop().time()
        if left <= 0 and self._reached:
            raise LeaseOver(phase)
        await asyncio.sleep(max(0.0, min(seconds, left)))

    # -- down

    async def _fetch(self, download: Download) -> bytes:
        if download.whole:  # the driver moved while the last of it was checked
            return await download.close()
        request = task_pb2.FetchRequest(
            ticket=self._ticket, version=this_version(), digest=download.digest, offset=download.offset
        )
        if download.small:
            answer = await self._ask(task_pb2.ExchangeRequest(fetch=request))
            self.downloaded += download.take_parsed(answer.fetched)
            return await download.close()
        channel = await self._drivers.channel(self.address)
        fetch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(FETCH)
        call = fetch(request.SerializeToString())
        try:
            async for message in call:
                await self._drivers.reach.wait()
                self._heard()
                self.downloaded += download.take(message)
        finally:
            call.cancel()
        return await download.close()

    # -- up

    async def _submit(
        self, header: task_pb2.SubmitHeader, body: bytes, moved: Callable[[int], None]
    ) -> common_pb2.Receipt:
        # Whole to a driver that is known to be there; and once: it may have it then, or the link is too slow for that.
        if len(body) <= chunks.SMALL_BYTES and self._reached and not self.uploaded:
            whole = task_pb2.ExchangeRequest(submit=header)
            whole.submit.body = body
            self.uploaded = len(body)
            said = await self._ask(whole)
            if said.HasField("receipt"):
                return said.receipt
            raise Damaged("the driver answered a whole response without a receipt")
        channel = await self._drivers.channel(self.address)
        submit: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(SUBMIT)
        call = submit()
        try:
            await call.write(task_pb2.SubmitRequest(header=header).SerializeToString())
            sent = -1  # nothing before the driver says from where
            async for message in call:
                await self._drivers.reach.wait()
                self._heard()
                answer = _parsed(task_pb2.SubmitResponse, message)
                if answer.WhichOneof("frame") == "receipt":
                    return answer.receipt
                offset = answer.proceed.offset
                moved(offset)
                sent = offset if sent < 0 else max(sent, offset)
                for data in chunks.pieces(body, sent, offset + answer.proceed.credit_bytes):
                    await self._drivers.reach.wait()
                    await call.write(chunks.submit_request(sent, data))
                    sent += len(data)
                    self.uploaded += len(data)
        except asyncio.InvalidStateError:  # it ended while we wrote: its status says why
            async for message in call:
                if (answer := _parsed(task_pb2.SubmitResponse, message)).HasField("receipt"):
                    return answer.receipt
        finally:
            call.cancel()
        raise Damaged("the driver ended the stream without a receipt")

    # -- both

    async def _ask(self, request: task_pb2.ExchangeRequest) -> task_pb2.ExchangeResponse:
        """Send one message and return the one that answers it."""
        answer = await self._drivers.ask(self.address, request.SerializeToString())
        self._heard()
        return _parsed(task_pb2.ExchangeResponse, answer)


def _parsed(kind: type[M], message: bytes) -> M:
    """Parse a message. Raises Damaged."""
    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise Damaged(str(error)) from error
