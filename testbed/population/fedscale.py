"""The device files of FedScale and of Venn's own evaluation: pickled dictionaries, one entry per client.

FedScale (SymbioticLab/FedScale, docs of its device trace formats; Lai et al., ICML 2022) has two.
``client_device_capacity``: ``{client: {"computation": ms per sample, "communication": kbit/s}}``.
``client_behave_trace``: ``{client: {"active": [s, ...], "inactive": [s, ...], "finish_time": s, "duration": s,
"model": text}}``: the n-th session is from the n-th active to the n-th inactive. Venn's evaluation
(SymbioticLab/Venn, Propius/evaluation/client/client_dispatcher.py) takes both, and ``client_spec_speed``:
``{client: {"cpu_f": score, "ram": GB, "fp16_mem": score, "android_os": level, "speed": factor, ...}}``. Clients of two
files are matched by their place, and round again, as those two do it; their numbers differ from file to file.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from testbed.population.chance import Reals
from testbed.population.columns import Columns
from testbed.population.listed import Cell, ColumnsBuilder
from testbed.population.pickles import read_pickle
from testbed.population.replay import numbered, ticks
from testbed.population.sessions import MOST_ROWS, Block
from testbed.population.table_files import LATEST_S, bad
from venn.wire.text import printable

Entry = Mapping[str, object]
Entries = Mapping[str, Entry]

# What FedScale calls it -> what it is called here, and what it is multiplied by: ms -> s, kbit/s -> bit/s.
_RENAMED = {"computation": ("inference", 1e-3), "communication": ("link", 1e3)}


def read_dictionary(path: Path) -> "Columns | Behaviour":
    """Whichever a pickled dictionary holds, devices or sessions. Raises UsageError."""
    entries = _entries(path)
    if any("active" in entry for entry in entries.values()):
        return _behaviour(path, entries)
    return _capacities(path, entries)


def read_capacities(path: Path) -> Columns:
    """What the devices of a pickled dictionary report, in its order. Raises UsageError."""
    return _capacities(path, _entries(path))


def read_behaviour(path: Path) -> "Behaviour":
    """When the clients of a ``client_behave_trace`` are there. Raises UsageError."""
    return _behaviour(path, _entries(path))


def _capacities(path: Path, entries: Entries) -> Columns:
    builder = ColumnsBuilder()
    for client, entry in entries.items():
        if "active" in entry:
            raise bad(path, "is a trace of sessions, and devices were wanted: name it as population.sessions")
        try:
            cells = dict(_cell(name, value) for name, value in entry.items())
            builder.add(list(cells), list(cells.values()))
        except (ValueError, OverflowError) as error:
            raise bad(path, f"client {client}: {error}") from None
    return builder.columns()


def _cell(name: str, value: object) -> tuple[str, Cell]:
    ours, factor = _RENAMED.get(name, (name, 1.0))
    if value is None or isinstance(value, str):
        return ours, value
    if isinstance(value, bool | int | float):
        return ours, float(value) * factor
    raise ValueError(f"{name} is neither a number nor a text")


@dataclass(frozen=True, slots=True, eq=False)
class Behaviour:
    """All sessions of a trace, in order of start. They are kept: the file is whole in memory before it can be read."""

    start_s: Reals
    end_s: Reals
    device: NDArray[np.int32]
    devices: int
    ids: Mapping[str, int]  # by the client's name its number
    empty: int  # sessions without any length, which are left out

    def blocks(self) -> Iterator[Block]:
        seen = np.zeros(self.devices, np.int64)
        for first in range(0, len(self.start_s), MOST_ROWS):
            here = slice(first, first + MOST_ROWS)
            device = self.device[here].astype(np.int64)
            yield Block(self.start_s[here], self.end_s[here], device, numbered(device, seen))


def _behaviour(path: Path, clients: Entries) -> Behaviour:
    starts: list[Reals] = []
    ends: list[Reals] = []
    ids: dict[str, int] = {}
    empty = 0
    for client, entry in clients.items():
        ids[client] = len(ids)
        start, end = _sessions(path, client, entry)
        there = end > start
        empty += int((~there).sum())
        starts.append(start[there])
        ends.append(end[there])
    device = np.repeat(np.arange(len(ids), dtype=np.int32), [len(each) for each in starts])
    start, end = np.concatenate([*starts, np.empty(0)]), np.concatenate([*ends, np.empty(0)])
    order = np.lexsort((device, start))
    if not len(order):
        raise bad(path, "has no session")
    return Behaviour(start[order], end[order], device[order], len(ids), ids, empty)


def _sessions(path: Path, client: str, entry: Entry) -> tuple[Reals, Reals]:
    """Starts and ends of one client, in order, on ticks."""
    active, inactive = (_seconds(path, client, entry, name) for name in ("active", "inactive"))
    if len(active) != len(inactive):
        raise bad(path, f"client {client}: {len(active)} times active and {len(inactive)} inactive")
    wrong: tuple[tuple[Callable[[], NDArray[np.bool_]], str], ...] = (
        (lambda: inactive < active, "ends before it begins"),
        (lambda: active[1:] < inactive[:-1], "ends after the next one begins"),
    )
    for found, told in wrong:
        where = np.flatnonzero(found())
        if len(where):
            raise bad(path, f"client {client}: session {int(where[0]) + 1} {told}")
    return ticks(active), ticks(inactive)


def _seconds(path: Path, client: str, entry: Entry, name: str) -> Reals:
    times = entry.get(name)
    if not isinstance(times, list | tuple):
        raise bad(path, f"client {client}: has no list {name}")
    for place, each in enumerate(times):
        if isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each <= LATEST_S:
            raise bad(path, f"client {client}: {name}[{place}] is no time: {printable(repr(each), 40)}")
    return np.array(times, np.float64)


def _entries(path: Path) -> Entries:
    """The clients, by name, and what is told of them."""
    root = read_pickle(path)
    if isinstance(root, list):  # Venn numbers its clients from 0
        root = dict(enumerate(root))
    if not isinstance(root, dict) or not root:
        raise bad(path, "is no dictionary with an entry per client")
    entries: dict[str, Entry] = {}
    for client, entry in root.items():
        if not isinstance(client, str | int) or not isinstance(entry, dict):
            raise bad(path, f"holds {printable(repr(client), 40)} where a client and a dictionary should be")
        name = printable(str(client), 40)
        if name in entries:
            raise bad(path, f"client {name} is there a second time")
        if not all(isinstance(key, str) for key in entry):
            raise bad(path, f"client {name}: has keys that are not texts")
        entries[name] = cast("Entry", entry)
    return entries
