"""When turns leave: after their sync, shared by those that wait; or at once."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from coordinator.service.durability import INTERVAL_S, Committer, Durability


class Disk:
    """A store whose syncs end when they are told to."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.broken = False

    def flush(self) -> None:
        self.said.append("flush")

    def sync(self) -> None:
        self.said.append("sync")
        self.begun.release()
        self.may_end.acquire()
        if self.broken:
            raise OSError("the disk is broken")


class Bench:
    def __init__(self, durability: Durability, *, gather_s: float = 0.0) -> None:
        self.disk, self.left, self.errors = Disk(), list[int](), list[BaseException]()
        self.happened = asyncio.Event()
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.committer = Committer[int](
            self.disk,
            durability,
            leave=self.leave,
            fail=self.fail,
            call_later=lambda delay, call: self.timers.append((delay, call)),
            changed=lambda: None,
            gather_s=gather_s,
        )

    def leave(self, turn: int) -> None:
        self.left.append(turn)
        self.happened.set()

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)
        self.happened.set()

    async def synced(self, turns: int) -> None:
        """Let one sync end, and wait until so many turns have left, or it failed."""
        self.disk.may_end.release()
        while len(self.left) < turns and not self.errors:
            self.happened.clear()
            await self.happened.wait()


async def test_turns_leave_after_their_sync_and_those_that_came_meanwhile_share_the_next() -> None:
    bench = Bench(Durability.TURN)
    for turn in (1, 2, 3):
        bench.committer.commit(turn)
    assert bench.left == []
    await bench.synced(1)
    assert bench.left == [1]
    await bench.synced(3)
    assert bench.left == [1, 2, 3]
    assert bench.disk.said.count("sync") == 2


async def test_a_sync_soon_after_another_waits_for_more_turns() -> None:
    bench = Bench(Durability.TURN, gather_s=0.05)
    bench.committer.commit(1)
    await bench.synced(1)
    bench.committer.commit(2)
    bench.committer.commit(3)
    await bench.synced(3)
    assert (bench.left, bench.disk.said.count("sync")) == ([1, 2, 3], 2)


@pytest.mark.parametrize("durability", [Durability.INTERVAL, Durability.OFF])
async def test_turns_leave_at_once(durability: Durability) -> None:
    bench = Bench(durability)
    bench.committer.commit(1)
    bench.committer.commit(2)
    assert bench.left == [1, 2]
    assert [delay for delay, _ in bench.timers] == ([INTERVAL_S] if durability is Durability.INTERVAL else [])
    assert "sync" not in bench.disk.said


async def test_what_was_written_is_synced_in_time_once_for_all() -> None:
    bench = Bench(Durability.INTERVAL)
    bench.committer.commit(1)
    bench.timers[0][1]()
    bench.disk.may_end.release()
    await asyncio.to_thread(bench.disk.begun.acquire)
    bench.committer.commit(2)
    assert (len(bench.timers), bench.left) == (2, [1, 2])
    bench.disk.may_end.release()
    bench.committer.close()


async def test_a_sync_that_fails_stops_the_coordinator_and_nothing_leaves() -> None:
    bench = Bench(Durability.TURN)
    bench.disk.broken = True
    bench.committer.commit(1)
    await bench.synced(1)
    assert (bench.left, [str(error) for error in bench.errors]) == ([], ["the disk is broken"])


async def test_closing_syncs_what_there_is_and_lets_it_leave() -> None:
    bench = Bench(Durability.TURN)
    bench.committer.commit(1)
    bench.committer.commit(2)
    for _ in range(3):
        bench.disk.may_end.release()
    bench.committer.close()
    assert bench.left == [1, 2]
    await asyncio.sleep(0)
    assert bench.left == [1, 2]
