"""Capabilities of a real machine, measured or looked up: cpu score, memory, OS level, Python packages."""

import platform
import re
import time
from functools import cache
from importlib import metadata

import numpy as np
import psutil

from device_agent.spec import MOST_LABEL_VALUES

REFERENCE_S = 0.030  # processor time that the reference computation takes on a core whose score is 1
REFERENCE_STEPS, REFERENCE_SIZE, REFERENCE_RUNS = 400, 4096, 3


@cache
def measured_numbers() -> dict[str, float]:
    """The known numbers: ``cpu`` (score of one core), ``memory`` (bytes installed), ``os`` (e.g. 6.1 or 14.5)."""
    numbers = {"cpu": cpu_score(), "memory": float(psutil.virtual_memory().total)}
    level = os_level(platform.release())
    return numbers if level is None else {**numbers, "os": level}


def cpu_score() -> float:
    """The speed of one core at the reference computation (square roots over 4,096 floats, 400 times, in NumPy): its
    best of three runs, held against ``REFERENCE_S``. About 10 on a server core of 2020; some 50 ms are spent on it.
    """
    best = min(_reference_run() for _ in range(REFERENCE_RUNS))
    return round(REFERENCE_S / best, 2)


def os_level(release: str) -> float | None:
    """Major and minor number of the system's release; None if it has none."""
    match = re.match(r"(\d+)(?:\.(\d+))?", release)
    return None if match is None else float(f"{match[1]}.{match[2] or 0}")


@cache
def importable_packages() -> tuple[str, ...]:
    """Names that jobs may ask for as ``packages``: what a user asked pip for comes first, at most 64 in all."""
    names: dict[str, bool] = {}
    for name, distributions in metadata.packages_distributions().items():
        if name.isidentifier() and not name.startswith("_") and "__" not in name:
            names[name] = any(_was_requested(distribution) for distribution in distributions)
    ordered = sorted(names, key=lambda name: (not names[name], name))
    return tuple(sorted(ordered[:MOST_LABEL_VALUES]))


@cache
def _was_requested(distribution: str) -> bool:
    """Whether pip installed a distribution because somebody asked for it, and not because something else needs it (PEP
    376).
    """
    return metadata.distribution(distribution).read_text("REQUESTED") is not None


def _reference_run() -> float:
    values = np.linspace(0.1, 1.0, REFERENCE_SIZE)
    started = time.thread_time()
    for _ in range(REFERENCE_STEPS):
        values = np.sqrt(values * values + 1e-9)
    return max(time.thread_time() - started, 1e-6)
