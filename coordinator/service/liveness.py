"""Liveness of peers: finds sessions of devices, and follow streams of drivers, that are silent for a liveness interval.

This is kept beside the engine. So a heartbeat, which changes nothing, is neither handled nor recorded, and a replay
needs none: only the end is an event (``SessionEnded``, SILENT; ``DriverLost``).

A peer is silent if it sent nothing, not if it was not read yet. Where this process stalled for longer than a third
of the interval (it was stopped, or too busy), all peers get a new interval, counted from when it goes on. After a
shorter halt a peer that speaks every heartbeat is still within its interval.

Peers may have longer intervals of their own (``pace``), and get shorter ones again. So each is looked at once in a
liveness interval, whatever its own is.
"""

import heapq
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from coordinator.engine.model import EngineSettings
from coordinator.service.host import Host


class Watched(Protocol):
    """A stream that may fall silent."""

    @property
    def open(self) -> bool: ...


Seq = TypeVar("Seq", bound=int)
Stream = TypeVar("Stream", bound=Watched)


class LivenessMonitor(Generic[Seq, Stream]):
    """Calls ``silent`` for each open stream from which nothing was heard until ``silent_at`` (engine time): its last
    sign of life, and its interval, which is at least a liveness interval.

    An entry of the heap is a hint, never later than the truth: to hear a peer costs no heap operation, and an interval
    that gets shorter costs none either, for it is never under a liveness interval from a sign of life.
    """

    def __init__(
        self,
        host: Host,
        settings: EngineSettings,
        streams: Mapping[Seq, Stream],
        silent_at: Callable[[Stream], float],
        silent: Callable[[Stream], None],
    ) -> None:
        self._host, self._streams, self._silent_at, self._silent = host, streams, silent_at, silent
        self._liveness_s, self._tick_s = settings.liveness_s, settings.heartbeat_s
        self._not_before = host.now() + settings.recovery_grace_s  # nobody is silent before
        self._heap: list[tuple[float, Seq]] = []
        self._looks_at: float | None = None  # when the timer is due; None: there is none

    def watch(self, seq: Seq) -> None:
        """Watch a stream from its beginning until it is closed."""
        now = self._host.now()
        self._look_again(seq, self._streams[seq], now)
        if self._looks_at is None:
            self._set_timer(now)

    def _due(self, stream: Stream) -> float:
        return max(self._silent_at(stream), self._not_before)

    def _look_again(self, seq: Seq, stream: Stream, now: float) -> None:
        heapq.heappush(self._heap, (min(self._due(stream), max(now + self._liveness_s, self._not_before)), seq))

    def _set_timer(self, now: float) -> None:
        """Set the timer at the first hint, at least once in a heartbeat, to notice that this process stalled."""
        self._looks_at = min(max(self._heap[0][0], now), now + self._tick_s)
        self._host.call_later(self._looks_at - now, self._look)

    def _look(self) -> None:
        now, planned, heap = self._host.now(), self._looks_at or 0.0, self._heap
        self._looks_at = None
        if now - planned > self._liveness_s / 3 or self._host.full:  # or nobody is read, until the disk has space
            self._not_before = now + self._liveness_s
        while heap and heap[0][0] <= now:
            _, seq = heapq.heappop(heap)
            stream = self._streams.get(seq)
            if stream is None or not stream.open:
                continue
            if self._due(stream) > now:
                self._look_again(seq, stream, now)
            else:
                self._silent(stream)
        if heap and not self._host.failure.done():
            self._set_timer(now)
