"""What drawn jobs must be beyond the shape of each key, and what goes only with a simulation."""

from collections.abc import Iterator

from testbed.population.arrays import Matching
from testbed.population.job_table import Which, read_table, subset
from testbed.population.jobs import draw_jobs, job_names
from testbed.scenario.drawn_jobs import DrawnJobs
from testbed.scenario.errors import Finding
from testbed.scenario.model import Scenario
from testbed.scenario.places import KeyPath
from testbed.scenario.readers import LONGEST
from testbed.scenario.wording import known
from venn.wire.errors import UsageError
from venn.wire.notation import format_duration

HERE = "drawn_jobs"


def check_drawn(scenario: Scenario) -> Iterator[Finding]:
    """Every problem that the shape of single keys does not show."""
    if scenario.drawn_jobs is not None:
        yield from _names(scenario, scenario.drawn_jobs)
        yield from _table(scenario, scenario.drawn_jobs)
    if scenario.backend != "sim":
        asked = {HERE: scenario.drawn_jobs is not None, "scale": scenario.scale != 1}
        asked |= {"rounds_scale": scenario.rounds_scale != 1, "noise": scenario.noise != 0}
        asked["match"] = scenario.match is not Matching.WHILE_PRESENT
        for key in (key for key, there in asked.items() if there):
            yield Finding((key,), "has no effect on real devices", "add backend: sim")


def _names(scenario: Scenario, asked: DrawnJobs) -> Iterator[Finding]:
    for stated in asked.requirement:
        if stated not in scenario.requirements and stated != "all" and " " not in stated:
            message = f"there is no requirement '{stated}' in requirements"
            fix = known(stated, [*scenario.requirements, "all"])
            yield Finding((HERE, "requirement", stated), message, fix)
    for name in job_names(asked.count):
        if name in scenario.jobs:
            yield Finding(("jobs", name), "is the name of a drawn job", "take another name")


def _table(scenario: Scenario, asked: DrawnJobs) -> Iterator[Finding]:
    here: KeyPath = (HERE, "table")
    try:
        rows = subset(read_table(asked.table), asked.which)
    except UsageError as error:
        yield Finding(here, f"{error.where} {error.message}", error.fix)
        return
    if not rows:
        yield Finding((HERE, "which"), f"no job of the table is {asked.which}: all are alike", f"write {Which.ALL}")
        return
    jobs = draw_jobs(asked.count, rows, asked.requirement, asked.arrives, seed=scenario.seed)
    last = jobs[-1].arrives_s * scenario.rounds_scale
    if last > LONGEST:
        message = f"the last job comes after {last / 86_400:.0f} days"
        yield Finding((HERE, "arrives"), message, f"let all come within {format_duration(LONGEST)}")
