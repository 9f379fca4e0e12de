import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from venn.wire import process
from venn.wire.files import JsonLines, read_json_lines
from venn.wire.process import LagMonitor


class Reports(JsonLines):
    """Says when a line has been written."""

    written = asyncio.Event()

    def write(self, value: Any) -> None:
        super().write(value)
        self.written.set()


async def next_report() -> None:
    Reports.written.clear()
    await Reports.written.wait()


async def test_a_blocked_loop_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reports, "written", asyncio.Event())
    monkeypatch.setattr(process, "JsonLines", Reports)
    monkeypatch.setattr(process, "PROBE_S", 0.001)
    monkeypatch.setattr(process, "REPORT_S", 0.01)
    monitor = LagMonitor(tmp_path / "load.jsonl")
    assert monitor.p99_s == 0
    task = asyncio.create_task(monitor.run())
    await next_report()
    time.sleep(0.05)  # noqa: ASYNC251 - the block that is to be seen
    await next_report()
    task.cancel()
    await asyncio.wait([task])
    assert monitor.p99_s >= 0.04
    first, *_, last = read_json_lines(tmp_path / "load.jsonl")
    assert set(first) == {"at", "lag_p99_s", "stalls"}
    assert last["lag_p99_s"] >= 0.04


async def test_a_stall_is_told_once_with_its_end_and_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    monitor = LagMonitor()
    for now, late in ((1.0, 0.01), (2.0, 0.4), (3.0, 0.05)):
        monitor.note(now, late)
    assert monitor.row()["stalls"] == [[1_000.0, 0.4]]
    assert monitor.row()["stalls"] == []


async def test_without_a_file() -> None:
    task = asyncio.create_task(LagMonitor().run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
