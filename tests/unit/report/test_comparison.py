import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from testbed.report.comparison import (
    MEAN_JCT,
    P50_JCT,
    P95_JCT,
    P99_JCT,
    PAIRED,
    Comparison,
    GroupSupply,
    RunResult,
    TraceFacts,
    compare,
    fairness,
    read_run,
)
from testbed.report.comparison_page import write_comparison
from testbed.report.comparison_table import (
    claim,
    comparison_csv,
    comparison_json,
    comparison_table,
    intervals_csv,
    overview_json,
    overview_table,
    overviews,
    problems,
    sheets,
)
from testbed.report.draw_comparison import knob_of, supply_and_demand
from testbed.runfolder.jsonlines import Row
from tests.unit.report.pages import check_page


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


def said_of(found: Comparison, policy: str = "venn", against: str = "random") -> str:
    """The claim on a policy."""
    result = next(one for one in found.policies if one.policy == policy)
    return claim(result, found.pair(policy, against))


def test_a_difference_that_the_interval_allows_is_claimed() -> None:
    found = compared(REAL)
    assert [result.best for result in found.policies] == [False, True]
    pair = found.pair("venn", "random")
    assert pair is not None
    assert pair.speed_up.mean == pytest.approx(1.304, abs=0.01)
    assert pair.speed_up.low == pytest.approx(1.268, abs=0.01)
    assert said_of(found) == "shorter"
    assert said_of(found, "random", "venn") == "longer"


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (runs(("random", [80.0, 84.0, 70.0]), ("venn", [79.0, 90.0, 60.0])), "no claim: the interval includes 1"),
        (runs(("random", [80.0, 84.0]), ("venn", [60.0, 64.0])), "no claim: 2 of the 3 seeds that a claim needs"),
        (
            runs(("random", [80.0, 84.0, 82.0]), ("venn", [60.0, 64.0, 63.0]), saturated=True),
            "no claim: the host was too busy",
        ),
        (runs(("random", [80.0, None]), ("venn", [None, 64.0])), "no claim: no seed in common"),
        (runs(("random", [60.0, 62.0, 61.0]), ("venn", [70.0, 73.0, 71.0])), "longer"),
    ],
)
def test_nothing_more_is_claimed(results: list[RunResult], said: str) -> None:
    found = compared(results)
    assert said_of(found) == said
    assert not found.policies[1].best


def test_a_policy_that_did_not_finish_at_some_seeds_is_never_ahead() -> None:
    jcts: list[tuple[str, list[float | None]]] = [
        ("safe", [100.0, 101.0, 102.0, 103.0, 104.0]),
        ("starves", [80.0, 81.0, 82.0, None, None]),
    ]
    found = compare("three", ["safe", "starves"], runs(*jcts))
    assert [(result.best, result.unfinished) for result in found.policies] == [(False, ()), (False, (3, 4))]
    assert said_of(found, "starves", "safe") == "no claim: starves did not finish at seed 3, 4"
    assert said_of(found, "safe", "starves") == said_of(found, "starves", "safe")
    [pair] = found.pairs
    assert (pair.ahead, pair.speed_up.low > 1) == ("", True)
    starves = sheets(found)[0].rows[1]
    assert (starves[1], starves[-1]) == ("3 of 5", "")


def test_one_that_always_finished_may_be_ahead_of_one_that_did_not() -> None:
    jcts: list[tuple[str, list[float | None]]] = [
        ("starves", [100.0, 101.0, 102.0, None]),
        ("safe", [80.0, 81.0, 82.0, 83.0]),
    ]
    found = compare("three", ["starves", "safe"], runs(*jcts))
    assert said_of(found, "safe", "starves") == "shorter"
    assert [result.best for result in found.policies] == [False, True]


def test_percentiles_and_fairness_have_intervals_and_are_paired_too() -> None:
    rows = [
        read_run(summary(policy, seed, None) | {"jobs": jobs, "unfinished_jobs": 0}, "")
        for policy, times in (("random", 2.0), ("venn", 1.0))
        for seed in range(4)
        for jobs in [[{"name": str(n), "finished": True, "jct_s": times * (n + 1 + seed)} for n in range(101)]]
    ]
    found = compared(rows)
    measures = found.policies[1].measures
    assert {name: measures[name].mean for name in (P50_JCT, P95_JCT, P99_JCT)} == {
        P50_JCT: pytest.approx(52.5),
        P95_JCT: pytest.approx(97.5),
        P99_JCT: pytest.approx(101.5),
    }
    half = 3.182446 * math.sqrt(5 / 3) / 2  # Student's t of 3 degrees of freedom; seeds differ by 1 s
    assert measures[P99_JCT].high - measures[P99_JCT].mean == pytest.approx(half, rel=1e-5)
    pair = found.pair("venn", "random")
    assert pair is not None
    assert [(pair.ratios[name].mean, pair.ratios[name].low) for name in PAIRED] == [
        *[(pytest.approx(2.0), pytest.approx(2.0))] * 3,
        (pytest.approx(1.0), pytest.approx(1.0)),
    ]


def test_a_run_with_an_unfinished_job_is_no_sample() -> None:
    found = compared(runs(("random", [80.0, 84.0, 82.0]), ("venn", [60.0, None, 63.0])))
    assert not found.complete
    assert found.policies[1].mean_jct_s.runs == 2
    assert problems(found) == ["venn at seed 1: one did not finish; the run is left out (see out/venn/1)"]


def test_a_busy_host_is_said_and_not_trusted() -> None:
    found = compared(runs(("random", [80.0]), ("venn", [60.0]), saturated=True))
    assert not found.trusted
    assert (
        problems(found)[0]
        == "the host was too busy in 2 of 2 runs, which no claim is based on: random at seed 0, venn at seed 0"
    )


def test_busy_runs_are_left_out_and_the_rest_may_make_a_claim() -> None:
    busy = [replace(run, saturated=("the processor was busy",)) if run.seed == 1 else run for run in REAL]
    found = compared(busy)
    assert found.trusted
    assert [(result.mean_jct_s.runs, result.busy) for result in found.policies] == [(3, (1,)), (3, (1,))]
    assert said_of(found) == "shorter"
    assert sheets(found)[0].rows[0][1] == "3 of 4"
    one = [replace(run, saturated=("it was",)) if run.policy == "venn" and run.seed > 1 else run for run in REAL]
    few = compared(one)
    assert not few.trusted
    assert said_of(few) == "no claim: 2 of the 3 seeds that a claim needs"


def test_the_table_is_plain_and_whole_where_there_is_no_terminal() -> None:
    file = io.StringIO()
    Console(file=file, width=152, color_system=None).print(comparison_table(compared(REAL)), crop=False)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert (
        lines[0]
        == "three-jobs   104 devices   4 seeds   backend process   same devices, sessions and jobs for every policy"
    )
    assert lines[3].split("  ")[:3] == ["POLICY", "RUNS", "MEAN JCT s"]
    each = ["84.0", "77.1-90.9"]  # of one job, every percentile is the mean
    assert lines[4].split() == ["random", "4", *each * 4, "1.00", "1.00-1.00"]
    assert lines[5].split()[-1] == "best"
    assert lines[7] == "times better than random, seed by seed"
    assert lines[9].split()[:4] == ["venn", "4", "1.30", "1.26-1.34"]
    assert lines[9].endswith("shorter")
    assert lines[13].split() == ["random", "42.0", "2.0", "1.0", "5.0"]
    assert "…" not in file.getvalue()


def test_json_and_csv_have_every_run() -> None:
    found = compared(runs(("random", [80.0]), ("venn", [60.0])))
    said = json.loads(json.dumps(comparison_json(found), allow_nan=False))
    assert said["policies"][1]["measures"]["mean_jct_s"]["low"] is None
    assert said["pairs"][0]["ratios"]["jain"]["mean"] == 1.0
    assert [run["mean_jct_s"] for run in said["runs"]] == [80.0, 60.0]
    rows = comparison_csv([found]).splitlines()
    assert rows[1] == "three-jobs,random,0,one,True,80.0,40.0,2.0,1,5.0,,3,0.9,False,out/random/0"
    assert len(rows) == 3


def test_intervals_are_in_a_file_a_line_for_each_figure() -> None:
    rows = [line.split(",") for line in intervals_csv([compared(REAL)]).splitlines()]
    assert rows[0] == ["scenario", "policy", "over", "measure", "mean", "low", "high", "seeds", "claim"]
    found = {tuple(row[1:4]): row[4:] for row in rows[1:]}
    assert found["random", "", "p95_jct_s"][0] == "84.0"
    assert found["venn", "random", "mean_jct_s"][-2:] == ["4", "shorter"]
    assert found["random", "venn", "mean_jct_s"][-1] == "longer"
    assert {measure for policy, over, measure in found if over} == set(PAIRED)
    alone = intervals_csv([compared(runs(("random", [80.0]), ("venn", [60.0])))])
    assert "three-jobs,venn,,mean_jct_s,60.0,,,1," in alone


def test_long_times_are_in_hours() -> None:
    found = compared(runs(("random", [72_000.0, 75_600.0, 72_000.0]), ("venn", [36_000.0, 36_000.0, 36_000.0])))
    file = io.StringIO()
    Console(file=file, width=152, color_system=None).print(comparison_table(found), crop=False)
    assert "MEAN JCT h" in file.getvalue()
    assert "20.33" in file.getvalue()


def test_each_policy_is_held_against_each() -> None:
    jcts = [("random", [80.0, 84.0, 82.0]), ("fifo", [70.0, 75.0, 71.0]), ("venn", [60.0, 66.0, 63.0])]
    found = compare("three", ["random", "fifo", "venn"], runs(*jcts))  # type: ignore[arg-type]  # floats are optional
    assert [(pair.policy, pair.against) for pair in found.pairs] == [
        ("fifo", "random"),
        ("venn", "random"),
        ("venn", "fifo"),
    ]
    assert {pair.ahead for pair in found.pairs if pair.policy == "venn"} == {"venn"}
    assert found.policies[2].best


def test_policies_are_held_against_as_many_as_asked_for() -> None:
    jcts: list[tuple[str, list[float | None]]] = [
        ("random", [80.0, 84.0]),
        ("fifo", [70.0, 75.0]),
        ("venn", [60.0] * 2),
    ]
    names = ["random", "fifo", "venn"]
    found = compare("three", names, runs(*jcts), over=["random", "fifo"])
    titles = [sheet.title for sheet in sheets(found)]
    assert titles[1:3] == ["times better than random, seed by seed", "times better than fifo, seed by seed"]
    assert [row[0] for row in sheets(found)[2].rows] == ["random", "venn"]
    over_fifo = sheets(found)[2].rows[0]
    assert over_fifo[2] == f"{1 / math.sqrt(80 / 70 * 84 / 75):.2f}"
    wholes = overviews([found, replace(found, name="four")], names)
    assert [one.base for one in wholes] == ["random", "fifo"]


def test_one_policy_is_held_against_none() -> None:
    found = compare("three-jobs", ["venn"], runs(("venn", [60.0, 66.0])))
    assert len(sheets(found)) == 2


def test_fairness_is_of_jct_over_fair_jct_where_the_jct_alone_is_known() -> None:
    said = summary("venn", 1, 80.0)
    rows = [{"name": "a", "jct_s": 40.0, "alone_s": 10.0}, {"name": "b", "jct_s": 80.0, "alone_s": 20.0}]
    assert fairness(read_run(said | {"jobs": rows}, "")) == 1.0
    rows[1]["alone_s"] = 10.0
    assert fairness(read_run(said | {"jobs": rows}, "")) == pytest.approx(0.9)


def test_workloads_are_shown_side_by_side_with_their_mean() -> None:
    one = compare("one", ["random", "venn"], runs(("random", [80.0, 80.0]), ("venn", [40.0, 40.0])))
    two = compare("two", ["random", "venn"], runs(("random", [80.0, 80.0]), ("venn", [10.0, 10.0])))
    [found] = overviews([one, two], ["random", "venn"])
    [row] = found.rows
    assert [each.mean for each in row.speed_ups if each] == pytest.approx([2.0, 8.0])
    mean = row.means[MEAN_JCT]
    assert mean is not None
    assert (mean.mean, mean.low) == (pytest.approx(4.0), pytest.approx(4.0))
    said = json.loads(json.dumps(overview_json(found), allow_nan=False))
    assert said["geometric_mean"]["venn"]["mean_jct_s"]["runs"] == 2
    file = io.StringIO()
    Console(file=file, width=120, color_system=None).print(overview_table([found]))
    lines = file.getvalue().splitlines()
    assert lines[2].split() == ["venn", "2.00", "2.00-2.00", "8.00", "8.00-8.00", "4.00", "4.00-4.00"]


def test_knobs_are_found_in_the_parameters() -> None:
    assert knob_of("venn(fairness=2; tiers=1)") == ("venn(tiers=1)", 2.0)
    assert knob_of("venn(fairness=0.5)") == ("venn", 0.5)
    assert knob_of("venn") == ("venn", 0.0)
    assert knob_of("venn(fairness=x)") == ("venn(fairness=x)", 0.0)


def test_its_page_has_every_figure(tmp_path: Path) -> None:
    about: Row = {"policies": ["random", "venn"], "command": ["venn", "compare", "three.yaml"], "machine": {"cores": 2}}
    page = write_comparison([compared(REAL)], tmp_path, about).read_text()
    check_page(page)
    assert page.count("<svg") == 6
    assert "· 4 seeds · backend" in page
    assert "84.0 s, of which" in page
    assert "<td>shorter</td>" in page
    assert "<pre>venn compare three.yaml</pre>" in page
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {f"three-jobs-{name}.csv" for name in ("speed-up", "jct", "split")} <= names
    (tmp_path / "none").mkdir()
    alone = write_comparison([compared(runs(("random", [None]), ("venn", [None])))], tmp_path / "none", about)
    assert "did not finish" in alone.read_text()


def test_its_page_compares_the_parts_of_the_time_and_the_reasons_of_the_waits(tmp_path: Path) -> None:
    def run(policy: str, jct: float, why: str, said: str) -> RunResult:
        wait = {"why": why, "job": "", "rule": "", "text": said, "seconds": jct - 10}
        job = {"name": "a", "jct_s": jct, "delay_s": jct - 10, "collect_s": 10.0, "waits": [wait]}
        return read_run(summary(policy, 1, jct) | {"jobs": [job]}, "")

    both = [run("random", 60.0, "absent", "no device"), run("venn", 40.0, "busy", "busy elsewhere")]
    page = write_comparison([compared(both)], tmp_path, {"policies": ["random", "venn"]}).read_text()
    first = page[page.index('id="waits"') : page.index('id="workload-1"')]
    assert "Under venn a job takes 20.0 s less than under random: 20.0 s less waiting for devices." in first
    assert re.search(r"<b>83 %</b> <span>no device <small>50\.0 s", first)
    assert re.search(r"<b>75 %</b> <span>busy elsewhere <small>30\.0 s", first)
    assert "do not record" not in first
    alike = [run("random", 60.0, "absent", "no device"), run("venn", 60.0, "absent", "no device")]
    page = write_comparison([compared(alike)], tmp_path, {"policies": ["random", "venn"]}).read_text()
    assert "Under venn a job takes as long as under random." in page


def test_supply_is_drawn_until_the_last_run_ends() -> None:
    facts = TraceFacts(1, 24, (GroupSupply("any", (9.0,) * 24),), (), {})
    shown = supply_and_demand(replace(compared(REAL), facts=(facts,)), "three")
    assert shown is not None
    assert [row[2] for row in shown.rows if row[1] == "check-ins an hour"] == [0]
    ends = max(job.arrived_s + (job.jct_s or 0.0) for run in REAL for job in run.jobs) / 3600
    assert shown.figure.axes[0].get_xlim() == pytest.approx((0, ends))


def test_a_page_of_knobs_draws_their_price(tmp_path: Path) -> None:
    policies = ["venn", "venn(fairness=1)"]
    jcts: list[tuple[str, list[float | None]]] = [(policies[0], [60.0, 62.0]), (policies[1], [66.0, 67.0])]
    found = compare("three", policies, runs(*jcts))
    page = write_comparison([found, replace(found, name="four")], tmp_path, {"policies": policies}).read_text()
    check_page(page)
    assert page.count("<svg") == 17  # the overview has no narrow one
    assert "2 workloads" in page
    rows = (tmp_path / "figures" / "three-fairness.csv").read_text().splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == ["0.0", "1.0"]
    assert (tmp_path / "figures" / "overview-speed-up-venn.pdf").is_file()
