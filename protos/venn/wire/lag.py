"""The lag of the event loop: how late it runs, which shows a machine or a program that is too busy to be believed."""

import asyncio
import time
from collections import deque
from pathlib import Path

from venn.wire.files import JsonLines

PROBE_S = 0.05
WINDOW_S = 5.0
REPORT_S = 1.0
STALL_S = 0.050  # later than this is a stall: the process stood still


class LagMonitor:
    """Measures the lag of the loop that ``run`` is a task on, and appends ``row()`` to ``path`` each second."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._lags: deque[tuple[float, float]] = deque()  # (loop time, seconds late), of the last 5 s, in order
        self._stalls: list[tuple[float, float]] = []  # (Unix time of the end, seconds), since the last row

    @property
    def p99_s(self) -> float:
        """The 99th percentile of how late a timer fired, over the last 5 s; 0 before the first probe."""
        ordered = sorted(late for _, late in self._lags)
        return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] if ordered else 0.0

    def row(self) -> dict[str, object]:
        """A row of the log: ``at`` (Unix seconds), ``lag_p99_s``, and ``stalls`` since the last row: [Unix time of the
        end, seconds].
        """
        stalls, self._stalls = self._stalls, []
        said = [[round(at, 3), round(late, 3)] for at, late in stalls]
        return {"at": round(time.time(), 3), "lag_p99_s": round(self.p99_s, 6), "stalls": said}

    def hear(self, now: float, late: float) -> None:
        """Note a probe that came at this loop time, ``late`` seconds after it was due."""
        if late > STALL_S:
            self._stalls.append((time.time(), late))
        self._lags.append((now, max(0.0, late)))
        while self._lags[0][0] < now - WINDOW_S:
            self._lags.popleft()

    async def run(self) -> None:
        """Probe until cancelled."""
        loop = asyncio.get_running_loop()
        log = JsonLines(self.path) if self.path else None
        try:
            report_at = loop.time() + REPORT_S
            while True:
                due = loop.time() + PROBE_S
                await asyncio.sleep(PROBE_S)
                self.hear(loop.time(), loop.time() - due)
                if log and loop.time() >= report_at:
                    report_at = loop.time() + REPORT_S
                    log.write(self.row())
        finally:
            if log:
                log.close()
