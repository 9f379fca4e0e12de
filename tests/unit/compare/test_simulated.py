"""Cells in processes of their own: what is kept, what is shared, and what one that fails does to the rest."""

import asyncio
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from testbed.cli.main import main
from testbed.compare.folder import build_comparison, prepare, print_comparison, read_comparisons, write_manifest
from testbed.compare.plan import Asked, Plan, Workload, cell_key, workload, world_key
from testbed.compare.pool import Order, Queue, order_for, read_order, run_orders
from testbed.compare.runs import Progress, finished_cells, run_cells
from testbed.report.comparison import read_run
from testbed.report.words import slug
from testbed.scenario import Scenario, load
from testbed.scenario.backends import backend_spec
from testbed.scenario.packaged import packaged
from testbed.simulate.run import COMPILING
from venn.wire.command import Context
from venn.wire.errors import PeerError, UsageError, VennError

TINY = (sys.executable, "-m", "tests.unit.compare.tiny")


def plan_of(folder: Path, policies: Sequence[str] = ("random", "fifo"), seeds: int = 2, processes: int = 1) -> Plan:
    scenario = SimpleNamespace(
        name="tiny", seed=3, backend="sim", backend_spec=backend_spec("sim"), dump=lambda: "name: tiny\n"
    )
    return Plan(
        (Workload(folder, cast(Scenario, scenario), "d"),), tuple(policies), seeds, folder / "out", (), processes
    )


async def test_cells_are_simulated_once_and_told_as_they_end(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, processes=2)
    prepare(plan, ["venn", "compare", "tiny"], resume=False)
    said: list[str] = []
    runs = await run_cells(plan, Progress(4, 2, said.append), TINY)
    assert len(said) == 4
    assert said[-1].startswith("4 of 4  tiny under ")
    assert [str(run.asked) for run in runs] == [str(one) for one in plan.runs()]
    assert not (plan.out / "worker.log").exists()
    write_manifest(plan, ["venn", "compare", "tiny"], runs)
    written = build_comparison(plan.out)
    with pytest.raises(UsageError, match="nowhere"):
        print_comparison(written, Context(quiet=True), tmp_path / "nowhere" / "jobs.csv")
    [found] = written.comparisons
    assert (found.seeds, found.complete, len(found.facts)) == ((3, 4), True, 2)
    assert all(run.alone_s[job.name] for run in found.runs for job in run.jobs)
    page = written.page.read_text()
    assert "Supply and demand over the day" in page
    assert "Response times by tier" in page
    before = {run.file: run.file.stat().st_mtime_ns for run in runs}
    more = plan_of(tmp_path, seeds=3)
    prepare(more, [], resume=True)
    assert len(finished_cells(more)) == 4
    said.clear()
    again = await run_cells(more, Progress(6, say=said.append), TINY)
    assert sum(line.endswith(" s (kept)") for line in said) == 4
    assert len(again) == 6
    assert {file: file.stat().st_mtime_ns for file in before} == before


async def test_that_cells_wait_for_the_compiler_is_said_once(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ("compiles",), 2)
    prepare(plan, [], resume=False)
    said: list[str] = []
    await run_cells(plan, Progress(2, say=said.append), TINY)
    assert said[0] == COMPILING
    assert said.count(COMPILING) == 1


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_place_that_cannot_be_written_to_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=name):
        prepare(replace(plan_of(tmp_path), out=tmp_path / name), [], resume=False)


async def test_a_damaged_cell_is_made_again(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ("fifo",), 1)
    prepare(plan, [], resume=False)
    [run] = await run_cells(plan, Progress(1), TINY)
    write_manifest(plan, [], [run])
    run.file.write_text("{")
    with pytest.raises(UsageError, match="damaged"):
        read_comparisons(plan.out)
    await run_cells(plan, Progress(1), TINY)
    assert json.loads(run.file.read_text())["policy"] == "fifo"


async def test_a_cell_that_fails_ends_the_comparison_and_the_others_are_kept(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ("fifo", "fails"), 1)
    prepare(plan, [], resume=False)
    with pytest.raises(VennError, match="tiny under fails, seed 3: a bug in venn: RuntimeError: it cannot"):
        await run_cells(plan, Progress(2), TINY)
    assert [run.asked.policy for run in finished_cells(plan)] == ["fifo"]
    assert "RuntimeError" in (plan.out / "worker.log").read_text()


async def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ("dies",), 1)
    prepare(plan, [], resume=False)
    with pytest.raises(PeerError, match="tiny under dies, seed 3: the process that simulated it ended with 9"):
        await run_cells(plan, Progress(1), TINY)


async def test_cancelled_it_leaves_at_once_and_keeps_what_is_done(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ("fifo", "never"), 1)
    prepare(plan, [], resume=False)
    first = asyncio.Event()
    progress = Progress(2, say=lambda line: first.set())
    running = asyncio.create_task(run_cells(plan, progress, TINY))
    await first.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [run.asked.policy for run in finished_cells(plan)] == ["fifo"]


def test_a_process_keeps_to_its_world_and_the_others_take_new_ones() -> None:
    queue = Queue([_order("a", 1), _order("a", 2), _order("b", 1), _order("b", 2)])
    first = queue.take("")
    second = queue.take("")
    assert first
    assert second
    assert (first.world_key, second.world_key) == ("a", "b")
    queue.release(first)
    again = queue.take("a")
    assert again
    assert (again.world_key, again.seed) == ("a", 2)
    queue.release(again)
    last = queue.take("a")
    assert last
    assert last.world_key == "b"
    assert queue.take("a") is None


async def test_nothing_to_run_is_no_process(tmp_path: Path) -> None:
    await run_orders(
        [], 4, lambda order, seconds: None, lambda order, part: None, log=tmp_path / "log", worker=("false",)
    )


def test_an_order_comes_as_it_went(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    order = order_for(next(plan.runs()), tmp_path / "scenario.yaml")
    assert read_order(order.line()) == order
    assert order.out.endswith(f"out/tiny/seed-3/random-{order.key}.json")


def test_a_cell_is_known_by_all_that_it_depends_on(tmp_path: Path) -> None:
    file = packaged("three-jobs")
    one = workload(file, load(file))
    assert workload(file, load(file, ["seed=9", "policy=fifo"])).digest == one.digest
    assert workload(file, load(file, ["fleets.budget.count=9"])).digest != one.digest
    keys = {world_key(one, 1), world_key(one, 2), cell_key("w", "fifo"), cell_key("w", "venn"), cell_key("v", "venn")}
    assert len(keys) == 5
    policy = tmp_path / "mine.py"
    policy.write_text("1")
    before = [cell_key("w", f"{policy}:Mine"), cell_key("w", f"{policy}:Mine(a=1)")]
    policy.write_text("2")
    assert len({*before, cell_key("w", f"{policy}:Mine"), cell_key("w", f"{policy}:Mine(a=1)")}) == 4
    assert slug("venn(fairness=2; tiers=1)") == "venn-fairness-2--tiers-1"


def test_files_that_a_scenario_names_count(tmp_path: Path) -> None:
    for name in ("three-jobs.yaml", "digits.py", "labels.py"):
        (tmp_path / name).write_bytes((packaged("three-jobs").parent / name).read_bytes())
    file = tmp_path / "three-jobs.yaml"
    before = workload(file, load(file)).digest
    with (tmp_path / "labels.py").open("a") as labels:
        labels.write("# changed\n")
    assert workload(file, load(file)).digest != before


def _order(world: str, seed: int) -> Order:
    return Order("", "tiny", "fifo", seed, world, f"{world}{seed}", "", "")


def test_time_left_is_by_workload(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    [one, *_] = plan.runs()
    progress = Progress(4, 2)
    progress.expect(list(plan.runs()))
    assert progress.left_s == 0.0
    progress.ended(one, read_run({"policy": "random"}, ""), 6.0)
    assert progress.left_s == 3 * 6.0 / 2


async def test_a_bar_moves_within_a_cell(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ("slow",), 1)
    prepare(plan, [], resume=False)
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    parts: list[float] = []

    class Heard(Progress):
        def within(self, one: Asked, part: float) -> None:
            parts.append(part)
            Progress.within(self, one, part)

    with Heard(1, console=console) as progress:
        await run_cells(plan, progress, TINY)
    assert parts == [0.5]
    assert progress.done == 1
    assert "1/1" in screen.getvalue()


def test_the_command_simulates_a_scenario_and_reports_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["quick", "--backend", "sim", "--policies", "random,fifo", "--seeds", "1", "--jobs", "1", "--out", "out"]
    argv += ["--over", "fifo"]
    assert main(["compare", *argv, "--csv", "jobs.csv", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    [found] = said["comparisons"]
    assert (found["name"], found["backend"], found["complete"]) == ("quick", "sim", True)
    assert found["over"] == ["fifo"]
    assert "quick,random,fifo,p95_jct_s," in (tmp_path / "out" / "intervals.csv").read_text()
    assert len((tmp_path / "jobs.csv").read_text().splitlines()) > 2
    (tmp_path / "out" / "comparison.html").unlink()
    assert main(["report", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == said
    assert (tmp_path / "out" / "comparison.html").is_file()
    assert main(["compare", *argv]) == 2
    assert "add --resume" in capsys.readouterr().err


def test_a_policy_that_fails_is_told_with_its_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    name = 'mine'\n    def plan(self, view):\n        raise ValueError('no idea')\n"
    )
    argv = ["quick", "--backend", "sim", "--policies", "mine.py:Mine", "--seeds", "1", "--out", "out"]
    assert main(["compare", *argv]) == 2
    assert "mine.py:Mine: failed in plan 1" in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "compare.json").read_text())["runs"] == []


def test_a_policy_that_others_are_held_against_must_be_among_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "quick", "--policies", "random,fifo", "--over", "random,venn"]) == 2
    said = capsys.readouterr().err
    assert "--over: venn is not among the policies compared" in said
    assert "name it in --policies as well, or one of random, fifo" in said
    assert main(["compare", "quick", "--policies", "random,fifo", "--over", "fifo,fifo"]) == 2
    assert "--over: name each policy once" in capsys.readouterr().err


def test_scenarios_must_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "quick", "even", "--policies", "random"]) == 2
    assert "different backends" in capsys.readouterr().err
    (tmp_path / "other.yaml").write_text(packaged("quick").read_text())
    assert main(["compare", "quick", "other.yaml", "--backend", "sim"]) == 2
    assert capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
