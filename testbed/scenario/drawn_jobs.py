"""The key ``drawn_jobs``: many jobs in a few lines, drawn from a table."""

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from pydantic import Field, field_validator

from testbed.population.job_table import PAPER, Which
from testbed.scenario.fields import Bytes, Count, Duration, JobTable, Lasting, Portion, Repeat, RequirementText, Rows
from testbed.scenario.part import Part
from testbed.scenario.wording import wrong
from venn.wire.notation import format_fraction

_ALL = MappingProxyType({"all": Fraction(1)})


class DrawnJobs(Part):
    """Jobs that are drawn at random; the same seed draws the same ones."""

    count: Count
    """How many jobs. They are called `job-01`, `job-02` and so on, in order of arrival."""

    table: JobTable = PAPER
    """The table that jobs are drawn from, each row with the same probability: `paper` (the jobs of the evaluation of
    Venn), or a CSV file with the columns `participants`, `rounds` and `deadline_s`."""

    which: Rows = Which.ALL
    """Which rows of the table: `all`; `small` or `large`, with a total demand over all rounds below or above the
    average row's; `low` or `high`, with a demand in a round below or above the average row's."""

    requirement: Mapping[RequirementText, Portion] = Field(default_factory=lambda: dict(_ALL))
    """Which devices may serve the jobs: the probability of each requirement, in all 100 %."""

    arrives: Lasting
    """The gap between two arrivals, and before the first. `exp(30m)` makes them a Poisson process."""

    compute: Duration = 0.0
    """As `workload.compute` of a job."""

    download: Bytes = 0
    """As `workload.download` of a job."""

    upload: Bytes = 0
    """As `workload.upload` of a job."""

    min_response: Portion = Fraction(4, 5)
    """As that of a job."""

    repeat: Repeat = "once"
    """As that of a job."""

    @field_validator("requirement", mode="after")
    @classmethod
    def _is_a_whole(cls, parts: Mapping[str, Fraction]) -> Mapping[str, Fraction]:
        total = sum(parts.values(), Fraction(0))
        if total != 1:
            raise wrong(f"the probabilities add up to {format_fraction(total)}", "let them add up to 100%")
        return parts
