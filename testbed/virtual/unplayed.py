"""The entries of a timeline that a simulation leaves out, since it has nothing that they would change."""

from testbed.scenario.model import Scenario
from venn.wire.notation import PROGRAMS, Selector


def unplayed(scenario: Scenario) -> dict[int, str]:
    """By their number, each with a line for people."""
    lines = {}
    for number, entry in enumerate(scenario.churn):
        program = isinstance(entry.of, Selector) and entry.of.whom in PROGRAMS
        if program or entry.change is not None:
            what = f"{entry.of} is no program" if program else "no links are simulated"
            lines[number] = f"churn.{number}: {entry.verb} has no effect in a simulation: {what}"
    return lines
