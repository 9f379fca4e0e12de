"""What a benchmark prints: one object, the same shape for each."""

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version

import psutil

LIBRARIES = ("grpcio", "protobuf", "numpy", "uvloop")


def machine() -> dict[str, str | int | float]:
    """Where it ran: cores, memory, Python, libraries. No host name."""
    found: dict[str, str | int | float] = {
        "cores": os.cpu_count() or 1,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "python": platform.python_version(),
    }
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "absent"
    return found


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of ours, the same figures of what it is held against, and the ratio (higher is better)."""

    name: str
    figures: Mapping[str, float]  # the unit is in each key
    baseline: Mapping[str, float]
    ratio: float
    machine: Mapping[str, str | int | float] = field(default_factory=machine)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One that ``venn bench NAME`` runs."""

    name: str
    summary: str
    run: Callable[[Callable[[str], None]], Measured]  # takes where to say how far it is
