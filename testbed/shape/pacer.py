"""When bytes have passed a link: one bucket for all that a device sends, one for all that it gets."""

import random

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
        """Of a round trip: each way has half of either. ``stall``: the part of its packets that hold all up behind
        them for a retransmission timeout."""
        self._rng = rng
        self.set(delay_s, jitter_s, stall)

    def set(self, delay_s: float, jitter_s: float, stall: float) -> None:
        """From now on."""
        self.mean_s, self._spread_s, self._stall = delay_s * WAY_SHARE, jitter_s * WAY_SHARE, stall

    @property
    def of_both_ways(self) -> dict[str, float]:
        """As they were set."""
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
