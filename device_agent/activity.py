"""The logs of a process that hosts devices: receipts, sessions, its own load."""

import asyncio
import time
from pathlib import Path

from device_agent.actions import LeaseKey
from device_agent.spec import Interval
from venn.v1 import common_pb2, device_pb2
from venn.wire.calls import enum_name
from venn.wire.files import JsonLines, file_error
from venn.wire.process import LagMonitor

LOAD_S = 1.0
RECEIPTS, SESSIONS, LOAD = range(3)


class ActivityLog:
    """The log files in ``folder``; without one nothing is written. Writing raises PeerError OUT_OF_SPACE."""

    def __init__(self, folder: Path | None) -> None:
        self._done = self._late = 0
        self._logs: list[JsonLines] = []  # of receipts, sessions and load; or none
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._logs = [JsonLines(folder / f"{name}.jsonl") for name in ("receipts", "sessions", "load")]
            except OSError as error:
                raise file_error(error, folder) from error

    def receipt(self, device: str, key: LeaseKey, receipt: common_pb2.Receipt, measure: device_pb2.TaskMeasure) -> None:
        """Record that a driver has answered a device, and what its task took."""
        attempt = receipt.attempt
        if self._logs:
            self._logs[RECEIPTS].write(
                {
                    "device": device,
                    "lease": key.lease,
                    "incarnation": key.incarnation,
                    "job": f"{attempt.job.owner}/{attempt.job.name}/{attempt.job.run}",
                    "round": attempt.round,
                    "attempt": attempt.attempt,
                    "outcome": _outcome(receipt.outcome),
                    "first_outcome": _outcome(receipt.first_outcome),
                    "digest": receipt.digest.hex(),
                    "compute_s": measure.compute.ToNanoseconds() / 1e9,
                    "compute_cpu_s": measure.compute_cpu.ToNanoseconds() / 1e9,
                    "held_back": measure.held_back,
                    "downloaded": measure.download_bytes,
                    "uploaded": measure.upload_bytes,
                    "at": round(time.time(), 6),
                }
            )

    def task_done(self, *, late: bool) -> None:
        """Count a task whose work is done; ``late``: after its modelled time."""
        self._done += 1
        self._late += late

    def started(self, device: str, interval: Interval) -> None:
        """Record the start of an interval."""
        self._session(device, interval, {"event": "start"})

    def ended(self, device: str, interval: Interval, how: str, *, in_task: bool) -> None:
        """Record the end of an interval; ``how``: goodbye, crash (written before it), cut, silent or stopped."""
        self._session(device, interval, {"event": "end", "how": how, "in_task": in_task})

    def counts(self) -> dict[str, int]:
        return {"tasks": self._done, "late": self._late}

    async def watch_load(self) -> None:
        """Record the load of this process each second until cancelled."""
        if not self._logs:
            return
        monitor = LagMonitor()
        async with asyncio.TaskGroup() as group:
            group.create_task(monitor.run())
            while True:
                await asyncio.sleep(LOAD_S)
                self._logs[LOAD].write(monitor.row() | {"leases_done": self._done, "leases_late": self._late})

    def close(self) -> None:
        for log in self._logs:
            log.close()

    def _session(self, device: str, interval: Interval, what: dict[str, object]) -> None:
        if self._logs:
            at = round(time.time(), 6)
            self._logs[SESSIONS].write({"device": device, "interval": interval.number, **what, "at": at})


def _outcome(outcome: common_pb2.Outcome.ValueType) -> str:
    """The name of an outcome; empty if there is none, or only a newer driver knows it."""
    known = outcome in common_pb2.Outcome.values() and outcome != common_pb2.OUTCOME_UNSPECIFIED
    return enum_name(common_pb2.Outcome, outcome) if known else ""
