"""The population of a scenario, or as much of it as shows what it is."""

import math
from collections.abc import Mapping

from coordinator.engine.ids import DeviceId
from coordinator.engine.requirements import Requirement
from testbed.population.columns import Columns, GeneratedPhones
from testbed.population.compared import Compared, Kind, Row
from testbed.population.day import DAY_S
from testbed.population.describe_files import describe_columns, describe_session_file
from testbed.population.describe_phones import describe_made
from testbed.population.describe_sessions import describe_generated
from testbed.population.device_files import read_devices
from testbed.population.kinds import KindTable
from testbed.population.phones import phones
from testbed.population.session_files import read_sessions
from testbed.population.spec import PopulationSpec


def describe_population(
    spec: PopulationSpec, requirements: Mapping[str, Requirement], *, most: int, days: float, seed: int
) -> tuple[Compared, ...]:
    """Its devices, which requirements they meet, and their sessions; of generated ones ``most`` devices and ``days``.

    Raises UsageError.
    """
    ids = None
    count = min(spec.count or most, most)
    if spec.devices is not None:
        file = read_devices(spec.devices)
        ids, columns = file.ids, file.columns
        about = describe_columns(columns)
    else:
        columns = GeneratedPhones(seed).columns(0, count)
        about = describe_made(phones(count, seed))
    if spec.sessions is not None:
        times = describe_session_file(read_sessions(spec.sessions, ids))
    else:
        until_s = min(days * DAY_S, math.inf if spec.replay_s is None else spec.replay_s)
        times = describe_generated(spec.availability, count, until_s, seed)
    return (*about, *_eligible(columns, requirements), *times)


def _eligible(columns: Columns, requirements: Mapping[str, Requirement]) -> tuple[Compared, ...]:
    """The part of the devices that meets each requirement."""
    if not requirements:
        return ()
    table = KindTable(requirements.values())
    kinds = table.kinds(columns).tolist()
    rows = []
    for name, requirement in requirements.items():
        met = [requirement.matches(DeviceId(""), each) for each in table.capabilities]
        rows.append(Row(name, math.nan, 100 * sum(met[kind] for kind in kinds) / len(kinds)))
    return (Compared("eligible", "% of devices", Kind.PARTS, tuple(rows)),)
