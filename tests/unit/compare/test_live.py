"""The order of runs, what is kept, and what a run that fails does to a comparison."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from testbed.compare.folder import prepare, read_comparisons, write_manifest
from testbed.compare.plan import Asked, Plan, Workload, check_policies
from testbed.compare.runs import Progress, read_answer, run_live
from testbed.runfolder.jsonlines import Row
from testbed.scenario import Scenario
from testbed.scenario.backends import backend_spec
from tests.unit.report.test_comparison import summary
from venn.wire.errors import PeerError, UsageError, VennError


def plan_of(folder: Path, policies: tuple[str, ...] = ("random", "venn"), seeds: int = 3, digest: str = "d") -> Plan:
    scenario = SimpleNamespace(
        name="three", seed=7, backend="process", backend_spec=backend_spec("process"), dump=lambda: "name: three\n"
    )
    workload = Workload(folder / "three.yaml", cast(Scenario, scenario), digest)
    return Plan((workload,), policies, seeds, folder / "out")


class Runs:
    """Stands for ``venn run``: writes a summary, and remembers what it was asked."""

    def __init__(self, fail_at: int = -1) -> None:
        self.asked: list[tuple[str, int]] = []
        self.fail_at = fail_at
        self.flags: Sequence[str] = ()

    async def __call__(self, one: Asked, folder: Path, flags: Sequence[str]) -> Row:
        self.flags = flags
        return self.run(one, folder)

    def run(self, one: Asked, folder: Path) -> Row:
        self.asked.append((one.policy, one.seed))
        folder.mkdir(parents=True)
        if len(self.asked) == self.fail_at:
            (folder / "summary.json").write_text(json.dumps({"interrupted": True}))
            raise PeerError("RUN_STOPPED", "was stopped")
        said = summary(one.policy, one.seed, 80.0 if one.policy == "random" else 60.0)
        (folder / "summary.json").write_text(json.dumps(said))
        return said


def test_policies_take_turns_in_going_first(tmp_path: Path) -> None:
    asked = [(one.policy, one.seed) for one in plan_of(tmp_path, ("a", "b", "c"), 4).runs()]
    assert [policy for policy, _ in asked] == ["a", "b", "c", "b", "c", "a", "c", "a", "b", "a", "b", "c"]
    assert [seed for _, seed in asked] == [7, 7, 7, 8, 8, 8, 9, 9, 9, 10, 10, 10]


async def test_it_runs_all_and_says_how_far_it_is(tmp_path: Path) -> None:
    said: list[str] = []
    plan = plan_of(tmp_path)
    prepare(plan, ["venn", "compare"], resume=False)
    runs = await run_live(plan, Progress(6, say=said.append), Runs())
    assert said[0].startswith("1 of 6  three under random, seed 7: mean JCT 80.0 s; about ")
    assert said[-1] == "6 of 6  three under venn, seed 9: mean JCT 60.0 s"
    write_manifest(plan, ["venn", "compare"], runs)
    about, [found] = read_comparisons(plan.out)
    assert (found.seeds, len(found.runs), found.trusted, found.complete) == ((7, 8, 9), 6, True, True)
    assert about["command"] == ["venn", "compare"]


async def test_live_runs_have_its_overrides_and_may_be_degraded(tmp_path: Path) -> None:
    plan = replace(plan_of(tmp_path, seeds=1), overrides=("duration=9s",), allow_degraded=True)
    runs = Runs()
    prepare(plan, ["venn", "compare"], resume=False)
    await run_live(plan, Progress(2), runs)
    assert runs.flags == ["--set", "duration=9s", "--allow-degraded"]


async def test_resume_keeps_what_was_run_to_its_end(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    prepare(plan, [], resume=False)
    with pytest.raises(PeerError):
        await run_live(plan, Progress(6), Runs(fail_at=3))
    again = Runs()
    prepare(plan, [], resume=True)
    runs = await run_live(plan, Progress(6), again)
    assert again.asked == [("venn", 8), ("random", 8), ("random", 9), ("venn", 9)]
    assert len({run.file for run in runs}) == 6


def test_a_folder_with_something_in_it_is_not_touched(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    prepare(plan, [], resume=False)
    with pytest.raises(UsageError, match="--resume"):
        prepare(plan, [], resume=False)
    prepare(plan, [], resume=True)
    with pytest.raises(UsageError, match="another comparison"):
        prepare(plan_of(tmp_path, digest="other"), [], resume=True)


def test_a_comparison_without_a_run_cannot_be_reported(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    prepare(plan, [], resume=False)
    with pytest.raises(UsageError, match="no comparison with a finished run"):
        read_comparisons(plan.out)


def test_the_error_of_a_run_is_the_error_of_the_comparison(tmp_path: Path) -> None:
    one = next(plan_of(tmp_path).runs())
    error = {"reason": "PORT", "message": "in use", "where": "here", "fix": "stop it"}
    with pytest.raises(VennError, match="here: in use; stop it") as caught:
        read_answer(json.dumps({"error": error}).encode(), 4, one)
    assert caught.value.exit_code == 4
    with pytest.raises(PeerError, match="exit code 70"):
        read_answer(b"Traceback", 70, one)
    with pytest.raises(PeerError, match="--resume"):
        read_answer(b'{"interrupted": true}', 130, one)


@pytest.mark.parametrize("names", [(), ("venn", "venn"), ("vennn",)])
def test_policies_are_checked_before_anything_runs(names: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError):
        check_policies(names)
