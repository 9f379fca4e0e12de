"""Liveness of peers: finds sessions of devices, and follow streams of drivers, that are silent for a liveness interval.

This is kept beside the engine. So a heartbeat, which changes nothing, is neither handled nor recorded, and a replay
needs none: only the end is an event (``SessionEnded``, SILENT; ``DriverLost``).

A peer is silent if it sent nothing, not if it was not read yet. Where this process stalled for longer than a third
of the interval (it was stopped, or too busy), all peers get a new interval, counted from when it goes on. After a
shorter halt a peer that speaks every heartbeat is still within its interval.
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

    @property
    def heard_at(self) -> float:
        """Engine time of the last sign of life."""


Seq = TypeVar("Seq", bound=int)
Stream = TypeVar("Stream", bound=Watched)


class LivenessMonitor(Generic[Seq, Stream]):
    """Calls ``silent`` for each open stream whose ``heard_at`` is a liveness interval ago.

    An entry of the heap is a hint, never later than the truth: to hear a peer costs no heap operation.
    """

    def __init__(
        self,
        host: Host,
        settings: EngineSettings,
        streams: Mapping[Seq, Stream],
        silent: Callable[[Stream], None],
    ) -> None:
        self._host, self._streams, self._silent = host, streams, silent
        self._liveness_s, self._tick_s = settings.liveness_s, settings.heartbeat_s
        self._not_before = host.now() + settings.recovery_grace_s  # nobody is silent before
        self._heap: list[tuple[float, Seq]] = []
        self._looks_at: float | None = None  # when the timer is due; None: there is none

    def watch(self, seq: Seq) -> None:
        """Watch a stream from its beginning until it is closed."""
        heapq.heappush(self._heap, (self._due(self._streams[seq]), seq))
        if self._looks_at is None:
            self._set_timer(self._host.now())

    def _due(self, stream: Stream) -> float:
        return max(stream.heard_at + self._liveness_s, self._not_before)

    def _set_timer(self, now: float) -> None:
        """Set the timer at the first hint, at least once in a heartbeat, to notice that this process stalled."""
        self._looks_at = min(max(self._heap[0][0], now), now + self._tick_s)
        self._host.call_later(self._looks_at - now, self._look)

    def _look(self) -> None:
        now, planned, heap = self._host.now(), self._looks_at or 0.0, self._heap
        self._looks_at = None
        if now - planned > self._liveness_s / 3:
            self._not_before = now + self._liveness_s
        while heap and heap[0][0] <= now:
            _, seq = heapq.heappop(heap)
            stream = self._streams.get(seq)
            if stream is None or not stream.open:
                continue
            due = self._due(stream)
            if due > now:
                heapq.heappush(heap, (due, seq))
            else:
                self._silent(stream)
        if heap and not self._host.failure.done():
            self._set_timer(now)
