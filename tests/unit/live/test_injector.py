"""What a timeline does to processes: which signals, in which order, and what is written down."""

import asyncio
import json
import signal
import time
from pathlib import Path

import pytest

from testbed.churn.timeline import Action, Verb
from testbed.live.injector import Injector
from testbed.live.programs import Program
from tests.unit.live.conftest import until


class Recorded(Program):
    """Takes down its signals."""

    def __init__(self, name: str, log: list[tuple[str, str]]) -> None:
        super().__init__(name, [], log=Path("unused"))
        self._log = log

    @property
    def running(self) -> bool:
        return True

    def signal_all(self, number: int) -> None:
        self._log.append((self.name, signal.Signals(number).name))


@pytest.fixture
def signals() -> list[tuple[str, str]]:
    return []


def injector(actions: list[Action], path: Path, signals: list[tuple[str, str]]) -> Injector:
    programs = {name: Recorded(name, signals) for name in ("bench-01", "driver wide")}
    return Injector(actions, path, lambda action: programs.get(action.target))


async def test_in_order_and_written_down(tmp_path: Path, signals: list[tuple[str, str]]) -> None:
    actions = [
        Action(1.0, Verb.SUSPEND, "bench-01", 0, 4.0),
        Action(2.0, Verb.CRASH, "phone-1", 1, 9.0),
        Action(3.0, Verb.CRASH, "driver wide", 2),
    ]
    made = injector(actions, tmp_path / "churn.jsonl", signals)
    await made.run(time.time() - 100)
    assert signals == [("bench-01", "SIGSTOP"), ("driver wide", "SIGKILL"), ("bench-01", "SIGCONT")]
    assert made.killed == ["driver wide"]
    rows = [json.loads(line) for line in (tmp_path / "churn.jsonl").read_text().splitlines()]
    assert [(row["verb"], row["target"], row["until_s"], row["entry"]) for row in rows] == [
        ("suspend", "bench-01", 4.0, 0),
        ("crash", "phone-1", 9.0, 1),
        ("crash", "driver wide", None, 2),
    ]


async def test_what_stands_still_goes_on_before_it_is_killed(tmp_path: Path, signals: list[tuple[str, str]]) -> None:
    actions = [Action(1.0, Verb.SUSPEND, "driver wide", 0, 9.0), Action(2.0, Verb.CRASH, "driver wide", 1)]
    await injector(actions, tmp_path / "churn.jsonl", signals).run(time.time() - 100)
    assert [name for _, name in signals] == ["SIGSTOP", "SIGCONT", "SIGKILL"]


async def test_nothing_stands_still_when_it_is_over(tmp_path: Path, signals: list[tuple[str, str]]) -> None:
    made = injector([Action(0.0, Verb.SUSPEND, "bench-01", 0, 600.0)], tmp_path / "churn.jsonl", signals)
    running = asyncio.create_task(made.run(time.time()))
    await until(lambda: signals)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert signals == [("bench-01", "SIGSTOP"), ("bench-01", "SIGCONT")]
