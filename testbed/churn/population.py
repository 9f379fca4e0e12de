"""The timeline of a scenario on a population."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from coordinator.engine.requirements import Comparison
from testbed.churn.crowd import CrowdWorld
from testbed.churn.cut import without
from testbed.churn.expand import expand_timeline, selected
from testbed.churn.timeline import Action, Entry
from testbed.churn.wishes import Pool, Wish, hits
from testbed.population.check_ins import Population
from testbed.population.columns import chunks
from venn.wire.errors import UsageError
from venn.wire.notation import PROGRAMS, Selector, Whom


def churned(made: Population, entries: Sequence[Entry], seed: int) -> tuple[Population, tuple[Action, ...]]:
    """The population as the timeline leaves it, and what is done to it. Raises UsageError: a selector that means
    nobody, a label that no device has, a timeline that is too large."""
    devices = _Crowd(made)
    for number, entry in enumerate(entries):
        if selected(entry).whom not in PROGRAMS:
            _check(entry, number, len(devices.pool(selected(entry))))
    expansion = expand_timeline(entries, devices, seed=seed, scale=1.0)
    return replace(made, trace=without(made.trace, expansion.absences, made.devices)), expansion.actions


def _check(entry: Entry, number: int, devices: int) -> None:
    where, of = f"churn.{number}", entry.of
    if devices == 0:
        raise UsageError(
            "CHURN",
            f"no device has {selected(entry)}",
            where=where,
            fix="`venn population describe` shows their labels",
        )
    if isinstance(of, Selector) and of.count is not None and of.count > devices:
        message = f"'{of}' are more than there are: {devices}"
        raise UsageError("CHURN", message, where=where, fix=f"write at most {devices}")
    if hits(entry, devices) == 0:
        raise UsageError("CHURN", f"'{of}' are none of {devices} devices", where=where, fix="select more")


@dataclass(slots=True, eq=False)
class _Crowd:
    """All devices of a population."""

    made: Population
    _pools: dict[tuple[str, str], Pool] = field(default_factory=dict)  # by label and value; none: all

    def pool(self, selector: Selector) -> Pool:
        """One object for all entries that mean the same."""
        key = selector.name, selector.value
        if key not in self._pools:
            labelled = selector.whom is Whom.LABEL
            self._pools[key] = self._labelled(*key) if labelled else np.arange(self.made.devices, dtype=np.int64)
        return self._pools[key]

    def world(self, wanted: Sequence[Wish], seed: int) -> CrowdWorld:
        return CrowdWorld(self.made.devices, self.made.trace, wanted, seed)

    def _labelled(self, name: str, value: str) -> Pool:
        """Those with this value of a label."""
        found = [np.empty(0, np.int64)]
        first = 0
        for columns in chunks(self.made.reports, self.made.devices) if name in self.made.reports.names else ():
            found.append(first + np.flatnonzero(columns.answers(Comparison(name, "=", value))))
            first += columns.rows
        return np.concatenate(found)
