"""What a timeline changes of the limits of fleets, and whose links it can cut."""

from testbed.scenario.model import Scenario
from testbed.scenario.timeline import meant_fleets
from testbed.shape.limits import Limits, changed
from venn.wire.notation import Selector


def changes_of(scenario: Scenario, fleet: str) -> tuple[Limits, ...]:
    """What the timeline may hold the devices of a fleet to."""
    limits = scenario.fleets[fleet].limits
    return tuple(
        changed(limits, entry.change)
        for entry in scenario.churn
        if entry.change and isinstance(entry.of, Selector) and fleet in meant_fleets(scenario, entry.of)
    )


def relayed(scenario: Scenario) -> frozenset[str]:
    """The fleets whose devices have a relay each, that can be cut."""
    if scenario.backend != "process":
        return frozenset()
    fleets = scenario.fleets.items()
    return frozenset(name for name, each in fleets if each.limits.link or changes_of(scenario, name))
