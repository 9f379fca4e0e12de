"""What comes of a world: a rule that was broken, if one was, and counts."""

from collections import Counter
from dataclasses import dataclass, field

from testbed.chaos.script import Script

FAULT = "fault: "  # before the kind of a fault, in counts


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never be."""

    what: str  # UPPER_SNAKE
    text: str
    at: float  # virtual seconds

    def __str__(self) -> str:
        return f"{self.what} at {self.at:.3f} s: {self.text}"


@dataclass(slots=True)
class Outcome:
    """What came of a world."""

    script: Script
    violation: Violation | None = None
    virtual_s: float = 0.0
    calls: int = 0
    digest: str = ""  # of all that its coordinators said: equal for two runs of one script
    counts: Counter[str] = field(default_factory=Counter)
