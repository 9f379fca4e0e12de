"""Policies by name, and what is said when the name is wrong."""

from pathlib import Path

import pytest

from coordinator.engine.plan import Plan
from coordinator.policies.registry import PolicyError, absolute, load_policy, policy_names, summary
from tests.unit.policies.arena import CASES, view

BUILT_IN = ["fifo", "las", "random", "random-order", "srsf", "srsf-job", "venn", "venn-queue"]

MINE = '''
"""A policy of one's own."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.engine.plan import Plan


@dataclass(frozen=True)
class Idle:
    """nobody is served"""

    name: str = "idle"

    def plan(self, view):
        return Plan()


class Broken:
    def __init__(self):
        raise RuntimeError("out of ideas")


number = 7
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_the_built_in_policies_are_found_by_entry_point() -> None:
    assert set(BUILT_IN) <= set(policy_names())
    for name in BUILT_IN:
        assert load_policy(name).name == name
        assert summary(name)
        assert load_policy(name).plan(view(CASES["A"], (4, 2))).queues


def test_a_typo_is_met_with_the_known_names() -> None:
    with pytest.raises(PolicyError, match=r"no policy 'ven'; did you mean venn\?; known: .*fifo.*venn"):
        load_policy("ven")


def test_nothing_is_guessed_for_a_name_like_no_other() -> None:
    with pytest.raises(PolicyError, match="no policy 'zzz'; known:"):
        load_policy("zzz")


def test_a_policy_of_ones_own_comes_from_a_file(mine: Path) -> None:
    policy = load_policy(f"{mine}:Idle")
    assert policy.name == "idle"
    assert policy.plan(view(CASES["A"], (4, 2))) == Plan()
    assert summary(f"{mine}:Idle") == "nobody is served"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("{}:Other", "mine.py has no Other"),
        ("{}:Broken", "cannot be loaded: RuntimeError: out of ideas"),
        ("{}:number", "cannot be loaded: TypeError"),
        ("{}:Plan", "is a Plan without `name` and"),
        ("no/such/file.py:Idle", "no/such/file.py is not a file"),
    ],
)
def test_a_file_that_holds_no_such_policy(mine: Path, name: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        load_policy(name.format(mine))


def test_a_file_with_a_syntax_error_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("class :")
    with pytest.raises(PolicyError, match="cannot be loaded: SyntaxError"):
        load_policy(f"{path}:Idle")


def test_a_file_is_meant_from_here_wherever_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("mine.py:Idle") == f"{tmp_path}/mine.py:Idle"
    assert absolute(f"{tmp_path}/mine.py:Idle") == f"{tmp_path}/mine.py:Idle"
    assert absolute("venn") == "venn"
