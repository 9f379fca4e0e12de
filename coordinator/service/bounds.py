"""The bounds of a coordinator on what strangers, devices and drivers can make it hold, write down and do."""

from dataclasses import dataclass

from venn.wire.bounds import ServerBounds, bound


@dataclass(frozen=True, slots=True)
class CoordinatorBounds(ServerBounds):
    """The bounds of a coordinator."""

    request_bytes: int = bound(512 * 1024, "bytes", "a request", "refused")
    sessions: int = bound(
        50_000, "count", "sessions; never more than nine tenths of the connections", "idle devices are sent away"
    )
    sessions_per_connection: int = bound(4, "count", "sessions on one connection", "refused")
    heartbeats: float = bound(
        150.0, "per second", "heartbeats of all devices without a task", "they are told a longer interval"
    )
    reconnects: float = bound(
        300.0, "per second", "devices that connect again at once", "they are told to spread over up to 30 s"
    )
    frames_at_once: int = bound(200, "count", "frames of a session at once; an offer allows more", "it is cut off")
    frames: float = bound(20.0, "per second", "frames of a session in the long run", "it is cut off")
    recorded_at_once: int = bound(
        256 * 1024, "bytes", "what one device makes the coordinator record at once", "refused, or cut off"
    )
    recorded: int = bound(
        4 * 1024,
        "bytes per second",
        "what one device makes it record in the long run; an offer allows more",
        "the same",
    )
    capabilities: int = bound(16 * 1024, "bytes", "the capabilities of a device", "refused")
    devices: int = bound(1_000_000, "count", "devices that are remembered", "those that left first are forgotten")
    device_bytes: int = bound(
        256 * 2**20, "bytes", "memory for the capabilities of all devices, about", "those that left first are forgotten"
    )
    owner_at_once: int = bound(
        16 * 2**20, "bytes", "what one owner's drivers make it record at once", "refused; drivers try again"
    )
    owner: int = bound(2 * 2**20, "bytes per second", "the same in the long run", "refused; drivers try again")
    jobs_per_owner: int = bound(1_000, "count", "unfinished jobs of one owner", "refused")
