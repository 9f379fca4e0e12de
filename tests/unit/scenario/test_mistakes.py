"""What is told of each kind of mistake: exactly the words of mistakes.txt."""

from pathlib import Path

import pytest

from testbed.scenario import parse
from tests.unit.scenario.conftest import PLAIN, problems

# Each entry: what stands in the file -> what stands there instead, and on the next line the first thing that is told.
MISTAKES = [entry.split("\n") for entry in Path(__file__).with_name("mistakes.txt").read_text().strip().split("\n\n")]


@pytest.mark.parametrize(("change", "told"), MISTAKES)
def test_one_mistake_one_line(folder: Path, change: str, told: str) -> None:
    old, new = change.replace("\\n", "\n").split(" -> ")
    assert PLAIN.count(old) == 1, old
    assert problems(PLAIN.replace(old, new))[0] == told.replace("{folder}", str(folder))


@pytest.mark.parametrize("fits", ["demand: 104", "demand: 104, over_commit: 50%", "demand: 105, repeat: allow"])
def test_a_demand_that_can_be_filled(folder: Path, fits: str) -> None:
    assert parse(PLAIN.replace("demand: 20, rounds: 18", f"{fits}, rounds: 18"))


def test_very_many_mistakes_are_told_in_part(folder: Path) -> None:
    """Each could be compared with as many names, and name all of them."""
    names = ", ".join(f"r{number}: all" for number in range(2_000))
    jobs = ", ".join(
        f"j{number}: {{requirement: x{number}, demand: 1, rounds: 1, deadline: 5s}}" for number in range(300)
    )
    text = (
        f"version: 1\nname: x\nbackend: sim\nrequirements: {{{names}}}\njobs: {{{jobs}}}\nfleets: {{a: {{count: 2}}}}\n"
    )
    told = problems(text)
    assert len(told) == 100
    assert told[0].endswith("and 1951 more")
    assert max(map(len, told)) < 1_000
    keys = ", ".join(f"k{number}: 1" for number in range(2_000))
    assert len(problems(f"version: 1\nname: x\nfleets: {{a: {{{keys}}}}}\n")) == 100
