"""The tutorials that simulate, as they are written; the others are in tests/e2e."""

from pathlib import Path

import pytest

from tests.tutorials import PAGES, Step, follow, pattern, steps

LIVE = {"write-a-job.md"}


@pytest.mark.bulk  # it draws reports
@pytest.mark.timeout(300)  # a dozen commands, each in a process of its own
@pytest.mark.parametrize("page", sorted({path.name for path in PAGES.glob("*.md")} - LIVE))
def test_a_tutorial_does_what_it_says(page: str, tmp_path: Path) -> None:
    follow(page, tmp_path)


def test_a_page_is_taken_apart_into_its_files_and_commands() -> None:
    found = list(steps("write-a-job.md"))
    assert [step.file for step in found if step.file] == ["make_data.py", "job.py", "scenario.yaml"]
    assert found[1] == Step("", "python make_data.py")


@pytest.mark.parametrize(
    ("printed", "told", "same"),
    [
        ("a\nb", "a\nb", True),
        ("a\n...", "a\nb\nc", True),
        ("a ... c\n...\nz", "a b c\nx\ny\nz", True),
        ("...\nz", "z", True),
        ("a", "a\nb", False),
        ("a\n...\nz", "a\nb", False),
        ("a.b", "axb", False),
    ],
)
def test_what_dots_stand_for(printed: str, told: str, same: bool) -> None:
    assert bool(pattern(printed).fullmatch(told + "\n")) == same
