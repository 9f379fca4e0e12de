"""What a timeline makes of a device's link."""

from dataclasses import dataclass
from fractions import Fraction

from venn.wire.notation import format_duration, format_fraction, format_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """The limits of a link from now on, by the keys of a fleet; None: as the device has it."""

    up: float | None = None  # bits per second
    down: float | None = None
    delay: float | None = None  # seconds, of a round trip
    jitter: float | None = None
    loss: Fraction | None = None

    def to_json(self) -> dict[str, str]:
        """In the notation of a scenario; without what stays."""
        told = {}
        for key, rate in (("up", self.up), ("down", self.down)):
            if rate is not None:
                told[key] = format_rate(rate)
        for key, seconds in (("delay", self.delay), ("jitter", self.jitter)):
            if seconds is not None:
                told[key] = format_duration(seconds)
        return told if self.loss is None else {**told, "loss": format_fraction(self.loss)}
