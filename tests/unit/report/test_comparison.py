import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from testbed.report.comparison import Comparison, RunResult, compare, read_run, verdict
from testbed.report.comparison_page import write_comparison
from testbed.report.comparison_table import comparison_csv, comparison_json, comparison_table, problems
from testbed.report.jsonlines import Row


def summary(policy: str, seed: int, jct_s: float | None, *, saturated: bool = False) -> Row:
    job: Row = {"name": "one", "finished": jct_s is not None, "jct_s": jct_s, "aborts": 1, "accuracy": 0.9}
    job |= {"delay_s": (jct_s or 9.0) / 2, "collect_s": 2.0, "stragglers": 3}
    reasons = ["the processor was busy"] if saturated else []
    return {
        "policy": policy,
        "seed": seed,
        "devices": 104,
        "backend": "process",
        "unfinished_jobs": int(jct_s is None),
        "jobs": [job],
        "host": {"saturated": saturated, "reasons": reasons},
        "expectations": [{"expect": "x > 1", "held": True}],
    }


def runs(*jcts: tuple[str, list[float | None]], saturated: bool = False) -> list[RunResult]:
    return [
        read_run(summary(policy, seed, jct, saturated=saturated), f"out/{policy}/{seed}")
        for policy, values in jcts
        for seed, jct in enumerate(values)
    ]


REAL = runs(("random", [80.0, 84.0, 82.0, 90.0]), ("venn", [60.0, 66.0, 63.0, 69.0]))


def compared(results: list[RunResult]) -> Comparison:
    return compare("three-jobs", ["random", "venn"], results)


def test_a_difference_that_the_interval_allows_is_claimed() -> None:
    found = compared(REAL)
    base, venn = found.policies
    assert (base.speed_up, base.shorter_s, base.best, venn.best) == (None, None, False, True)
    assert venn.speed_up is not None
    assert venn.speed_up.mean == pytest.approx(1.304, abs=0.01)
    assert verdict(found, venn).startswith("venn against random, seed by seed: 19.5 s shorter (95 % CI 17.4 to 21.6)")
    assert verdict(found, venn).endswith("the difference is real")


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (runs(("random", [80.0, 84.0, 70.0]), ("venn", [79.0, 90.0, 60.0])), "the interval has 0 in it, no claim"),
        (runs(("random", [80.0, 84.0]), ("venn", [60.0, 64.0])), "over 2 of the 3 seeds that a claim needs: no claim"),
        (runs(("random", [80.0, 84.0, 82.0]), ("venn", [60.0, 64.0, 63.0]), saturated=True), "too busy, no claim"),
        (runs(("random", [80.0, None]), ("venn", [None, 64.0])), "no seed in common with random: no claim"),
        (
            runs(("random", [60.0, 62.0, 61.0]), ("venn", [70.0, 73.0, 71.0])),
            "longer (95 % CI 8.9 to 11.8): the difference is real",
        ),
    ],
)
def test_nothing_more_is_claimed(results: list[RunResult], said: str) -> None:
    found = compared(results)
    assert verdict(found, found.policies[1]).endswith(said)
    assert not found.policies[1].best


def test_a_run_with_an_unfinished_job_is_no_sample() -> None:
    found = compared(runs(("random", [80.0, 84.0, 82.0]), ("venn", [60.0, None, 63.0])))
    assert not found.complete
    assert found.policies[1].mean_jct_s.runs == 2
    assert problems(found) == ["venn at seed 1: one did not finish; the run is left out (see out/venn/1)"]


def test_a_busy_host_is_said_and_not_trusted() -> None:
    found = compared(runs(("random", [80.0]), ("venn", [60.0]), saturated=True))
    assert not found.trusted
    assert problems(found)[0] == "the host was too busy in 2 of 2 runs: random at seed 0, venn at seed 0"


def test_the_table_is_plain_and_whole_where_there_is_no_terminal() -> None:
    file = io.StringIO()
    Console(file=file, width=124, color_system=None).print(comparison_table(compared(REAL)), crop=False)
    lines = file.getvalue().splitlines()
    assert (
        lines[0]
        == "three-jobs   104 devices   4 seeds   backend process   same devices, sessions and jobs for every policy"
    )
    assert lines[3].split() == ["random", "4", "84.0", "4.3", "77.1-90.9", "1.00", "89.1", "42.0", "2.0", "1.0", "1.00"]
    assert lines[4].split()[-1] == "best"
    assert "…" not in file.getvalue()


def test_json_and_csv_have_every_run() -> None:
    found = compared(runs(("random", [80.0]), ("venn", [60.0])))
    said = json.loads(json.dumps(comparison_json(found), allow_nan=False))
    assert said["policies"][1]["mean_jct_s"]["low"] is None
    assert [run["mean_jct_s"] for run in said["runs"]] == [80.0, 60.0]
    rows = comparison_csv([found]).splitlines()
    assert rows[1] == "three-jobs,random,0,one,True,80.0,40.0,2.0,1,3,0.9,False,out/random/0"
    assert len(rows) == 3


def test_its_page_has_every_figure(tmp_path: Path) -> None:
    page = write_comparison([compared(REAL)], tmp_path).read_text()
    assert page.count("<svg") == 4
    assert "the difference is real" in page
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {f"three-jobs-{name}.csv" for name in ("speed-up", "jct", "split", "differences")} <= names
    (tmp_path / "none").mkdir()
    alone = write_comparison([compared(runs(("random", [None]), ("venn", [None])))], tmp_path / "none")
    assert "did not finish" in alone.read_text()
