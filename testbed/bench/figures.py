"""What a benchmark prints: one object, the same shape for each."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from testbed.live.machine import machine, versions


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of ours, the same figures of what it is held against, and the ratio (higher is better)."""

    name: str
    figures: Mapping[str, float]  # the unit is in each key
    baseline: Mapping[str, float]
    ratio: float
    skipped: tuple[str, ...] = ()  # what could not be measured here, and why
    saturated: tuple[str, ...] = ()  # why the host was too busy for these figures; empty: it was not
    machine: Mapping[str, str | int | float] = field(default_factory=lambda: machine() | versions())

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One that ``venn bench NAME`` runs."""

    name: str
    summary: str
    run: Callable[[Callable[[str], None]], Measured]  # takes where to say how far it is


def folded(got: float, asked: float) -> float:
    """At most 1, and 1 where they are the same."""
    if got == asked:
        return 1.0
    return min(got / asked, asked / got) if got > 0 and asked > 0 else 0.0
