"""Virtual time: order, killed and stopped processes, threads."""

import asyncio
from types import SimpleNamespace

import pytest

from testbed.chaos import loop as chaos_loop
from testbed.chaos.loop import ProcessLoop, Scheduler, Stuck, Threads


def process(scheduler: Scheduler) -> ProcessLoop:
    return ProcessLoop(scheduler, SimpleNamespace(thread_s=lambda: 2.0), lambda context: pytest.fail(str(context)))


def test_callbacks_run_in_the_order_of_their_times_across_processes() -> None:
    scheduler, said = Scheduler(), list[str]()
    one, other = process(scheduler), process(scheduler)
    one.call_later(2.0, said.append, "third")
    other.call_later(1.0, said.append, "second")
    one.call_soon(said.append, "first")
    scheduler.run(5.0)
    assert said == ["first", "second", "third"]
    assert scheduler.now == 5.0


def test_nothing_of_a_killed_process_runs_any_more_and_no_finally() -> None:
    scheduler, said = Scheduler(), list[str]()
    killed = process(scheduler)

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            said.append("finally")

    task = killed.create_task(work())
    scheduler.run(1.0)
    killed.kill()
    scheduler.run(20.0)
    assert not said
    assert not task.done()
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_stopped_process_goes_on_with_what_came_meanwhile() -> None:
    scheduler, said = Scheduler(), list[float]()
    stopped = process(scheduler)
    stopped.call_later(1.0, lambda: said.append(scheduler.now))
    stopped.stop_process()
    scheduler.run(7.0)
    assert not said
    stopped.go_on()
    scheduler.run(8.0)
    assert said == [7.0]


def test_a_thread_takes_time_and_its_process_goes_on_meanwhile() -> None:
    scheduler, said = Scheduler(), list[object]()
    own = process(scheduler)
    threads = Threads(own, 1)

    async def work() -> None:
        both = [own.run_in_executor(threads, said.append, number) for number in (1, 2)]
        await asyncio.sleep(1)
        said.append("meanwhile")
        await asyncio.gather(*both)
        said.append(scheduler.now)

    own.create_task(work())
    scheduler.run(10.0)
    assert said == ["meanwhile", 1, 2, 4.0]


def test_what_goes_round_in_circles_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos_loop, "MOST_AT_ONCE", 100)
    scheduler = Scheduler()
    own = process(scheduler)

    def again() -> None:
        own.call_soon(again)

    again()
    with pytest.raises(Stuck, match="still 0"):
        scheduler.run(1.0)


def test_a_set_of_tasks_has_the_same_order_in_every_process() -> None:
    scheduler = Scheduler()
    own = process(scheduler)

    async def nothing() -> None:
        pass

    tasks = {own.create_task(nothing()) for _ in range(5)}
    assert [hash(task) for task in tasks] == [1, 2, 3, 4, 5]
    scheduler.run(1.0)
