"""The bounds of a driver on what strangers, devices and its own job can make it hold."""

from dataclasses import dataclass

from venn.wire.bounds import ServerBounds, bound


@dataclass(frozen=True, slots=True)
class DriverBounds(ServerBounds):
    """The bounds of a driver."""

    open_calls: int = bound(
        256, "count", "calls that have shown no ticket yet", "the longest one is ended; it may try again"
    )
    open_call: float = bound(30.0, "seconds", "time until a call has shown its ticket", "the call is ended")
    open_bytes: int = bound(256 * 1024, "bytes", "the message with the ticket", "the call is refused")
    free_disk: int = bound(
        256 * 2**20, "bytes", "disk that stays free beside the job's folder", "responses are refused, and leased again"
    )
