"""Who is silent: the sessions of devices that say nothing for a liveness interval.

That is kept beside the engine. So a heartbeat, which changes nothing, is neither handled nor recorded, and a replay
needs none: only the end of a silent session is an event (``SessionEnded``, SILENT).

Silence is what a device did not say, not what was not read yet. Where this process stood still for longer than a
heartbeat (it was stopped, or too busy), all devices get a new interval, counted from when it goes on.
"""

import heapq
from collections.abc import Callable, Mapping

from coordinator.engine.ids import SessionSeq
from coordinator.engine.model import EngineSettings
from coordinator.service.host import Host
from coordinator.service.sessions import Session


class Silence:
    """Calls ``silent`` for each open session whose ``heard_at`` is a liveness interval ago.

    An entry of the heap is a hint, never later than the truth: to hear a device costs no heap operation.
    """

    def __init__(
        self,
        host: Host,
        settings: EngineSettings,
        sessions: Mapping[SessionSeq, Session],
        silent: Callable[[Session], None],
    ) -> None:
        self._host, self._sessions, self._silent = host, sessions, silent
        self._liveness_s, self._tick_s = settings.liveness_s, settings.heartbeat_s
        self._not_before = host.now() + settings.recovery_grace_s  # nobody is silent before
        self._heap: list[tuple[float, SessionSeq]] = []
        self._looks_at: float | None = None  # when the timer is due; None: there is none

    def watch(self, session: Session) -> None:
        """From its check-in until it is closed."""
        heapq.heappush(self._heap, (self._due(session), session.seq))
        if self._looks_at is None:
            self._set_timer(self._host.now())

    def _due(self, session: Session) -> float:
        return max(session.heard_at + self._liveness_s, self._not_before)

    def _set_timer(self, now: float) -> None:
        """At the first hint, and at least once in a heartbeat, so as to notice that this process stood still."""
        self._looks_at = min(max(self._heap[0][0], now), now + self._tick_s)
        self._host.call_later(self._looks_at - now, self._look)

    def _look(self) -> None:
        now, planned, heap = self._host.now(), self._looks_at or 0.0, self._heap
        self._looks_at = None
        if now - planned > self._tick_s:
            self._not_before = now + self._liveness_s
        while heap and heap[0][0] <= now:
            _, seq = heapq.heappop(heap)
            session = self._sessions.get(seq)
            if session is None or not session.open:
                continue
            due = self._due(session)
            if due > now:
                heapq.heappush(heap, (due, seq))
            else:
                self._silent(session)
        if heap and not self._host.failure.done():
            self._set_timer(now)
