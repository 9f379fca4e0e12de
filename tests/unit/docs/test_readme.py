"""README.md names every page of the docs, and its first commands fit what `venn new` writes."""

import re
from pathlib import Path

from testbed.cli.scenario import write_starter
from testbed.scenario import load

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def test_every_page_is_named() -> None:
    pages = [str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 20
    assert [page for page in pages if f"]({page})" not in README] == []


def test_the_job_that_is_explained_is_one_of_the_scenario_that_was_run(tmp_path: Path) -> None:
    scenario, *_ = write_starter(tmp_path)
    (explained,) = re.findall(r"venn explain (\S+) --run", README)
    assert explained in load(scenario).jobs
