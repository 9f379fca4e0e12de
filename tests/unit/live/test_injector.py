"""What a timeline asks of the faults of its world: which deeds, in which order, and what is written down."""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import cast

import pytest

from testbed.live.backend.protocol import Backend
from testbed.live.injector import Faults, Injector
from testbed.live.processes.programs import Program
from testbed.scenario.backends import OUTSIDE
from testbed.world.timeline import Action, LinkChange, Verb
from tests.unit.live.conftest import until


class Recorded(Program):
    """Takes down its signals."""

    def __init__(self, name: str, log: list[tuple[str, str]]) -> None:
        super().__init__(name, [], log=Path("unused"))
        self._log = log

    @property
    def running(self) -> bool:
        return True

    def _signal_all(self, number: int) -> None:
        self._log.append((self.name, signal.Signals(number).name))


class Linked:
    """Takes down what is done to links."""

    def __init__(self, log: list[tuple[str, str]]) -> None:
        self._log = log

    async def crash(self, device: str) -> None:
        """It kills itself."""

    async def cut(self, device: str, *, reset: bool) -> None:
        self._log.append((device, "reset" if reset else "cut"))

    async def mend(self, device: str) -> None:
        self._log.append((device, "mend"))

    async def limit(self, device: str, change: LinkChange | None) -> None:
        self._log.append((device, "limit" if change else "unlimit"))


@pytest.fixture
def signals() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def faults(signals: list[tuple[str, str]]) -> Faults:
    programs = {name: Recorded(name, signals) for name in ("bench-01", "plays", "driver wide", "coordinator")}
    carried = dict.fromkeys(("bench-01", "a", "b"), OUTSIDE | {Verb.LIMIT}) | {"plays": frozenset()}
    return Faults(programs.get, cast(Backend, Linked(signals)), carried)


async def test_in_order_and_written_down(tmp_path: Path, faults: Faults, signals: list[tuple[str, str]]) -> None:
    actions = [
        Action(1.0, Verb.SUSPEND, "bench-01", 0, 4.0),
        Action(2.0, Verb.CRASH, "bench-01", 1, 9.0),  # it kills itself
        Action(2.0, Verb.LEAVE, "phone-1", 1, 9.0),
        Action(3.0, Verb.CRASH, "driver wide", 2),
    ]
    await Injector(actions, tmp_path / "churn.jsonl", faults).run(time.time() - 100)
    assert signals == [("bench-01", "SIGSTOP"), ("bench-01", "SIGCONT"), ("driver wide", "SIGKILL")]
    assert await faults.released("driver wide")
    assert not await faults.released("bench-01")
    rows = [json.loads(line) for line in (tmp_path / "churn.jsonl").read_text().splitlines()]
    assert [(row["verb"], row["target"], row["until_s"], row["entry"]) for row in rows] == [
        ("suspend", "bench-01", 4.0, 0),
        ("crash", "bench-01", 9.0, 1),
        ("leave", "phone-1", 9.0, 1),
        ("crash", "driver wide", None, 2),
    ]


async def test_what_finds_no_program_is_written_down_as_missed(tmp_path: Path, faults: Faults) -> None:
    actions = [
        Action(1.0, Verb.CRASH, "driver wide", 0),
        Action(2.0, Verb.CRASH, "driver over", 1),  # has ended
        Action(3.0, Verb.SUSPEND, "driver over", 2, 4.0),
        Action(4.0, Verb.CRASH, "plays", 3),  # by itself, and so never missed here
    ]
    await Injector(actions, tmp_path / "churn.jsonl", faults).run(time.time() - 100)
    rows = [json.loads(line) for line in (tmp_path / "churn.jsonl").read_text().splitlines()]
    assert [row.get("missed", False) for row in rows] == [False, True, True, False]


async def test_what_is_done_to_links_is_ended_once(
    tmp_path: Path, faults: Faults, signals: list[tuple[str, str]]
) -> None:
    slow = LinkChange(up=1e6)
    actions = [
        Action(1.0, Verb.LIMIT, "a", 0, 3.0, slow),
        Action(2.0, Verb.DISCONNECT, "a", 1, 5.0),
        Action(4.0, Verb.RECONNECT, "a", 2),
        Action(4.5, Verb.PARTITION, "a", 3, 6.0),  # the end of the one before, at 5, is not its end
    ]
    await Injector(actions, tmp_path / "churn.jsonl", faults).run(time.time() - 100)
    assert [what for _, what in signals] == ["limit", "reset", "unlimit", "mend", "cut", "mend"]
    first = json.loads((tmp_path / "churn.jsonl").read_text().splitlines()[0])
    assert first["link"] == {"up": "1 Mbit/s"}


@pytest.mark.parametrize("verb", [Verb.CRASH, Verb.SUSPEND, Verb.DISCONNECT, Verb.PARTITION])
async def test_what_a_device_plays_is_not_done_to_it(
    tmp_path: Path, faults: Faults, signals: list[tuple[str, str]], verb: Verb
) -> None:
    actions = [
        Action(1.0, verb, "plays", 0, 3.0),
        Action(4.0, verb, "plays", 0),
        Action(5.0, Verb.RECONNECT, "plays", 1),
    ]
    made = Injector(actions, tmp_path / "churn.jsonl", faults)
    await made.run(time.time() - 100)
    await made.end()
    assert signals == []
    assert len((tmp_path / "churn.jsonl").read_text().splitlines()) == 3


async def test_what_takes_its_time_on_one_holds_up_no_other(
    tmp_path: Path, faults: Faults, signals: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = asyncio.Event()

    async def slowly(action: Action) -> None:
        await may_go_on.wait()
        signals.append((action.target, "limit"))

    monkeypatch.setattr(faults, "limit", slowly)
    slow = LinkChange(up=1e6)
    actions = [
        Action(1.0, Verb.LIMIT, "a", 0, 2.0, slow),
        Action(3.0, Verb.PARTITION, "b", 1, 4.0),
        Action(5.0, Verb.PARTITION, "a", 2, 6.0),
    ]
    running = asyncio.create_task(Injector(actions, tmp_path / "churn.jsonl", faults).run(time.time() - 100))
    await until(lambda: len(signals) == 2)
    assert signals == [("b", "cut"), ("b", "mend")]
    may_go_on.set()
    await running
    assert signals[2:] == [("a", "limit"), ("a", "unlimit"), ("a", "cut"), ("a", "mend")]


async def test_what_stands_still_goes_on_before_it_is_killed(
    tmp_path: Path, faults: Faults, signals: list[tuple[str, str]]
) -> None:
    actions = [Action(1.0, Verb.SUSPEND, "driver wide", 0, 9.0), Action(2.0, Verb.CRASH, "driver wide", 1)]
    await Injector(actions, tmp_path / "churn.jsonl", faults).run(time.time() - 100)
    assert [name for _, name in signals] == ["SIGSTOP", "SIGCONT", "SIGKILL"]


async def test_what_was_killed_for_a_while_waits_so_long(tmp_path: Path, faults: Faults) -> None:
    now = time.time()
    actions = [Action(0.0, Verb.CRASH, "coordinator", 0, 600.0)]
    made = Injector(actions, tmp_path / "churn.jsonl", faults)
    running = asyncio.create_task(made.run(now))
    await until(lambda: "coordinator" in faults._down)
    waiting = asyncio.create_task(faults.released("coordinator"))
    await asyncio.sleep(0)
    assert not waiting.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await made.end()
    assert await waiting


async def test_nothing_stands_still_when_it_is_over(
    tmp_path: Path, faults: Faults, signals: list[tuple[str, str]]
) -> None:
    made = Injector([Action(0.0, Verb.SUSPEND, "bench-01", 0, 600.0)], tmp_path / "churn.jsonl", faults)
    running = asyncio.create_task(made.run(time.time()))
    await until(lambda: signals)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await made.end()
    assert signals == [("bench-01", "SIGSTOP"), ("bench-01", "SIGCONT")]


async def test_what_nothing_ends_lasts_beyond_the_timeline(
    tmp_path: Path, faults: Faults, signals: list[tuple[str, str]]
) -> None:
    slow = Action(1.0, Verb.LIMIT, "a", 0, None, LinkChange(up=1e6))
    made = Injector([slow, Action(2.0, Verb.PARTITION, "b", 1)], tmp_path / "churn.jsonl", faults)
    await made.run(time.time() - 100)
    assert signals == [("a", "limit"), ("b", "cut")]
    await made.end()
    assert signals == [("a", "limit"), ("b", "cut"), ("b", "mend")]
