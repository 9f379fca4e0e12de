"""Which devices of a scenario a requirement means, judged by the coordinator's own code, and which a selector means."""

from collections.abc import Collection, Mapping, Sequence
from typing import assert_never

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Capabilities, Requirement, comparisons
from coordinator.service.convert.fields import requirement_from_wire
from device_agent.spec import DeviceSpec
from testbed.scenario.errors import KeyPath
from testbed.scenario.model import Job, Scenario
from testbed.scenario.readers import PHONES
from testbed.world.fleets import capabilities_of
from venn.wire.errors import UsageError
from venn.wire.requirements import Selector, Whom, parse_requirement

# Labels that the agents report and a scenario does not know.
REPORTED_BY_AGENTS = frozenset({"package"})


def requirement_of(text: str) -> Requirement:
    """What the coordinator makes of a requirement's text. Raises NotationError and MalformedError."""
    return requirement_from_wire(parse_requirement(text))


def stated_requirements(scenario: Scenario) -> dict[KeyPath, str]:
    """The requirements of all jobs, the drawn ones included, as they are stated: each a name or a text, by its key."""
    stated: dict[KeyPath, str] = {("jobs", name, "requirement"): job.requirement for name, job in scenario.jobs.items()}
    drawn = scenario.drawn_jobs.requirement if scenario.drawn_jobs is not None else ()
    return stated | {("drawn_jobs", "requirement", name): name for name in drawn}


def served_by(text: str, devices: Sequence[DeviceSpec]) -> int | None:
    """How many of the devices meet a requirement; None: it asks for what only the agents will know."""
    requirement = requirement_of(text)
    if REPORTED_BY_AGENTS & {each.name for each in comparisons(requirement)}:
        return None
    return sum(requirement.matches(DeviceId(device.device), capabilities(device)) for device in devices)


def unfillable(job: Job, eligible: int) -> tuple[str, str] | None:
    """Why so many eligible devices can never fill a request of the job, and what to do; None: they can."""
    if job.repeat == "allow" or job.demand <= eligible:
        return None
    message = f"a round asks for {job.demand} devices, and only {eligible} can serve the job"
    return message, f"have at most {eligible}, or write repeat: allow to let a device count several times in a round"


def capabilities(device: DeviceSpec) -> Capabilities:
    """What a device reports, as the engine has it."""
    return Capabilities(device.numbers, {name: frozenset(values) for name, values in device.labels.items()})


def meant_fleets(scenario: Scenario, of: Selector) -> dict[str, int]:
    """How many devices of which fleets a selector means, before it takes a part of them."""
    counts = {name: _meant(scenario, name, of) for name in scenario.fleets}
    return {name: count for name, count in counts.items() if count}


def _meant(scenario: Scenario, fleet: str, of: Selector) -> int:
    match of.whom:
        case Whom.ALL:
            all_or_none = True
        case Whom.FLEET:
            all_or_none = of.name == fleet
        case Whom.LABEL if of.name == "fleet":
            all_or_none = of.value == fleet
        case Whom.LABEL if of.name == "data":
            all_or_none = of.value in scenario.data
        case Whom.LABEL:
            return sum(of.value in has.get(of.name, ()) for has in labels_of(scenario, fleet))
        case Whom.COORDINATOR | Whom.BROKER | Whom.DRIVER:
            all_or_none = False
        case _:
            assert_never(of.whom)
    return scenario.fleets[fleet].count if all_or_none else 0


def labels_of(scenario: Scenario, name: str) -> Sequence[Mapping[str, Collection[str]]]:
    """What each device of a fleet reports beyond what every device does; empty for a file that cannot be used."""
    fleet = scenario.fleets[name]
    if fleet.devices in (None, PHONES):
        return [fleet.labels] * fleet.count
    spec = next(each for each in scenario.fleet_specs() if each.name == name)
    try:
        return [{**has.labels, **fleet.labels} for has in capabilities_of(spec, scenario.seed)]
    except UsageError:  # told where the file is named
        return []
