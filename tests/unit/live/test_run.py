"""How a run ends, whatever goes wrong: what is raised, what is told, and what stays on disk."""

import asyncio
import errno
import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from testbed.live import host, run
from testbed.live.run import LiveRun
from testbed.report.result import Summary
from testbed.runfolder.paths import RunFolder
from testbed.scenario import Scenario
from tests.unit.live.conftest import Stage, until
from venn.wire.errors import PeerError, UsageError, VennError
from venn.wire.exits import expected
from venn.wire.files import JsonLines, file_error

ERROR = '{"error": {"reason": "R", "message": "no good", "where": "w", "fix": "f"}}'
READY = ["announce", "wait"]
DONE = {"coordinator": READY, "wide": [["exit", 0]], "narrow": [["exit", 0]]}


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Told:
    """A run that says what it says to us."""

    def __init__(self, scenario: Scenario, folder: RunFolder) -> None:
        self.out = io.StringIO()
        self.live = LiveRun(scenario, folder, Console(file=self.out, width=500), quiet=True)
        self.root = folder.root

    async def error(self) -> VennError:
        """What the user is told of how it ended."""
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it must be one of those for people
            await self.live.run()
        told = expected(caught.value)
        assert told is not None, caught.value
        return told

    def about(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.root / "run.json").read_text())
        return found


@pytest.fixture
def told(scenario: Scenario, folder: RunFolder) -> Told:
    return Told(scenario, folder)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that a report was made of."""
    made: list[Path] = []

    def build_report(folder: Path) -> Summary | None:
        made.append(folder)
        return None

    monkeypatch.setattr(run, "build_report", build_report)
    return made


async def test_bad_input_leaves_nothing(stage: Stage, told: Told) -> None:
    stage.plan(coordinator=[["say", ERROR], ["exit", 2]])
    error = await told.error()
    assert isinstance(error, UsageError)
    assert not told.root.exists()


async def test_a_part_that_cannot_start_leaves_its_log(stage: Stage, told: Told) -> None:
    stage.plan(coordinator=[["log", "out of luck"], ["exit", 4]])
    error = await told.error()
    assert "ended with exit code 4 (out of luck)" in str(error)
    assert (told.root / "coordinator.log").read_text() == "out of luck\n"


async def test_cancelled_before_anything_is_recorded_nothing_is_left(stage: Stage, told: Told) -> None:
    stage.plan(coordinator=["wait"])
    running = asyncio.create_task(told.live.run())
    await until(stage.started)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not told.root.exists()


async def test_cancelled_later_what_was_recorded_is_reported(
    stage: Stage, told: Told, reported: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.live.supervisor.FIRST_START_S", 600.0)  # even before the run's clock starts
    running = asyncio.create_task(told.live.run())
    await until(lambda: len(stage.started()) == 6)
    running.cancel()
    result = await running
    assert (result.exit_code, reported) == (130, [told.root])
    assert told.about()["interrupted"] is True


async def test_a_dead_part_is_told_after_a_partial_report(stage: Stage, told: Told, reported: list[Path]) -> None:
    stage.plan(coordinator=READY, swarm=[["die", 9]])
    result = await told.live.run()
    assert (result.exit_code, reported) == (4, [told.root])
    assert "was killed by SIGKILL" in str(result.ending.failures[0])
    assert told.about()["interrupted"] is True


async def test_a_full_disk_before_the_start_leaves_nothing(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.live.backend.prepare.write_population", full)
    error = await told.error()
    assert (error.reason, error.exit_code) == ("OUT_OF_SPACE", 4)
    assert not told.root.exists()


async def test_a_full_disk_in_mid_run_ends_it(
    stage: Stage, told: Told, reported: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(JsonLines):
        def write(self, value: object) -> None:
            raise file_error(OSError(errno.ENOSPC, ""), self.path)

    monkeypatch.setattr(host, "SAMPLE_S", 0.0)
    monkeypatch.setattr(host, "JsonLines", Full)
    result = await told.live.run()
    assert result.exit_code == 4
    assert result.ending.failures[0].reason == "OUT_OF_SPACE"
    assert result.ending.failures[0].where == str(told.root / "host.jsonl")


async def test_a_disk_too_full_for_the_report_is_told(
    stage: Stage, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.plan(**DONE)  # type: ignore[arg-type]
    monkeypatch.setattr(run, "build_report", full)
    error = await told.error()
    assert str(error) == f"{told.root}: no space is left on the disk; free some space there and start again"


async def test_what_filled_the_disk_first_is_told(stage: Stage, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.plan(coordinator=["announce", ["say", ERROR], ["exit", 4]])
    monkeypatch.setattr(run, "build_report", full)
    error = await told.error()
    assert isinstance(error, PeerError)
    assert str(error) == "w: coordinator: no good; f"


async def test_a_machine_too_small_is_warned_of_and_remembered(
    stage: Stage, told: Told, reported: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.plan(**DONE)  # type: ignore[arg-type]
    monkeypatch.setattr("testbed.live.backend.prepare.PROGRAMS_PER_CORE", 0)
    await told.live.run()
    assert told.out.getvalue().startswith("warning: this machine is too small: 6 programs share ")
    assert told.about()["too_small"] == told.about()["warnings"]
