"""Worker processes: stopped or killed when they must be, leaving nothing behind, and under a throttle."""

import asyncio
import dataclasses
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from device_agent import pipes
from device_agent.actions import LeaseOver, TaskFailed
from device_agent.confine.orders import Means
from device_agent.confine.settings import Confinement
from device_agent.throttle import Throttle
from device_agent.worker_process import Work, WorkerProcess
from device_agent.workers import WorkerPool
from tests.integration.agent.works import DOUBLE, HEAD, STUCK, TAIL, orders, work


def children() -> list[psutil.Process]:
    """The keepers of this process. Other tests may leave it processes of another kind, such as multiprocessing's."""
    return [child for child in psutil.Process().children() if "device_agent.confine.keeper" in child.cmdline()]


async def test_a_revoked_task_hears_of_it_at_its_next_progress(pool: WorkerPool, job: Callable[..., Work]) -> None:
    body = """
def work(model: Arrays, task: Task) -> Result:
    while True:
        task.progress(0.5)
"""
    running = asyncio.Event()
    task = asyncio.create_task(pool.run(job(body, heard=lambda fraction: running.set())))
    await running.wait()
    [worker] = children()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert worker.is_running()  # it stays warm
    assert await pool.run(job(DOUBLE))


async def test_a_task_that_does_not_listen_is_killed(pool: WorkerPool, job: Callable[..., Work]) -> None:
    running = asyncio.Event()
    task = asyncio.create_task(pool.run(job(STUCK, heard=lambda fraction: running.set())))
    await running.wait()
    [worker] = children()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not worker.is_running()


LEAVES_CHILDREN = """
import subprocess

def work(model: Arrays, task: Task) -> Result:
    sleeps = [sys.executable, "-c", "import time; time.sleep({seconds})"]
    subprocess.Popen(sleeps)
    subprocess.Popen(sleeps, start_new_session=True)
    between = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
    subprocess.run([sys.executable, "-c", between, *sleeps], check=True)  # whose parent ends
    task.progress(0.5)
    {then}
    return Result(model)
"""


def sleeping(seconds: float) -> list[int]:
    """The processes that job code has left behind."""
    text = f"time.sleep({seconds})"
    return [each.pid for each in psutil.process_iter(["cmdline"]) if text in " ".join(each.info["cmdline"] or ())]


@pytest.mark.parametrize("means", [frozenset(Means), frozenset({Means.RLIMITS})], ids=["all means", "rlimits alone"])
@pytest.mark.parametrize("then", ["pass", "os._exit(3)"])
async def test_what_a_job_starts_ends_with_its_worker(
    job: Callable[..., Work], then: str, means: frozenset[Means]
) -> None:
    """Whether the worker is closed, or ends by itself; also what has left its group and its session."""
    seconds = 3600.0 + os.getpid() / 1e7 + len(then) / 1e9 + len(means) / 1e10
    seen: list[int] = []
    worker = await WorkerProcess.start(orders(Confinement(means=means)))
    work = job(LEAVES_CHILDREN.format(seconds=seconds, then=then), heard=lambda _: seen.extend(sleeping(seconds)))
    if then == "pass":
        await worker.run(work)
    else:
        with pytest.raises(TaskFailed, match="exit code 3"):
            await worker.run(work)
    assert len(seen) == 3 or then != "pass"
    await worker.close()
    assert sleeping(seconds) == []


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 20])
async def test_a_start_that_is_cancelled_leaves_no_process(turns: int) -> None:
    before = set(psutil.Process().children())
    starting = asyncio.create_task(WorkerProcess.start(orders()))
    for _ in range(turns):
        await asyncio.sleep(0)
    while not starting.done():
        starting.cancel()
        await asyncio.sleep(0)
    assert starting.cancelled()
    assert set(psutil.Process().children()) <= before


async def test_a_worker_that_has_ended_is_not_signalled_again(
    job: Callable[..., Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may be another's by then."""
    worker = await WorkerProcess.start(orders())
    os.kill(worker.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        await asyncio.wait({worker._gone})
    signalled: list[object] = []
    for module, name in ((os, "killpg"), (os, "kill"), (signal, "pidfd_send_signal")):
        monkeypatch.setattr(module, name, lambda *told: signalled.append(told), raising=False)
    await worker.close()
    assert signalled == []


async def test_a_task_past_its_lease_is_killed(pool: WorkerPool, job: Callable[..., Work]) -> None:
    with pytest.raises(LeaseOver):
        await pool.run(job(STUCK, seconds=0.5))


async def test_a_task_past_its_lease_but_within_its_grace_goes_on(pool: WorkerPool, job: Callable[..., Work]) -> None:
    """Its driver may be away: then the lease ends later."""
    work = dataclasses.replace(job(DOUBLE, seconds=-1.0), grace_s=60.0)
    assert (await pool.run(work)).weight == 3.0


async def test_a_worker_ends_with_its_agent_even_in_mid_task(tmp_path: Path) -> None:
    """The agent is a process that dies by SIGKILL while its worker computes."""
    file = tmp_path / "task.py"
    file.write_text(HEAD + STUCK + TAIL)
    script = f"""
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from device_agent.throttle import Throttle
from job_driver.bundle import pack
from tests.integration.agent.works import DOUBLE, HEAD, STUCK, TAIL, work
from device_agent import pipes
from device_agent.workers import WorkerPool
from tests.integration.agent.works import work

async def main():
    code = pack(Path({str(file)!r}))
    await WorkerPool(1).run(work(code, heard=lambda fraction: print("running", flush=True)))
asyncio.run(main())
"""
    agent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert agent.stdout is not None
    assert await agent.stdout.readline() == b"running\n"
    [worker] = psutil.Process(agent.pid).children()
    agent.send_signal(signal.SIGKILL)
    await agent.communicate()
    await asyncio.to_thread(worker.wait, 10)


async def test_a_worker_that_is_slowed_down_was_warm_before_and_gets_its_share(
    tmp_path: Path, job: Callable[..., Work]
) -> None:
    """By a duty cycle; the groups that it enters are files here."""
    born, works = tmp_path / "born", tmp_path / "works"
    for group in (born, works):
        group.mkdir()
    throttle = Throttle(start_in=(born,), work_in=(works,), duty_cores=0.2)
    pool = WorkerPool(1, nice=0, throttle=throttle)
    body = (
        "def work(model, task):\n    end = time.process_time() + 0.3\n    while time.process_time() < end:\n"
        "        pass\n    return Result({})\n"
    )
    try:
        output = await pool.run(job(body))
        [keeper] = children()
        worker = pool._idle[0].pid
    finally:
        await pool.close()
    assert output.compute_cpu_s / output.compute_s < 0.3
    assert output.held_back > 0  # how often depends on how busy this machine is
    entered = [(group / "cgroup.procs").read_text().strip() for group in (born, works)]
    assert entered == [str(keeper.pid), str(worker)]


@pytest.mark.parametrize(
    ("counted", "looks", "told"),
    [(None, 1, ["progress", "done"]), (17, 3, ["began", "progress", "done"])],
)
async def test_the_kernel_is_asked_before_and_after_a_task_and_only_where_it_counts(
    counted: int | None, looks: int, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a worker say then that it began: its agent would wake for nothing."""
    asked, said = list[Throttle](), list[str]()
    receive = pipes.receive

    async def heard(reader: asyncio.StreamReader, most_body: int) -> tuple[pipes.Header, bytes]:
        header, body = await receive(reader, most_body)
        said.append(header["say"])
        return header, body

    def held_back(throttle: Throttle) -> int | None:
        asked.append(throttle)
        return counted

    monkeypatch.setattr(Throttle, "held_back", held_back)
    monkeypatch.setattr(pipes, "receive", heard)
    pool = WorkerPool(1, nice=0)
    try:
        assert (await pool.run(work(None))).held_back == 0
    finally:
        await pool.close()
    assert (len(asked), said[2:]) == (looks, told)  # after those of the keeper and of the worker's start


async def test_a_group_that_cannot_be_entered_starts_no_worker(tmp_path: Path, job: Callable[..., Work]) -> None:
    pool = WorkerPool(1, nice=0, throttle=Throttle(start_in=(tmp_path / "none",)))
    with pytest.raises(TaskFailed, match="no worker process could be started"):
        await pool.run(job("def work(model, task):\n    return Result({})\n"))
    await pool.close()


async def test_memory_beyond_an_rlimit_fails_the_task_and_no_more(job: Callable[..., Work]) -> None:
    pool = WorkerPool(1, nice=0, throttle=Throttle(memory_bytes=600_000_000))
    try:
        with pytest.raises(TaskFailed, match="MemoryError"):
            await pool.run(job("def work(model, task):\n    return Result({'w': np.ones(200_000_000)})\n"))
        assert await pool.run(job("def work(model, task):\n    return Result({'w': np.ones(2)})\n"))
    finally:
        await pool.close()
