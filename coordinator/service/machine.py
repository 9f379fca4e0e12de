"""The coordinator's own machine: how busy it is, and how late the event loop."""

import asyncio

import psutil

from coordinator.service.convert.devices import duration
from venn.v1 import admin_pb2
from venn.wire.lag import LagMonitor

SAMPLE_S = 1.0


class Machine:
    """Samples once a second, so that asking costs nothing."""

    def __init__(self, lag: LagMonitor) -> None:
        self._lag = lag
        self._cpu_fraction = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        psutil.cpu_percent(interval=None)
        while True:
            await asyncio.sleep(SAMPLE_S)
            self._cpu_fraction = psutil.cpu_percent(interval=None) / 100

    def status(self) -> admin_pb2.HostStatus:
        memory = psutil.virtual_memory()
        return admin_pb2.HostStatus(
            cpu_fraction=self._cpu_fraction,
            memory_used_bytes=memory.total - memory.available,
            memory_total_bytes=memory.total,
            loop_lag_p99=duration(self._lag.p99_s),
        )
