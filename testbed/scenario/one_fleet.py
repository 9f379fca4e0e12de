"""One fleet of a scenario by itself, for ``venn swarm --fleet SCENARIO:FLEET``: the devices that a run would have."""

import shutil
from hashlib import sha256
from pathlib import Path

from testbed.scenario.errors import Problem, ScenarioError, known
from testbed.scenario.loader import load
from testbed.scenario.model import Scenario
from testbed.scenario.packaged import named
from testbed.world.data import split
from testbed.world.fleets import expand, write_population


def fleet_population(reference: str, folder: Path) -> Path:
    """A population file of the fleet ``SCENARIO:FLEET``, with its shares of the data beside it, below ``folder``.

    The same scenario gives the same files, which are kept and used again. Raises UsageError.
    """
    file, colon, fleet = reference.rpartition(":")
    if not colon or not file:
        raise ScenarioError([Problem(f"--fleet {reference}", "is not SCENARIO:FLEET", "write e.g. quick.yaml:small")])
    scenario = load(named(file))
    if fleet not in scenario.fleets:
        message = f"there is no fleet '{fleet}' in {file}"
        raise ScenarioError([Problem(f"--fleet {reference}", message, known(fleet, scenario.fleets))])
    place = folder.absolute() / f"{scenario.name}-{sha256(scenario.dump().encode()).hexdigest()[:12]}"
    population = place / f"{fleet}.jsonl"
    if not population.exists():
        _prepare(scenario, place)
    return population


def _prepare(scenario: Scenario, place: Path) -> None:
    """Population files of all fleets at once: another swarm may be reading the shares when the next fleet is wanted."""
    data = _shares(scenario, place)
    devices = expand(scenario.fleet_specs(), seed=scenario.seed, time_scale=scenario.time_scale, data=data)
    for fleet in scenario.fleets:
        write_population(place / f"{fleet}.jsonl", [device for device in devices if device.fleet == fleet])


def _shares(scenario: Scenario, place: Path) -> dict[str, list[Path]]:
    """A share of each data set for every device of the scenario, as in a run."""
    shares = {}
    for name, data in scenario.data.items():
        out = place / "data" / name
        shutil.rmtree(out, ignore_errors=True)  # of an earlier start that was stopped half-way
        shares[name] = split(
            data.source,
            devices=scenario.devices,
            split=data.split,
            held_out=data.held_out,
            seed=scenario.seed,
            out=out,
        )
    return shares
