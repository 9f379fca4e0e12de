"""Draws the life-cycle diagrams of docs/pictures from the transition tables of the code, with Graphviz (``dot``).

``make pictures`` runs it. tests/unit/docs/test_lifecycles.py fails if a picture no longer shows its table.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from coordinator.engine.lifecycle import DEVICE, JOB, LEASE, PLACED, REQUEST
from device_agent.held import STAGE
from device_agent.session import LINK

PICTURES = Path(__file__).parents[1] / "pictures"
HEAD = """digraph {
  rankdir=LR; nodesep=0.35; ranksep=0.55; bgcolor=white
  node [shape=box style="rounded,filled" fillcolor=white color="#52606d" fontname=Helvetica fontsize=13 height=0.4]
  edge [color="#52606d" fontname=Helvetica fontsize=11 fontcolor="#0b7285" arrowsize=0.7]
  start [shape=circle style=filled fillcolor="#52606d" label="" width=0.14 height=0.14]
"""


@dataclass(frozen=True, slots=True)
class Edge:
    before: str
    after: str
    step: str = ""  # of a table by (state, step)


@dataclass(frozen=True)
class Lifecycle:
    """A table from (state, step) to the next state, or from a state to all that may be next."""

    title: str
    table: Mapping[Any, Any]
    marked: Iterable[Enum] = ()  # states that are drawn filled

    def edges(self) -> Iterator[Edge]:
        for key, after in self.table.items():
            if isinstance(key, tuple):
                state, step = key
                yield Edge(_word(state), _word(after), _word(step))
            else:
                yield from (Edge(_word(key), _word(each)) for each in sorted(after, key=self.states().index))

    def states(self) -> list[Enum]:
        """The states in the order of their enumeration: the first is where the life begins."""
        key = next(iter(self.table))
        kind: type[Enum] = type(key[0] if isinstance(key, tuple) else key)
        return list(kind)

    def source(self) -> str:
        """The graph in Graphviz's language."""
        edges = list(self.edges())
        last = {_word(state) for state in self.states()} - {edge.before for edge in edges if edge.before != edge.after}
        lines = [f'  label="{self.title}" labelloc=t fontname=Helvetica fontsize=14']
        for state in self.states():
            more = ["peripheries=2"] * (_word(state) in last) + ['fillcolor="#d0ebff"'] * (state in self.marked)
            lines.append(f'  "{_word(state)}" [{" ".join(more)}]')
        lines.append(f'  start -> "{_word(self.states()[0])}"')
        steps: dict[tuple[str, str], list[str]] = {}
        for edge in edges:
            steps.setdefault((edge.before, edge.after), []).append(edge.step)
        for (before, after), labels in steps.items():
            lines.append(f'  "{before}" -> "{after}" [label="{", ".join(labels)}"]')
        return HEAD + "\n".join(lines) + "\n}\n"


def _word(member: Enum) -> str:
    return member.name.replace("_", " ")


LIFECYCLES = {
    "device": Lifecycle("device", DEVICE),
    "lease": Lifecycle("lease", LEASE, PLACED),
    "request": Lifecycle("request", REQUEST),
    "job": Lifecycle("job", JOB),
    "link": Lifecycle("link of a device", LINK),
    "stage": Lifecycle("lease on its device", STAGE),
}


def main() -> int:
    for name, lifecycle in LIFECYCLES.items():
        picture = PICTURES / f"lifecycle-{name}.svg"
        subprocess.run(["dot", "-Tsvg", "-o", picture], input=lifecycle.source(), text=True, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
