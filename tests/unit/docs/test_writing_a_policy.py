"""docs/writing-a-policy.md and examples/policies: the policy runs from its file and, as a package, by name."""

import re
import tomllib
from pathlib import Path

import pytest

from coordinator.policies.registry import load_policy, policy_names, summary
from testbed.testing.arena import CASES, run

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "policies"
PAGE = (ROOT / "docs" / "writing-a-policy.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_shows_the_files_as_they_are() -> None:
    (shown, test), (points,) = ([code for kind, code in BLOCKS if kind == wanted] for wanted in ("python", "toml"))
    assert shown == (EXAMPLE / "rare_first.py").read_text()
    assert points in (EXAMPLE / "pyproject.toml").read_text()
    assert "def test_" in test


def test_the_test_of_the_page_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    names: dict[str, object] = {}
    exec(BLOCKS[1][1], names)  # our own page
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "fills"),
    [
        ("A", [6, 4]),  # G4 on two regions costs 4 x 2 x 2, H2 on one 2 x 1 x 1
        ("B", [10, 3, 7, 11]),  # H 5, each G 8: long, but scarce enough to keep gh
        ("C", [12, 9, 6]),
        ("D", [2, 5, 8, 17, 6]),  # each G 18, C 24, H 2: G takes what it needs of gc, one after the other
        ("E", [6, 5, 3]),
    ],
)
def test_what_it_does_in_the_exact_cases(name: str, fills: list[int]) -> None:
    assert run(CASES[name], load_policy(f"{EXAMPLE / 'rare_first.py'}:RareFirst")).fills == fills


def test_its_package_makes_it_known_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip writes for it, written by hand: a dist-info folder with the entry points of its pyproject.toml."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["venn.policies"]
    installed = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0.0\n")
    lines = [f"{name} = {target}" for name, target in points.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[venn.policies]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    assert "rare-first" in policy_names()
    assert load_policy("rare-first").name == "rare-first"
    assert summary("rare-first").startswith("smallest")
