"""How late the event loop runs: the sign of a machine or a program that is too busy to be believed."""

import asyncio
import time
from collections import deque
from pathlib import Path

from venn.wire.files import JsonLines

PROBE_S = 0.05
WINDOW_S = 5.0
REPORT_S = 1.0


class LagMonitor:
    """Run it as a task: ``tasks.create_task(monitor.run())``. Appends {"at": Unix seconds, "lag_p99_s"} each second."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._lags: deque[tuple[float, float]] = deque()  # (loop time, seconds late), of the last 5 s, in order

    @property
    def p99_s(self) -> float:
        """The 99th percentile of how late a timer fired, over the last 5 s; 0 before the first probe."""
        ordered = sorted(late for _, late in self._lags)
        return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] if ordered else 0.0

    def _add(self, now: float, late: float) -> None:
        self._lags.append((now, max(0.0, late)))
        while self._lags[0][0] < now - WINDOW_S:
            self._lags.popleft()

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        log = JsonLines(self.path) if self.path else None
        try:
            report_at = loop.time() + REPORT_S
            while True:
                due = loop.time() + PROBE_S
                await asyncio.sleep(PROBE_S)
                self._add(loop.time(), loop.time() - due)
                if log and loop.time() >= report_at:
                    report_at = loop.time() + REPORT_S
                    log.write({"at": round(time.time(), 3), "lag_p99_s": round(self.p99_s, 6)})
        finally:
            if log:
                log.close()
