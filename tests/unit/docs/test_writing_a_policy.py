"""The tutorial and the reference of policies show the example, which runs from its file, and as a package by name."""

import re
import tomllib
from pathlib import Path

import pytest

from coordinator.policies.registry import load_policy, policy_names, summary
from testbed.testing.arena import CASES, run
from tests.tutorials import steps

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "policies"


def test_the_pages_show_the_files_as_they_are() -> None:
    files = {step.file: step.text for step in steps("write-a-policy.md")}
    assert files["rare_first.py"] == (EXAMPLE / "rare_first.py").read_text()
    (points,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "writing-a-policy.md").read_text(), re.DOTALL)
    assert points in (EXAMPLE / "pyproject.toml").read_text()


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
