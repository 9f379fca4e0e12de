"""Policies by name, and what is said when the name is wrong."""

from pathlib import Path

import pytest

from coordinator.engine.plan import Plan
from coordinator.policies.registry import PolicyError, absolute, load_policy, policy_names, summary, tiers_of
from testbed.testing.arena import CASES, view

BUILT_IN = [
    "fifo",
    "las",
    "random",
    "random-job",
    "random-order",
    "srsf",
    "srsf-job",
    "venn",
    "venn-nomatch",
    "venn-nosched",
    "venn-queue",
    "venn-plus",
]

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


class Tuned:
    """with every kind of parameter"""

    name = "tuned"

    def __init__(self, size: int = 1, share: float = 0.5, *, quick: bool = False, label="none"):
        self.given = (size, share, quick, label)

    def plan(self, view):
        return Plan()


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
    with pytest.raises(PolicyError, match=r"no policy 'ven'; did you mean venn\? Known are .*fifo.*venn"):
        load_policy("ven")


def test_nothing_is_guessed_for_a_name_like_no_other() -> None:
    with pytest.raises(PolicyError, match="no policy 'zzz'; known are"):
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
        ("{}:", "mine.py: names no policy of the file; write .*mine.py:NAME"),
        ("{}:Broken", "cannot be loaded: RuntimeError: out of ideas"),
        ("{}:number", "cannot be loaded: TypeError"),
        ("{}:Plan", "is of type Plan, without `name` and"),
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
    assert absolute("venn(fairness=2)") == "venn(fairness=2)"
    assert absolute("mine.py:Idle(a=b/c)") == f"{tmp_path}/mine.py:Idle(a=b/c)"


def test_parameters_are_of_the_kind_that_the_policy_says(mine: Path) -> None:
    policy = load_policy(f"{mine}:Tuned(size=3; share = 2; quick=yes; label=a b)")
    assert policy.given == (3, 2.0, True, "a b")  # type: ignore[attr-defined]  # of a class that only the file knows
    assert load_policy(f"{mine}:Tuned()").given == (1, 0.5, False, "none")  # type: ignore[attr-defined]  # as above
    assert load_policy("venn( fairness=1.5; tiers=1 )").name == "venn"


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ("sise=3", "there is no parameter 'sise'; did you mean size?"),
        ("zzz=3", "there is no parameter 'zzz'; it has size, share, quick, label, spares"),
        ("size=2.5", "size is '2.5'; write a whole number"),
        ("share=much", "share is 'much'; write a number"),
        ("share=inf", "share is 'inf'; write a number"),
        ("quick=2", "quick is '2'; write yes or no"),
        ("size", "'size' is not KEY=VALUE"),
        ("size=1; size=2", "size is given twice"),
    ],
)
def test_a_parameter_that_is_wrong_is_one_line(mine: Path, parameters: str, says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(f"{mine}:Tuned({parameters})")
    assert str(caught.value) == f"policy '{mine}:Tuned({parameters})': {says}"


def test_a_value_that_the_policy_refuses_is_told_in_its_words() -> None:
    with pytest.raises(PolicyError, match=r"policy 'venn\(fairness=99\)': fairness is 99; it is 0 to 50"):
        load_policy("venn(fairness=99)")
    with pytest.raises(PolicyError, match="there is no parameter 'fairness'; it has spares"):
        load_policy("fifo(fairness=1)")
    with pytest.raises(PolicyError, match=r"no policy 'venn\('; did you mean venn"):
        load_policy("venn(")


def test_the_number_of_tiers_is_the_policys_parameter() -> None:
    names = ("venn", "fifo", "venn(tiers=5)", "venn-nosched(tiers = 1)", "venn(fairness=2; tiers=99)", "venn(tiers=x)")
    assert [tiers_of(name) for name in names] == [3, 3, 5, 1, 16, 3]
