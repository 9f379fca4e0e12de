"""Links of limited rate: when bytes have passed, and how long a task takes over one.

``Pacer`` and ``Delay`` hold the bytes of a real device back, one of each for each direction. The rest is arithmetic for
simulated devices: a task is what passes between a device and its job's driver, message by message, over the link as it
is then:

    down  the offer
    down  the driver's greeting, where no connection to it is open
    up    the request for the code; down, the code: where the device does not have it
    up    the request for the model; down, the model
          the device computes
    up    the response's header; down, that it may go on: where the response does not go with it, because it is large
    up    the response, and its driver has it
    down  the receipt
    up    that the task is finished, and the device is free

So the response takes two round trips, one more if it is large, half of one on a new connection and one with the code,
and the device is free after another. A message takes its bytes over the rate of its direction, as the link is
meanwhile, and then half of the delay, as the link is when its last byte has left.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import count

from coordinator.engine.chance import Purpose, draw, fraction
from coordinator.engine.model import Workload
from testbed.world.limits import Limits
from venn.wire.chunks import SMALL_BYTES

BURST_S = 0.010  # of its rate may pass at once; it also makes up for timers that ring late
LEAST_CHUNK, MOST_CHUNK = 1400, 65_536  # bytes that pass as one
WAY_SHARE = 0.5  # of a round trip's delay
STALL_S = 0.2  # the shortest retransmission timeout of Linux
PACKET = 1448  # bytes of a packet's payload


class Pacer:
    """One direction of one device's link. Times are of any one clock that never goes back."""

    def __init__(self, rate_bits: float | None) -> None:
        """Bits per second, above 0; None: no limit."""
        self.rate_bits = rate_bits
        self._free_at = float("-inf")

    @property
    def chunk(self) -> int:
        """Bytes to take at a time: what passes in a burst, so that a heartbeat never waits long behind an upload."""
        if self.rate_bits is None:
            return MOST_CHUNK
        return max(LEAST_CHUNK, min(MOST_CHUNK, int(self.rate_bits / 8 * BURST_S)))

    def book(self, size: int, now: float) -> float:
        """When so many bytes, which want to pass now, have passed: first come, first served."""
        if self.rate_bits is None:
            return now
        self._free_at = max(self._free_at, now - BURST_S) + size * 8 / self.rate_bits
        return max(now, self._free_at)


class Delay:
    """How long one direction takes beyond its rate; what is sent first arrives first."""

    def __init__(self, delay_s: float, jitter_s: float, rng: random.Random, *, stall: float = 0.0) -> None:
        """Set times of a round trip: each way has half. ``stall``: the part of its packets that hold all up behind
        them for a retransmission timeout."""
        self._rng = rng
        self.set(delay_s, jitter_s, stall)

    def set(self, delay_s: float, jitter_s: float, stall: float) -> None:
        """Set the times from now on."""
        self.mean_s, self._spread_s, self._stall = delay_s * WAY_SHARE, jitter_s * WAY_SHARE, stall

    @property
    def of_both_ways(self) -> dict[str, float]:
        """The times of a round trip, as they were set."""
        return {"delay_s": self.mean_s / WAY_SHARE, "jitter_s": self._spread_s / WAY_SHARE, "stall": self._stall}

    @property
    def most_s(self) -> float:
        return self.mean_s + self._spread_s

    def arrival(self, size: int, left_at: float, before: float) -> float:
        """When so many bytes that left then arrive, not before what left earlier."""
        spread = self._rng.uniform(-self._spread_s, self._spread_s) if self._spread_s else 0.0
        packets = -(-size // PACKET)
        stalls = self._stall > 0 and self._rng.random() > (1 - self._stall) ** packets
        return max(before, left_at + max(0.0, self.mean_s + spread) + (STALL_S + 2 * self.mean_s) * stalls)


LEAST_ROUND_TRIP_S = 0.001  # of a link without a delay, for what loss makes of its rate


class Way(StrEnum):
    """A direction of a link, as the device has it."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Message:
    """Something that passes a link, all at once."""

    way: Way
    size: int  # bytes


# What is said beside model, response and code, as it was measured on a link, HTTP/2 and all, in tens of bytes.
OFFER = Message(Way.DOWN, 370)
GREETING = Message(Way.DOWN, 40)
REQUEST = Message(Way.UP, 260)  # behind it that the offer is accepted
CODE = Message(Way.DOWN, 70)  # without the code itself, whose size nobody states
HEADER = Message(Way.UP, 200)
PROCEED = Message(Way.DOWN, 50)
RECEIPT = Message(Way.DOWN, 150)
FINISHED = Message(Way.UP, 140)
FRAMES = 60  # bytes around a model, or a large response

CONNECT = (GREETING,)
FETCH_CODE = (REQUEST, CODE)


@dataclass(frozen=True, slots=True)
class LinkSchedule:
    """A device's link over time: ``limits[i]`` hold from ``starts[i]`` on, until the next ones do."""

    starts: tuple[float, ...]  # ascending; the first is -inf
    limits: tuple[Limits, ...]

    def at(self, when: float) -> Limits:
        return self.limits[bisect_right(self.starts, when) - 1]

    def left(self, message: Message, at: float) -> float:
        """When the last byte of what begins to leave at ``at`` has left."""
        bytes_left = float(message.size)
        number = bisect_right(self.starts, at) - 1
        while True:
            speed = rate(self.limits[number], message.way)
            until = self.starts[number + 1] if number + 1 < len(self.starts) else math.inf
            needed_s = bytes_left / speed
            if at + needed_s <= until:
                return at + needed_s
            bytes_left = max(0.0, bytes_left - (until - at) * speed)
            at, number = until, number + 1


def link_schedule(limits: Limits, changes: Sequence[tuple[float, float, Limits]]) -> LinkSchedule:
    """The schedule of a link with ``limits``, but others from ``changes[i][0]`` to ``changes[i][1]``, in order."""
    starts, held = [-math.inf], [limits]
    for since, until, other in changes:
        if since == starts[-1]:  # what was before ends as this begins
            starts.pop()
            held.pop()
        starts += [since, until]
        held += [other, limits]
    return LinkSchedule(tuple(starts), tuple(held))


def rate(limits: Limits, way: Way) -> float:
    """Bytes per second that a transfer gets; inf: no limit."""
    bits = limits.up_bits if way is Way.UP else limits.down_bits
    allowed = math.inf if bits is None else bits / 8
    if limits.loss == 0:
        return allowed
    return min(allowed, tcp_rate(limits.loss, max(limits.delay_s, LEAST_ROUND_TRIP_S)))


def tcp_rate(loss: float, round_trip_s: float) -> float:
    """Bytes per second of TCP where so many of the packets are lost, 0 < loss < 1.

    Padhye et al. 1998 as RFC 5348 (3.1) has it, each packet acknowledged, with Linux's retransmission timeout.
    """
    timeout_s = STALL_S + round_trip_s
    per_packet_s = round_trip_s * math.sqrt(2 * loss / 3)
    per_packet_s += timeout_s * 3 * math.sqrt(3 * loss / 8) * loss * (1 + 32 * loss * loss)
    return PACKET / per_packet_s


def task_end(
    link: LinkSchedule,
    at: float,
    work: Workload,
    seconds: float,
    *,
    first: Sequence[Message],
    chance: Iterator[float],
) -> float:
    """When the driver has all of the response to a lease that was granted at ``at``.

    ``seconds`` are those that the device computes, and ``first`` the messages of a first contact.
    """
    before = (OFFER, *first, REQUEST, Message(Way.DOWN, work.download_bytes + FRAMES))
    after = [Message(Way.UP, HEADER.size + work.upload_bytes)]
    if work.upload_bytes > SMALL_BYTES:
        after = [HEADER, PROCEED, Message(Way.UP, work.upload_bytes + FRAMES)]
    at = arrival(link, before, at, chance)
    return arrival(link, after, at + seconds, chance)


def free_at(link: LinkSchedule, at: float, chance: Iterator[float]) -> float:
    """When a device may be given another task whose driver has its response at ``at``."""
    return arrival(link, (RECEIPT, FINISHED), at, chance)


def arrival(link: LinkSchedule, messages: Sequence[Message], at: float, chance: Iterator[float]) -> float:
    """When the last of them is there, if each is sent when the one before is there. ``chance``: uniform in [0, 1)."""
    for message in messages:
        left = link.left(message, at)
        limits = link.at(left)
        at = left + _way_s(limits, next(chance)) + _stalls_s(limits, next(chance))
    return at


def _way_s(limits: Limits, chance: float) -> float:
    """Half the delay, and as much of the jitter up or down."""
    return WAY_SHARE * (limits.delay_s + limits.jitter_s * (2 * chance - 1))


def _stalls_s(limits: Limits, chance: float) -> float:
    """A message that is lost is sent again after a retransmission timeout, until it comes through."""
    if limits.loss == 0:
        return 0.0
    times = int(math.log(1 - chance) / math.log(limits.loss))
    return times * (STALL_S + limits.delay_s)


class Part(IntEnum):
    """What chances are for."""

    TASK = 1
    RECEIPT = 2


def chances(seed: int, lease: int, part: Part) -> Iterator[float]:
    """Uniform in [0, 1), the same whatever else happens."""
    return (fraction(draw(seed, Purpose.LINK, lease, part, number)) for number in count())
