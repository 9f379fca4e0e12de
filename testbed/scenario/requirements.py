"""Which devices meet a requirement, judged by the coordinator's own code."""

from collections.abc import Sequence

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Capabilities, Requirement, comparisons
from coordinator.service.convert.requirements import requirement_from_wire
from device_agent.spec import DeviceSpec
from testbed.scenario.model import Job
from venn.wire.notation import parse_requirement

# Labels that the agents report and a scenario does not know.
REPORTED_BY_AGENTS = frozenset({"package"})


def requirement_of(text: str) -> Requirement:
    """What the coordinator makes of a requirement's text. Raises NotationError and MalformedError."""
    return requirement_from_wire(parse_requirement(text))


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
    """What it reports, as the engine has it."""
    return Capabilities(device.numbers, {name: frozenset(values) for name, values in device.labels.items()})
