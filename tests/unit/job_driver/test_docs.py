"""The job of docs/writing-a-job.md does what the page says."""

import re
from pathlib import Path

import numpy as np

from job_driver import Arrays, Job, Result, Task
from job_driver.bundle import load
from job_driver.check import check_job

PAGE = Path(__file__).parents[3] / "docs" / "writing-a-job.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_first_job_of_the_page_runs(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(BLOCKS[0])
    for name, text in (("a", "20\n22\n"), ("b", "30\n")):
        (tmp_path / name).write_text(text)
    file = load(tmp_path / "job.py")
    check_job(file, shares=[tmp_path / "a", tmp_path / "b"], held_out=None, params={})
    names = {"measure": file.job.on_device, "Task": Task}
    exec(BLOCKS[1], names)  # our own page
    (tmp_path / "test").mkdir()
    names["test_measure"](tmp_path / "test")  # type: ignore[operator]


def test_the_median_of_the_page_is_an_aggregator(tmp_path: Path) -> None:
    names: dict[str, object] = {"np": np, "Arrays": Arrays, "Result": Result}
    exec(next(block for block in BLOCKS if "class Median" in block), names)  # our own page
    job = Job(initial=dict, on_device=dict, aggregate=names["Median"])  # type: ignore[arg-type]
    total = job.aggregate({"w": np.zeros(1)})
    for value in (1.0, 2.0, 900.0):
        total.add(Result({"w": np.array([value])}))
    assert total.close()["w"].tolist() == [2.0]
