"""How slow one device shall be, in absolute units; None is no limit."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:  # a container that starts slowly enough has no need of it
    from testbed.world.timeline import LinkChange

SAME = 0.05  # what is in force may differ by so much from what was asked
LINK = ("up", "down", "delay", "jitter", "loss")
OF_A_CONTAINER, COUNTS = "limits.json", "links-counts.json"  # what held a container, and what its relay has passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The processor, memory and link of a device; None: no limit."""

    cores: float | None = None  # of this machine
    memory_bytes: int | None = None
    up_bits: float | None = None  # per second, from the device
    down_bits: float | None = None  # per second, to the device
    delay_s: float = 0.0  # added to a round trip, half of it each way
    jitter_s: float = 0.0  # a round trip's delay scatters evenly, this much up or down
    loss: float = 0.0  # of the packets, each way

    @property
    def of_link(self) -> dict[str, float | None]:
        """Its link's limits, by key."""
        values = (self.up_bits, self.down_bits, self.delay_s, self.jitter_s, self.loss)
        return dict(zip(LINK, values, strict=True))

    @property
    def link(self) -> bool:
        """Whether its link is limited in any way."""
        return any(self.of_link.values())


def same(got: float | None, asked: float | None) -> bool:
    """Whether the two are the same, as near as a kernel comes to it."""
    if got is None or asked is None:
        return got is asked
    return abs(got - asked) <= SAME * asked


def alike(got: Limits, asked: Limits) -> bool:
    """Whether a link is held to what was asked."""
    return all(same(got.of_link[key], asked.of_link[key]) for key in LINK)


class Relayed(TypedDict):
    """What a relay holds a link to, and may be told anew."""

    up_bits: float | None
    down_bits: float | None
    delay_s: float
    jitter_s: float
    stall: float  # the part of the packets that wait for a retransmission timeout


def changed(limits: Limits, change: "LinkChange") -> Limits:
    """The limits of a device whose link a timeline has changed."""
    return replace(
        limits,
        up_bits=limits.up_bits if change.up is None else change.up,
        down_bits=limits.down_bits if change.down is None else change.down,
        delay_s=limits.delay_s if change.delay is None else change.delay,
        jitter_s=limits.jitter_s if change.jitter is None else change.jitter,
        loss=limits.loss if change.loss is None else float(change.loss),
    )
