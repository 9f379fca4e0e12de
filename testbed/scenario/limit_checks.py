"""Limits of fleets that would have no effect where they stand."""

from collections.abc import Iterator

from testbed.churn.link_change import LinkChange
from testbed.scenario.errors import Finding
from testbed.scenario.model import Fleet, Scenario
from testbed.scenario.profiled import OF_A_TASK, REAL
from testbed.scenario.timeline import meant_fleets
from venn.wire.notation import Selector, format_duration

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
    """Of an entry of ``churn`` that changes links."""
    here = ("churn", number)
    if scenario.time_scale != 1:
        yield Finding(here, "limit is not scaled, and time_scale is not 1", "take time_scale out, or the entry")
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
        fix = "take it out, or say profile: NAME, whose limits are left out here"
        yield Finding(here, f"has no effect with backend: {scenario.backend}", fix)
    elif key in OF_A_TASK and shared:
        message = "needs a process for each device"
        yield Finding(here, message, f"add processes: {fleet.count}, or take it out and let task time be modelled")
    elif key == "loss" and shared:
        yield Finding(here, "needs a process for each device: a relay loses nothing", f"add processes: {fleet.count}")
    elif scenario.time_scale != 1:
        yield Finding(here, "is not scaled, and time_scale is not 1", "take time_scale out, or the limit")
