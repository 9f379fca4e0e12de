"""The monitor of this machine: it samples each second how busy it is, warns, and keeps the samples for the report."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from testbed.report.host import (
    AGAIN,
    BUSY_FOR_S,
    BUSY_FRACTION,
    LATE_LIMIT,
    LONGEST_STALL_S,
    OURSELVES,
    SAMPLE_S,
    is_limited_container,
)
from testbed.runfolder.jsonlines import Row, integer, number_pairs
from venn.wire.files import JsonLines
from venn.wire.process import LagMonitor

MOST_LINE = 4096  # bytes of two lines of a load.jsonl


@dataclass(frozen=True, slots=True)
class Sample:
    """How busy this machine was for a second."""

    at: float  # Unix seconds
    cpu_fraction: float  # 0 to 1, all cores
    memory_used_bytes: int
    load: Row = field(default_factory=dict)  # of the event loop of this process: a row of ``LagMonitor``


class HostMonitor:
    """Write samples into ``path``; call ``warn`` once for each kind of trouble."""

    def __init__(
        self,
        path: Path,
        run_folder: Path,
        warn: Callable[[str], None],
        still: Collection[str] = (),
        begins: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``still``: devices, jobs or the coordinator, where the timeline suspends them: late on purpose.
        ``begins``: Unix time from which on it matters; before, parts are being started.
        """
        self._path = path
        self._folder = run_folder
        self._warn, self._still, self._begins = warn, still, begins
        self._warned: set[str] = set()
        self._recent: deque[float] = deque(maxlen=BUSY_FOR_S)
        self._stalls: dict[str, deque[float]] = {}  # by process: Unix times at which the latest ended

    async def run(self) -> None:
        """Sample until cancelled. Raises PeerError when the disk is full."""
        psutil.cpu_percent()
        lag = LagMonitor()
        own = asyncio.create_task(lag.run())
        try:
            with JsonLines(self._path) as lines:
                while True:
                    await asyncio.sleep(SAMPLE_S)
                    used = psutil.virtual_memory().used
                    sample = Sample(time.time(), psutil.cpu_percent() / 100, used, lag.row())
                    lines.write(
                        {
                            **sample.load,
                            "cpu_fraction": round(sample.cpu_fraction, 3),
                            "memory_used_bytes": sample.memory_used_bytes,
                        }
                    )
                    self.judge(sample)
        finally:
            own.cancel()

    def judge(self, sample: Sample) -> None:
        """Judge the next sample, a second after the one before."""
        if sample.at < self._begins():
            return
        self._recent.append(sample.cpu_fraction)
        if len(self._recent) == BUSY_FOR_S and min(self._recent) > BUSY_FRACTION:
            self._say("cpu", f"the processor is over {BUSY_FRACTION:.0%} busy: do not trust this run's times")
        for name, load in (OURSELVES, sample.load), *self._loads():
            self._judge_stalls(name, load)
            done = integer(load, "leases_done")
            if done >= 50 and integer(load, "leases_late") > LATE_LIMIT * done:
                self._say(
                    f"late {name}", f"more than {LATE_LIMIT:.0%} of the tasks on {name} ran past their modelled time"
                )

    def _judge_stalls(self, name: str, load: Row) -> None:
        """Warn of long and of repeated stalls. Each counts once, even if its row is read twice."""
        known = self._stalls.setdefault(name, deque(maxlen=AGAIN))
        for end, late in number_pairs(load.get("stalls")):
            if end < self._begins() or (known and end <= known[-1]):
                continue
            known.append(end)
            if late > LONGEST_STALL_S:
                self._say(f"stall {name}", f"{name} stalled for {late:.1f} s: do not trust this run's times")
            elif len(known) == AGAIN and end - known[0] <= BUSY_FOR_S:
                text = f"{name} stalls repeatedly, for {late * 1000:.0f} ms now: this machine is too busy"
                self._say(f"stall {name}", text)

    def _say(self, key: str, text: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            self._warn(text)

    def _loads(self) -> list[tuple[str, Row]]:
        """The latest line of each process's load.jsonl, named by its folder."""
        loads = []
        for path in sorted(self._folder.glob("**/load.jsonl")):
            if is_limited_container(path.parent):
                continue
            last = _last_line(path)
            name = "coordinator" if path.parent == self._folder else path.parent.name
            if last is not None and name not in self._still:
                loads.append((name, last))
        return loads


def _last_line(path: Path) -> Row | None:
    """The last whole line, without reading the file."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - MOST_LINE))
            lines = file.read().split(b"\n")
        value = json.loads(lines[-2])
    except (OSError, IndexError, ValueError):
        return None
    return value if isinstance(value, dict) else None
