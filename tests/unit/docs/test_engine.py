"""docs/engine.md names every attribute of the engine's state that can change, and nothing else."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from coordinator.engine.state import Device, Job, Lease, Request, Session
from coordinator.engine.world import World

ENGINE = Path(__file__).parents[3] / "coordinator" / "engine"
PAGE = (Path(__file__).parents[3] / "docs" / "engine.md").read_text()
KINDS = {kind.__name__: kind for kind in (World, Device, Session, Lease, Request, Job)}
NO_STATE = {"self", "cls", "flags", "group", "matcher", "own"}  # names of other things whose attributes are set


def assigned() -> set[tuple[str, str]]:
    """(class, attribute) of all that the engine sets: a device is called ``device`` wherever its attributes are set."""
    found: set[tuple[str, str]] = set()
    for path in ENGINE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
                name = name.lstrip("_")  # self._world
                assert name.capitalize() in KINDS or name in NO_STATE or not name, f"{path.name}: what is {name!r}?"
                found.add((name.capitalize(), node.attr))
    return found


def changing(kind: type) -> set[str]:
    """The attributes that are set after they were made, or hold a collection; but for those that a table leads."""
    sets = {name for thing, name in assigned() if thing == kind.__name__}
    held = {one.name for one in fields(kind) if re.match(r"(collections\.)?(dict|list|deque|set)\[", str(one.type))}
    return (sets | held) & {one.name for one in fields(kind)} - {"state"}


def named(kind: type) -> set[str]:
    """The attributes that the page's tables name: as ``Class.name``, or in a row about such a thing."""
    found = set(re.findall(rf"`{kind.__name__}\.(\w+)`", PAGE))
    for line in PAGE.partition("## Facts beside the tables")[2].splitlines():
        first, _, rest = line.strip("| ").partition("|")
        about, names = (rest.partition("|")[0], first) if first.startswith("`") else (first, rest.partition("|")[0])
        if re.search(rf"\b{kind.__name__.lower()}\b", about):
            found |= set(re.findall(r"`(\w+)`", names))
    return found


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_page_names_what_changes(kind: type) -> None:
    assert changing(kind) - named(kind) == set(), "not named in docs/engine.md"
    assert named(kind) - {one.name for one in fields(kind)} == set(), "named there, and not in the code"
