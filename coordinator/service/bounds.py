"""The bounds of a coordinator on what strangers, devices and drivers can make it hold, write down and do."""

from dataclasses import dataclass

from venn.wire.bounds import ServerBounds, bound


@dataclass(frozen=True, slots=True)
class CoordinatorBounds(ServerBounds):
    """The bounds of a coordinator."""

    heartbeats: float = bound(
        500.0, "per second", "heartbeats of all devices without a task", "they are told a longer interval"
    )
    reconnects: float = bound(
        300.0, "per second", "devices that connect again at once", "they are told to spread over up to 30 s"
    )
