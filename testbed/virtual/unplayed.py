"""The entries of a timeline that a simulation leaves out, since it has no programs."""

from testbed.scenario.model import Scenario
from venn.wire.notation import PROGRAMS, Selector


def unplayed(scenario: Scenario) -> dict[int, str]:
    """By their number, each with a line for people."""
    lines = {}
    for number, entry in enumerate(scenario.churn):
        if isinstance(entry.of, Selector) and entry.of.whom in PROGRAMS:
            what = f"{entry.of} is no program"
            lines[number] = f"churn.{number}: {entry.verb} has no effect in a simulation: {what}"
    return lines
