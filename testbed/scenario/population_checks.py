"""What a population must be beyond the shape of each key."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.engine.requirements import Requirement, comparisons, names_devices
from testbed.population.phones import REPORTED
from testbed.scenario.eligible import requirement_of
from testbed.scenario.errors import Finding
from testbed.scenario.places import KeyPath
from testbed.scenario.population import Population
from testbed.scenario.readers import GENERATED, MOST_SIMULATED, PHONES
from testbed.scenario.wording import known

if TYPE_CHECKING:
    from testbed.scenario.model import Scenario

HERE: KeyPath = ("population",)
# What only generated sessions have.
_LENGTHS = ("session", "gap", "swing", "peak")


def check_population(scenario: "Scenario", population: Population) -> Iterator[Finding]:
    """Every problem that the shape of single keys does not show."""
    if scenario.backend != "sim":
        yield Finding(HERE, "works in the simulator only", "write backend: sim, or describe fleets")
    if scenario.fleets:
        yield Finding(HERE, "goes against fleets", "keep one of the two")
    if scenario.time_scale != 1:
        yield Finding(("time_scale",), "goes against population", "take it out: virtual time takes no waiting")
    yield from _files(population)
    yield from _how_many(population)
    if scenario.scale != 1 and population.count is None and population.check_ins_per_day is None:
        fix = "give population count or check_ins_per_day" if population.sessions == GENERATED else "take it out"
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
            yield Finding((*HERE, key), "has no effect: the file says when devices are there", "take it out")
        return
    if len(stated) == 2:
        yield Finding((*HERE, "check_ins_per_day"), "goes against count", "keep one of the two")
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
