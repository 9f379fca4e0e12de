"""No file imports another that leads back to it: not in a function, and not for type checkers either."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {"coordinator": ROOT, "device_agent": ROOT, "job_driver": ROOT, "testbed": ROOT, "venn": ROOT / "protos"}
FILES = {
    ".".join(path.relative_to(above).with_suffix("").parts).removesuffix(".__init__"): path
    for package, above in PACKAGES.items()
    for path in (above / package).rglob("*.py")
}


def imported(path: Path) -> Iterator[str]:
    """The files that a file imports; of a package that is named with something in it, the file of that."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name in FILES)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                inner = {f"{module}.{each.name}" for each in names}
                yield from inner & FILES.keys() or {module} & FILES.keys()


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_cycle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert sorted(set(cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}))) == ["a", "b", "c"]


def test_there_is_no_cycle() -> None:
    graph = {name: set(imported(path)) for name, path in FILES.items()}
    assert sum(len(each) for each in graph.values()) > 1000
    assert cycle(graph) == []
