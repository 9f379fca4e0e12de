import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from testbed.report.comparison import Comparison, compare, fairness, verdict
from testbed.report.comparison_page import write_comparison
from testbed.report.comparison_table import ahead, comparison_csv, comparison_json, comparison_table, problems
from testbed.report.figures.worlds import knob_of
from testbed.report.jsonlines import Row
from testbed.report.overview import overview, overview_json, overview_table
from testbed.report.run_result import RunResult, read_run


def summary(policy: str, seed: int, jct_s: float | None, *, saturated: bool = False) -> Row:
    job: Row = {"name": "one", "finished": jct_s is not None, "jct_s": jct_s, "aborts": 1, "accuracy": 0.9}
    job |= {"delay_s": (jct_s or 9.0) / 2, "collect_s": 2.0, "stragglers": 3, "wasted_device_s": 5.0}
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
    Console(file=file, width=152, color_system=None).print(comparison_table(compared(REAL)), crop=False)
    lines = file.getvalue().splitlines()
    assert (
        lines[0]
        == "three-jobs   104 devices   4 seeds   backend process   same devices, sessions and jobs for every policy"
    )
    assert lines[2].split("  ")[:3] == ["POLICY", "RUNS", "MEAN JCT s"]
    times = ["83.0", "89.1", "89.8", "42.0", "2.0"]
    assert lines[3].split() == ["random", "4", "84.0", "77.1-90.9", "1.00", *times, "1.0", "5.0", "1.00"]
    assert lines[4].split()[-1] == "best"
    assert "…" not in file.getvalue()


def test_json_and_csv_have_every_run() -> None:
    found = compared(runs(("random", [80.0]), ("venn", [60.0])))
    said = json.loads(json.dumps(comparison_json(found), allow_nan=False))
    assert said["policies"][1]["mean_jct_s"]["low"] is None
    assert [run["mean_jct_s"] for run in said["runs"]] == [80.0, 60.0]
    rows = comparison_csv([found]).splitlines()
    assert rows[1] == "three-jobs,random,0,one,True,80.0,40.0,2.0,1,5.0,,3,0.9,False,out/random/0"
    assert len(rows) == 3


def test_long_times_are_in_hours() -> None:
    found = compared(runs(("random", [72_000.0, 75_600.0, 72_000.0]), ("venn", [36_000.0, 36_000.0, 36_000.0])))
    file = io.StringIO()
    Console(file=file, width=152, color_system=None).print(comparison_table(found), crop=False)
    assert "MEAN JCT h" in file.getvalue()
    assert "venn against random, seed by seed: 10.33 h shorter" in file.getvalue()


def test_each_policy_is_held_against_each() -> None:
    jcts = [("random", [80.0, 84.0, 82.0]), ("fifo", [70.0, 75.0, 71.0]), ("venn", [60.0, 66.0, 63.0])]
    found = compare("three", ["random", "fifo", "venn"], runs(*jcts))  # type: ignore[arg-type]  # floats are optional
    assert [(pair.policy, pair.against) for pair in found.pairs] == [
        ("fifo", "random"),
        ("venn", "random"),
        ("venn", "fifo"),
    ]
    assert all(pair.shorter_s.real for pair in found.pairs)
    assert found.policies[2].best
    assert ahead(found) == "really ahead as well: venn of fifo"


def test_fairness_is_of_jct_over_fair_jct_where_the_jct_alone_is_known() -> None:
    said = summary("venn", 1, 80.0)
    rows = [{"name": "a", "jct_s": 40.0, "alone_s": 10.0}, {"name": "b", "jct_s": 80.0, "alone_s": 20.0}]
    assert fairness(read_run(said | {"jobs": rows}, "")) == 1.0
    rows[1]["alone_s"] = 10.0
    assert fairness(read_run(said | {"jobs": rows}, "")) == pytest.approx(0.9)


def test_workloads_are_shown_side_by_side_with_their_mean() -> None:
    one = compare("one", ["random", "venn"], runs(("random", [80.0, 80.0]), ("venn", [40.0, 40.0])))
    two = compare("two", ["random", "venn"], runs(("random", [80.0, 80.0]), ("venn", [10.0, 10.0])))
    found = overview([one, two], ["random", "venn"])
    assert [row.speed_ups[0].mean for row in found.rows if row.speed_ups[0]] == pytest.approx([2.0, 8.0])
    mean = found.mean.speed_ups[0]
    assert mean is not None
    assert (mean.mean, mean.low) == (pytest.approx(4.0), pytest.approx(4.0))
    said = json.loads(json.dumps(overview_json(found), allow_nan=False))
    assert said["geometric_mean"]["venn"]["runs"] == 2
    file = io.StringIO()
    Console(file=file, width=100, color_system=None).print(overview_table(found))
    assert file.getvalue().splitlines()[-1].split() == ["geometric", "mean", "4.00", "4.00-4.00"]


def test_knobs_are_found_in_the_parameters() -> None:
    assert knob_of("venn(fairness=2; tiers=1)") == ("venn(tiers=1)", 2.0)
    assert knob_of("venn(fairness=0.5)") == ("venn", 0.5)
    assert knob_of("venn") == ("venn", 0.0)
    assert knob_of("venn(fairness=x)") == ("venn(fairness=x)", 0.0)


def test_its_page_has_every_figure(tmp_path: Path) -> None:
    about: Row = {"policies": ["random", "venn"], "command": ["venn", "compare", "three.yaml"], "machine": {"cores": 2}}
    page = write_comparison([compared(REAL)], tmp_path, about).read_text()
    assert page.count("<svg") == 4
    assert "the difference is real" in page
    assert "<pre>venn compare three.yaml</pre>" in page
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {f"three-jobs-{name}.csv" for name in ("speed-up", "jct", "split", "differences")} <= names
    (tmp_path / "none").mkdir()
    alone = write_comparison([compared(runs(("random", [None]), ("venn", [None])))], tmp_path / "none", about)
    assert "did not finish" in alone.read_text()


def test_a_page_of_knobs_draws_their_price(tmp_path: Path) -> None:
    policies = ["venn", "venn(fairness=1)"]
    jcts: list[tuple[str, list[float | None]]] = [(policies[0], [60.0, 62.0]), (policies[1], [66.0, 67.0])]
    found = compare("three", policies, runs(*jcts))
    page = write_comparison([found, replace(found, name="four")], tmp_path, {"policies": policies}).read_text()
    assert page.count("<svg") == 11
    assert "2 workloads" in page
    rows = (tmp_path / "figures" / "three-fairness.csv").read_text().splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == ["0.0", "1.0"]
    assert (tmp_path / "figures" / "overview-speed-up.pdf").is_file()
