"""What a benchmark prints: one object, the same shape for each."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from testbed.live.machine import machine, versions


@dataclass(frozen=True, slots=True)
class Untested:
    """What could not be measured here: nothing is known of it, and nothing is guessed."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"untested: {self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of ours, the same figures of what it is held against, and the ratio (higher is better)."""

    name: str
    figures: Mapping[str, float]  # the unit is in each key
    baseline: Mapping[str, float]
    ratio: float
    untested: tuple[Untested, ...] = ()
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
    backends: Mapping[str, Callable[[Callable[[str], None]], Measured]] = field(default_factory=dict)  # on one only


def folded(got: float, asked: float) -> float:
    """At most 1, and 1 where they are the same."""
    if got == asked:
        return 1.0
    return min(got / asked, asked / got) if got > 0 and asked > 0 else 0.0
