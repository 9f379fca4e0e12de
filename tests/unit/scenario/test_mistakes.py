"""What is told of each kind of mistake: exactly the words of mistakes.txt."""

from pathlib import Path

import pytest

from tests.unit.scenario.conftest import PLAIN, problems

# Each entry: what stands in the file -> what stands there instead, and on the next line the first thing that is told.
MISTAKES = [entry.split("\n") for entry in Path(__file__).with_name("mistakes.txt").read_text().strip().split("\n\n")]


@pytest.mark.parametrize(("change", "told"), MISTAKES)
def test_one_mistake_one_line(folder: Path, change: str, told: str) -> None:
    old, new = change.replace("\\n", "\n").split(" -> ")
    assert PLAIN.count(old) == 1, old
    assert problems(PLAIN.replace(old, new))[0] == told.replace("{folder}", str(folder))
