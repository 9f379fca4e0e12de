"""The order of runs, what is kept, and what a run that fails does to a comparison."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from testbed.report.compare import Asked, Plan, check_policies, prepare, read_answer, run_all
from testbed.report.jsonlines import Row
from testbed.scenario import Scenario
from tests.unit.report.test_comparison import summary
from venn.wire.errors import PeerError, UsageError, VennError


def plan_of(folder: Path, policies: tuple[str, ...] = ("random", "venn"), seeds: int = 3) -> Plan:
    file = folder / "three.yaml"
    file.write_text("name: three\n")
    scenario = cast(Scenario, SimpleNamespace(name="three", seed=7))
    return Plan(((file, scenario),), policies, seeds, folder / "out")


class Runs:
    """Stands for ``venn run``: writes a summary, and remembers what it was asked."""

    def __init__(self, fail_at: int = -1) -> None:
        self.asked: list[tuple[str, int]] = []
        self.fail_at = fail_at

    async def __call__(self, one: Asked, folder: Path, backend: str) -> Row:
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
    prepare(plan, resume=False)
    [found] = await run_all(plan, said.append, Runs())
    assert (found.seeds, len(found.runs), found.trusted, found.complete) == ((7, 8, 9), 6, True, True)
    assert said[0].startswith("1 of 6  seed 7  random: mean JCT 80.0 s; about ")
    assert said[-1] == "6 of 6  seed 9  venn: mean JCT 60.0 s"


async def test_resume_keeps_what_was_run_to_its_end(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    prepare(plan, resume=False)
    first = Runs(fail_at=3)
    with pytest.raises(PeerError):
        await run_all(plan, lambda line: None, first)
    again = Runs()
    prepare(plan, resume=True)
    [found] = await run_all(plan, lambda line: None, again)
    assert again.asked == [("venn", 8), ("random", 8), ("random", 9), ("venn", 9)]
    assert len({run.folder for run in found.runs}) == 6


def test_a_folder_with_something_in_it_is_not_touched(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    prepare(plan, resume=False)
    with pytest.raises(UsageError, match="--resume"):
        prepare(plan, resume=False)
    prepare(plan, resume=True)
    plan.scenarios[0][0].write_text("name: three\nseed: 8\n")
    with pytest.raises(UsageError, match="another comparison"):
        prepare(plan, resume=True)


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
