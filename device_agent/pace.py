"""The pace of a device: how often it says something, how long it waits for an answer, and when it connects again.

The coordinator says all of it (docs/protocol.md, "Sessions"), and the device obeys within the bounds here. At a task it
speaks as the Welcome says, and without one as the last ``Pace`` says, which is slower the more devices there are.
"""

from collections.abc import Callable
from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration

from venn.v1 import device_pb2

LEAST_HEARTBEAT_S, MOST_HEARTBEAT_S = 0.05, 600.0  # whatever a coordinator asks for
MOST_RECONNECT_S = 300.0
AT_A_TASK_S = 5.0  # within it a device at a task connects again: its lease does not wait
SOONER = 0.25  # the part of an interval by which a device without a task may speak sooner, so that devices spread


class _Rhythm(NamedTuple):
    heartbeat_s: float
    silence_s: float  # of the coordinator


class Pace:
    """The pace that was told last. ``draw`` gives numbers from 0 to 1."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._at_a_task = self._idle = _Rhythm(float("inf"), float("inf"))
        self._reconnect_s = 0.0
        self._part = 1.0  # of the interval that runs

    def welcomed(self, welcome: device_pb2.Welcome) -> None:
        """Take the pace of a new session."""
        self._at_a_task = self._idle = _rhythm(welcome.heartbeat, welcome.liveness)
        if welcome.HasField("pace"):
            self.told(welcome.pace)

    def told(self, pace: device_pb2.Pace) -> None:
        """Take another pace for the time without a task; it is never faster than at a task."""
        idle = _rhythm(pace.heartbeat, pace.liveness)
        self._idle = _Rhythm(*map(max, idle, self._at_a_task))
        self._reconnect_s = min(MOST_RECONNECT_S, max(0.0, _seconds(pace.reconnect)))
        self.spoke()

    def spoke(self) -> None:
        """Note that the device said something: draw when, at the latest, it speaks again without a task."""
        self._part = 1.0 - SOONER * self._draw() if self._idle.heartbeat_s > self._at_a_task.heartbeat_s else 1.0

    def heartbeat_s(self, *, at_a_task: bool) -> float:
        """The seconds from the last frame until the next heartbeat."""
        return self._at_a_task.heartbeat_s if at_a_task else self._idle.heartbeat_s * self._part

    def silence_s(self, *, at_a_task: bool) -> float:
        """The seconds without a frame after which the coordinator is taken for gone."""
        return (self._at_a_task if at_a_task else self._idle).silence_s

    def reconnect_s(self, *, at_a_task: bool) -> float:
        """The seconds within which the device connects again, at a random moment."""
        return min(self._reconnect_s, AT_A_TASK_S) if at_a_task else self._reconnect_s


def _rhythm(heartbeat: Duration, liveness: Duration) -> _Rhythm:
    heartbeat_s = min(MOST_HEARTBEAT_S, max(LEAST_HEARTBEAT_S, _seconds(heartbeat)))
    return _Rhythm(heartbeat_s, max(_seconds(liveness), 3 * heartbeat_s))


def _seconds(length: Duration) -> float:
    return length.seconds + length.nanos / 1e9
