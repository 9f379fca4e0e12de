"""How busy this machine is while a run goes on: sampled each second, warned of live, kept for the report."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import psutil

from testbed.report.emulation import is_slow_as_a_whole
from venn.wire.files import JsonLines
from venn.wire.lag import LagMonitor

SAMPLE_S = 1.0
BUSY_FRACTION = 0.85  # of all cores ...
BUSY_FOR_S = 5  # ... for so long
LAG_LIMIT_S = 0.050  # p99 of an event loop of ours
LATE_LIMIT = 0.02  # of leases whose modelled time was over before their work was
OURSELVES = "venn run"


@dataclass(frozen=True, slots=True)
class Sample:
    at: float  # Unix seconds
    cpu_fraction: float  # 0 to 1, all cores
    memory_used_bytes: int
    lag_p99_s: float = 0.0  # of the event loop of this process


class HostMonitor:
    """Samples into ``path``; calls ``warn`` once for each kind of trouble."""

    def __init__(self, path: Path, run_folder: Path, warn: Callable[[str], None], still: Collection[str] = ()) -> None:
        """``still``: devices, jobs or the coordinator, where the timeline lets them stand still: late on purpose."""
        self._path = path
        self._folder = run_folder
        self._warn, self._still = warn, still
        self._warned: set[str] = set()
        self._recent: deque[float] = deque(maxlen=BUSY_FOR_S)

    async def run(self) -> None:
        """Until cancelled. Raises PeerError when the disk is full."""
        psutil.cpu_percent()
        lag = LagMonitor()
        own = asyncio.create_task(lag.run())
        try:
            with JsonLines(self._path) as lines:
                while True:
                    await asyncio.sleep(SAMPLE_S)
                    used = psutil.virtual_memory().used
                    sample = Sample(time.time(), psutil.cpu_percent() / 100, used, lag.p99_s)
                    lines.write(
                        {
                            "at": sample.at,
                            "cpu_fraction": round(sample.cpu_fraction, 3),
                            "memory_used_bytes": sample.memory_used_bytes,
                            "lag_p99_s": round(sample.lag_p99_s, 6),
                        }
                    )
                    self.judge(sample)
        finally:
            own.cancel()

    def judge(self, sample: Sample) -> None:
        """The next sample, a second after the one before."""
        self._recent.append(sample.cpu_fraction)
        if len(self._recent) == BUSY_FOR_S and min(self._recent) > BUSY_FRACTION:
            self._say("cpu", f"the processor is over {BUSY_FRACTION:.0%} busy: do not trust this run's times")
        for name, load in (OURSELVES, {"lag_p99_s": sample.lag_p99_s}), *self._loads():
            lag = load.get("lag_p99_s", 0.0)
            if lag > LAG_LIMIT_S:
                self._say(f"lag {name}", f"the event loop of {name} is late by {lag * 1000:.0f} ms (p99)")
            done = load.get("leases_done", 0)
            if done >= 50 and load.get("leases_late", 0) > LATE_LIMIT * done:
                self._say(
                    f"late {name}", f"more than {LATE_LIMIT:.0%} of the tasks on {name} ran past their modelled time"
                )

    def _say(self, key: str, text: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            self._warn(text)

    def _loads(self) -> list[tuple[str, dict[str, float]]]:
        """The latest line of each process's load.jsonl, named by its folder."""
        loads = []
        for path in sorted(self._folder.glob("**/load.jsonl")):
            if is_slow_as_a_whole(path.parent):
                continue
            last = _last_line(path)
            name = "coordinator" if path.parent == self._folder else path.parent.name
            if last is not None and name not in self._still:
                loads.append((name, last))
        return loads


def _last_line(path: Path) -> dict[str, float] | None:
    """The last whole line, without reading the file."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 512))
            lines = file.read().split(b"\n")
        value = json.loads(lines[-2])
    except (OSError, IndexError, ValueError):
        return None
    return value if isinstance(value, dict) else None
