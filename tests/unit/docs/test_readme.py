"""The first commands of README.md fit what `venn new` writes."""

import re
from pathlib import Path

from testbed.cli.new import write_starter
from testbed.scenario import load

README = (Path(__file__).parents[3] / "README.md").read_text()


def test_the_job_that_is_explained_is_one_of_the_scenario_that_was_run(tmp_path: Path) -> None:
    scenario, *_ = write_starter(tmp_path)
    (explained,) = re.findall(r"venn explain (\S+) --run", README)
    assert explained in load(scenario).jobs
