"""Jobs drawn from a table: what each asks for, of whom, and when it comes.

What a job is depends on the seed and on its own number only, and its arrival on the gaps before it: a longer draw
begins with the jobs of a shorter one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from coordinator.engine.chance import index
from testbed.population.chance import Purpose, draws, uniform
from testbed.population.job_table import JobSize
from testbed.population.lengths import at
from venn.wire.notation import Distribution


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """A job as drawn, before any scale."""

    name: str  # job-07
    size: JobSize
    requirement: str  # its name
    arrives_s: float


def draw_jobs(
    count: int,
    table: Sequence[JobSize],
    requirements: Mapping[str, Fraction],
    gap: Distribution,
    *,
    seed: int,
) -> tuple[DrawnJob, ...]:
    """So many jobs in order of arrival, each a row of the table, all rows alike likely.

    ``requirements``: the probability of each name, in all 1. ``gap``: seconds between two arrivals, and before the
    first.
    """
    numbers = np.arange(1, count + 1, dtype=np.int64)
    sizes = draws(seed, Purpose.JOB_SIZE, numbers).tolist()
    whom = draws(seed, Purpose.JOB_REQUIREMENT, numbers).tolist()
    arrivals = np.cumsum(at(gap, uniform(seed, Purpose.JOB_GAP, numbers))).tolist()
    return tuple(
        DrawnJob(name, table[index(size, len(table))], _one_of(requirements, asked), arrival)
        for name, size, asked, arrival in zip(job_names(count), sizes, whom, arrivals, strict=True)
    )


def job_names(count: int) -> list[str]:
    """What so many drawn jobs are called."""
    width = max(2, len(str(count)))
    return [f"job-{number:0{width}}" for number in range(1, count + 1)]


def _one_of(parts: Mapping[str, Fraction], bits: int) -> str:
    """The name in whose part of the whole the 64 bits fall; exact, so that no platform differs."""
    drawn, reached = Fraction(bits, 2**64), Fraction(0)
    for name, part in parts.items():
        reached += part
        if drawn < reached:
            return name
    raise ValueError(f"the parts add up to {reached}, not to 1")
