"""Checks of what only a simulation has, and of limits without effect.

What a population must be beyond the shape of each key.

What drawn jobs must be beyond the shape of each key, and what goes only with a simulation.

Limits of fleets that would have no effect where they stand.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from coordinator.engine.requirements import Requirement, comparisons, names_devices
from testbed.scenario.churn import meant_fleets
from testbed.scenario.errors import Finding, KeyPath, known
from testbed.scenario.model import Fleet, Scenario
from testbed.scenario.population import DrawnJobs, Population
from testbed.scenario.profiles import OF_A_TASK, REAL
from testbed.scenario.readers import GENERATED, LONGEST, MOST_SIMULATED, PHONES
from testbed.scenario.requirements import requirement_of
from testbed.world.arrays import Matching
from testbed.world.jobs import Which, draw_jobs, job_names, read_table, subset
from testbed.world.phones import REPORTED
from testbed.world.timeline import LinkChange
from venn.wire.errors import UsageError
from venn.wire.notation import Selector, format_duration

HERE: KeyPath = ("population",)
# What only generated sessions have.
_LENGTHS = ("session", "gap", "swing", "peak")


def check_population(scenario: "Scenario", population: Population) -> Iterator[Finding]:
    """Every problem that the shape of single keys does not show."""
    if scenario.backend != "sim":
        yield Finding(HERE, "works in the simulator only", "write backend: sim, or describe fleets")
    if scenario.fleets:
        yield Finding(HERE, "conflicts with fleets", "keep one of the two")
    if scenario.time_scale != 1:
        yield Finding(("time_scale",), "conflicts with population", "remove it: virtual time needs no waiting")
    yield from _files(population)
    yield from _how_many(population)
    if scenario.scale != 1 and population.count is None and population.check_ins_per_day is None:
        fix = "give population count or check_ins_per_day" if population.sessions == GENERATED else "remove it"
        yield Finding(("scale",), "cannot multiply the devices of a file", fix)
    asked = _asked(scenario)
    if population.devices == PHONES:
        yield from _reported(population, asked)
    for path, requirement in asked.items():
        if names_devices(requirement):
            yield Finding(path, "names devices, and those of a population have no names", "compare capabilities")


def _files(population: Population) -> Iterator[Finding]:
    for key, word in (("devices", PHONES), ("sessions", GENERATED)):
        text: str = getattr(population, key)
        if text != word and not Path(text).is_file():
            yield Finding((*HERE, key), f"there is no file {text}", "a relative path starts at the scenario's folder")


def _how_many(population: Population) -> Iterator[Finding]:
    stated = [key for key in ("count", "check_ins_per_day") if getattr(population, key) is not None]
    if population.sessions != GENERATED:
        default = Population()
        for key in (*stated, *(key for key in _LENGTHS if getattr(population, key) != getattr(default, key))):
            yield Finding((*HERE, key), "has no effect: the file says when devices are there", "remove it")
        return
    if len(stated) == 2:
        yield Finding((*HERE, "check_ins_per_day"), "conflicts with count", "keep one of the two")
    if not stated and population.devices == PHONES:
        yield Finding((*HERE, "count"), "is missing", "add e.g. count: 20000, or check_ins_per_day: 1400000")
    if population.spec().count > MOST_SIMULATED:
        message = f"takes {population.spec().count} devices"
        yield Finding((*HERE, "check_ins_per_day"), message, f"at most {MOST_SIMULATED} are simulated")


def _reported(population: Population, asked: Mapping[KeyPath, Requirement]) -> Iterator[Finding]:
    """Capabilities that are asked for, and that phones do not report."""
    if population.slow is not None and population.slow not in REPORTED:
        yield Finding((*HERE, "slow"), f"no phone reports {population.slow}", known(population.slow, REPORTED))
    for path, requirement in asked.items():
        for each in comparisons(requirement):
            if each.name not in REPORTED:
                yield Finding(path, f"no phone reports {each.name}", known(each.name, REPORTED))


def _asked(scenario: "Scenario") -> dict[KeyPath, Requirement]:
    """The requirements of all jobs, each where it stands; a name of one that is not there is told elsewhere."""
    stated: dict[KeyPath, str] = {("jobs", name, "requirement"): job.requirement for name, job in scenario.jobs.items()}
    if scenario.drawn_jobs is not None:
        stated |= {("drawn_jobs", "requirement", name): name for name in scenario.drawn_jobs.requirement}
    named = {("requirements", name): text for name, text in scenario.requirements.items() if name in stated.values()}
    here = {path: text for path, text in stated.items() if text not in scenario.requirements}
    return {path: requirement_of(text) for path, text in (named | here).items() if text == "all" or " " in text}


_DRAWN = "drawn_jobs"


def check_drawn(scenario: Scenario) -> Iterator[Finding]:
    """Every problem that the shape of single keys does not show."""
    if scenario.drawn_jobs is not None:
        yield from _names(scenario, scenario.drawn_jobs)
        yield from _table(scenario, scenario.drawn_jobs)
    if scenario.backend != "sim":
        asked = {_DRAWN: scenario.drawn_jobs is not None, "scale": scenario.scale != 1}
        asked |= {"rounds_scale": scenario.rounds_scale != 1, "noise": scenario.noise != 0}
        asked["match"] = scenario.match is not Matching.WHILE_PRESENT
        for key in (key for key, there in asked.items() if there):
            yield Finding((key,), "has no effect on real devices", "add backend: sim")


def _names(scenario: Scenario, asked: DrawnJobs) -> Iterator[Finding]:
    for stated in asked.requirement:
        if stated not in scenario.requirements and stated != "all" and " " not in stated:
            message = f"there is no requirement '{stated}' in requirements"
            fix = known(stated, [*scenario.requirements, "all"])
            yield Finding((_DRAWN, "requirement", stated), message, fix)
    for name in job_names(asked.count):
        if name in scenario.jobs:
            yield Finding(("jobs", name), "is the name of a drawn job", "take another name")


def _table(scenario: Scenario, asked: DrawnJobs) -> Iterator[Finding]:
    here: KeyPath = (_DRAWN, "table")
    try:
        rows = subset(read_table(asked.table), asked.which)
    except UsageError as error:
        yield Finding(here, f"{error.where} {error.message}", error.fix)
        return
    if not rows:
        yield Finding(
            (_DRAWN, "which"),
            f"no job of the table is {asked.which}: all are alike",
            f"write {Which.ALL}",
        )
        return
    jobs = draw_jobs(asked.count, rows, asked.requirement, asked.arrives, seed=scenario.seed)
    last = jobs[-1].arrives_s * scenario.rounds_scale
    if last > LONGEST:
        message = f"the last job comes after {last / 86_400:.0f} days"
        yield Finding((_DRAWN, "arrives"), message, f"let all come within {format_duration(LONGEST)}")


LINK = ("up", "down", "delay", "jitter", "loss")


def check_limits(scenario: Scenario) -> Iterator[Finding]:
    """Every limit that would not be in force."""
    for name, fleet in scenario.fleets.items():
        for key in (*OF_A_TASK, *LINK):
            if getattr(fleet, key):
                yield from _limit(scenario, name, fleet, key)
        if fleet.jitter > fleet.delay:
            fix = f"let delay be at least {format_duration(fleet.jitter)}"
            yield Finding(("fleets", name, "jitter"), "is more than delay, which cannot go below 0", fix)
    for number, entry in enumerate(scenario.churn):
        if entry.change is not None and isinstance(entry.of, Selector):
            yield from _change(scenario, number, entry.of, entry.change)


def _change(scenario: Scenario, number: int, of: Selector, change: LinkChange) -> Iterator[Finding]:
    """Findings about an entry of ``churn`` that changes links."""
    here = ("churn", number)
    if scenario.time_scale != 1:
        yield Finding(here, "limit is not scaled, and time_scale is not 1", "remove time_scale, or the entry")
    for name in meant_fleets(scenario, of):
        fleet = scenario.fleets[name]
        delay = fleet.delay if change.delay is None else change.delay
        if (fleet.jitter if change.jitter is None else change.jitter) > delay:
            message = f"the jitter of {name} is more than its delay, which cannot go below 0"
            yield Finding(here, message, "add a delay, or a smaller jitter")
        if change.loss and scenario.backend in REAL and fleet.processes != fleet.count:
            message = f"loss needs a process for each device of {name}: a relay loses nothing"
            yield Finding(here, message, f"add processes: {fleet.count} there")


def _limit(scenario: Scenario, name: str, fleet: Fleet, key: str) -> Iterator[Finding]:
    here = ("fleets", name, key)
    shared = scenario.backend in REAL and fleet.processes != fleet.count
    if key in OF_A_TASK and scenario.backend not in REAL:
        fix = "remove it, or give profile: NAME, whose limits are left out here"
        yield Finding(here, f"has no effect with backend: {scenario.backend}", fix)
    elif key in OF_A_TASK and shared:
        message = "needs a process for each device"
        yield Finding(here, message, f"add processes: {fleet.count}, or remove it and let task time be modelled")
    elif key == "loss" and shared:
        yield Finding(here, "needs a process for each device: a relay loses nothing", f"add processes: {fleet.count}")
    elif scenario.time_scale != 1:
        yield Finding(here, "is not scaled, and time_scale is not 1", "remove time_scale, or the limit")
