"""The pace of devices without a task: slower the more there are, so that their heartbeats have a bounded rate.

The rule is pure. A device is told its pace in the Welcome, and another one in answer to a heartbeat once the number of
devices has changed by enough.
"""

from dataclasses import dataclass

from coordinator.engine.model import EngineSettings
from coordinator.service.bounds import CoordinatorBounds
from coordinator.service.convert.devices import duration
from venn.v1 import device_pb2

SOONER = 0.875  # devices spread: the mean part of its interval after which one speaks
AHEAD = 1.25  # an interval is longer than needed by this factor, so that it holds while the fleet grows
SLACK = 2.0  # one that is longer than needed by no more than this factor is left alone
LONGEST_S = 600.0
SILENT_AFTER = 3  # intervals
LONGEST_RECONNECT_S = 30.0


@dataclass(frozen=True, slots=True)
class Pacer:
    """The rule for one coordinator."""

    heartbeat_s: float
    liveness_s: float
    bounds: CoordinatorBounds

    @staticmethod
    def of(settings: EngineSettings, bounds: CoordinatorBounds) -> "Pacer":
        return Pacer(settings.heartbeat_s, settings.liveness_s, bounds)

    def interval_s(self, devices: int, told_s: float = 0.0) -> float:
        """The seconds between heartbeats of a device without a task, among so many; ``told_s``: what it was told last,
        which stays if it is neither too short nor much too long.
        """
        needed_s = min(LONGEST_S, max(self.heartbeat_s, devices / self.bounds.heartbeats / SOONER))
        if needed_s <= told_s <= SLACK * needed_s:
            return told_s
        return min(LONGEST_S, AHEAD * needed_s) if needed_s > self.heartbeat_s else self.heartbeat_s

    def silence_s(self, interval_s: float) -> float:
        """The seconds without a sign of life after which a device of this interval, without a task, is silent."""
        return max(self.liveness_s, SILENT_AFTER * interval_s)

    def frame(self, devices: int, interval_s: float) -> device_pb2.Pace:
        """What the device is told."""
        return device_pb2.Pace(
            heartbeat=duration(interval_s),
            liveness=duration(self.silence_s(interval_s)),
            reconnect=duration(min(LONGEST_RECONNECT_S, devices / self.bounds.reconnects)),
        )
