"""An attacker's job code, by each means of confinement alone and by all: what it tries is refused, and costs one lease.

What a kernel or a user lacks is skipped with its reason.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from device_agent import pipes
from device_agent.actions import TaskFailed
from device_agent.confine import syscalls
from device_agent.confine.inforce import InForce
from device_agent.confine.orders import Means
from device_agent.confine.settings import Confinement, Wanted
from device_agent.worker_process import Work
from device_agent.workers import WorkerPool
from tests.integration.agent.conftest import Stage, leased, task_of
from tests.integration.agent.works import DOUBLE, HEAD, TAIL
from venn.v1 import common_pb2 as common

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS has rlimits alone")

ALONE = [frozenset(Means), frozenset({Means.LANDLOCK}), frozenset({Means.NAMESPACES})]
IDS = ["all", "landlock", "namespaces"]


class Prison:
    """A pool whose workers are confined as a test wants it."""

    def __init__(self, **limits: object) -> None:
        self.held: list[InForce] = []
        self.pool = WorkerPool(2, nice=0, confinement=Confinement(**limits), told=self.held.append)  # type: ignore[arg-type]

    async def refused(self, work: Work, match: str) -> TaskFailed:
        """What a task failed with; the next one finds a worker."""
        with pytest.raises(TaskFailed, match=match) as failure:
            await self.pool.run(work)
        assert "\n" not in failure.value.message
        return failure.value


@pytest.fixture
async def prisons() -> AsyncIterator[Callable[..., Prison]]:
    made: list[Prison] = []

    def make(**limits: object) -> Prison:
        made.append(Prison(**limits))
        return made[-1]

    yield make
    for prison in made:
        await prison.pool.close()


@pytest.fixture
def loopback() -> Iterator[int]:
    """The port of a listener on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


def skip_without(held: InForce, means: frozenset[Means]) -> None:
    """Skip where this machine does not have the means that is to hold alone."""
    lacking = {name: held.why_not[name] for name in means if name in held.why_not}
    if len(means) == 1 and lacking:
        pytest.skip(f"this machine lacks it: {lacking}")


def is_there(folder: str) -> bool:
    return os.path.isdir(folder)


REACHES = """
import socket

def work(model: Arrays, task: Task) -> Result:
    tries = {{
        "token": lambda: open({token!r}).read(),
        "environment of the agent": lambda: open("/proc/{agent}/environ").read(),
        "environment of the parent": lambda: open(f"/proc/{{os.getppid()}}/environ").read(),
        "descriptors of the agent": lambda: os.listdir("/proc/{agent}/fd"),
        "memory of the agent": lambda: open("/proc/{agent}/mem", "rb").read(1),
        "code of another job": lambda: open({other!r}).read(),
        "folder of another job": lambda: os.listdir({folder!r}),
        "its data, to write": lambda: open({data!r}, "w"),
        "Python, to write": lambda: open(os.path.join(os.path.dirname(os.__file__), "evil.py"), "w"),
        "a file elsewhere": lambda: open("/var/tmp/evil", "w"),
        "a signal to the agent": lambda: os.kill({agent}, 0),
        "the network": lambda: socket.create_connection(("127.0.0.1", {port}), 5),
    }}
    reached = {{}}
    for name, attempt in tries.items():
        try:
            attempt()
        except OSError:
            continue
        reached[name] = 1.0
    open(os.path.join(os.environ["TMPDIR"], "mine"), "w").write("what it may do")
    assert open({data!r}).read() == "my share"
    assert not [name for name in os.environ if name.startswith("VENN_") and name != "VENN_RUN_MARK"], os.environ
    return Result(model, metrics=reached)
"""


@pytest.mark.parametrize("means", ALONE, ids=IDS)
async def test_a_job_reaches_its_own_data_and_nothing_else(
    means: frozenset[Means],
    prisons: Callable[..., Prison],
    job: Callable[..., Work],
    tmp_path: Path,
    loopback: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of files, processes and the network."""
    token, other, data = tmp_path / "token", tmp_path / "jobs" / "other.py", tmp_path / "share"
    other.parent.mkdir()
    for file in (token, other):
        file.write_text("secret")
    data.write_text("my share")
    monkeypatch.setenv("VENN_DEVICE_TOKEN", "secret")
    body = REACHES.format(
        token=str(token), other=str(other), folder=str(other.parent), data=str(data), agent=os.getpid(), port=loopback
    )
    prison = prisons(means=means, secrets=(token,))
    output = await prison.pool.run(replace(job(body), data=str(data), reads=(data,)))
    skip_without(prison.held[0], means)
    assert output.metrics == {}
    assert prison.held[0].holds
    assert prison.held[0].readable == []
    assert data.read_text() == "my share"


async def test_what_is_in_force_is_read_back_and_what_is_not_is_said(prisons: Callable[..., Prison]) -> None:
    all_of_it, nothing = prisons(), prisons(wanted=Wanted.OFF)
    await all_of_it.pool.warm()
    await nothing.pool.warm()
    [held], [free] = all_of_it.held, nothing.held
    assert held.limits["RLIMIT_CORE"] == 0
    assert held.limits["RLIMIT_NOFILE"] == 256
    assert (held.user is not None) == (os.geteuid() == 0)
    assert not free.holds
    assert f"/proc/{os.getpid()}/environ" in free.readable
    assert str(free).startswith("nothing; not in force: ")


async def test_where_confinement_is_required_and_cannot_be_no_job_runs(
    prisons: Callable[..., Prison], job: Callable[..., Work]
) -> None:
    prison = prisons(wanted=Wanted.REQUIRED, means=frozenset({Means.RLIMITS}))
    await prison.refused(job(DOUBLE), "not confined as --confine required wants it")


async def test_data_that_another_user_cannot_read_is_read_by_the_agents_user(
    prisons: Callable[..., Prison], job: Callable[..., Work], tmp_path: Path
) -> None:
    data = tmp_path / "share"
    data.write_text("mine")
    data.chmod(0o600)
    body = "def work(model, task):\n    assert open(task.data).read() == 'mine'\n    return Result(model)\n"
    prison = prisons()
    assert await prison.pool.run(replace(job(body), data=str(data), reads=(data,)))
    assert prison.held[0].user is None
    assert prison.held[0].why_not["user"]


async def test_without_root_or_namespaces_files_are_kept_by_landlock(
    prisons: Callable[..., Prison], job: Callable[..., Work]
) -> None:
    """As in a container: the job's folder is then one of the machine's, and goes with its worker."""
    prison = prisons(means=frozenset({Means.LANDLOCK, Means.RLIMITS}))
    work = job('def work(model, task):\n    print(os.environ["TMPDIR"])\n    raise ValueError("told")\n')
    failure = await prison.refused(work, "told")
    skip_without(prison.held[0], frozenset({Means.LANDLOCK}))
    folder = failure.output_tail.splitlines()[0]
    assert is_there(folder)
    await prison.pool.close()
    assert not is_there(folder)


# -- limits

GREEDY = {
    "memory": ("np.ones(10**9 // 4)", "MemoryError"),
    "one file": ("open('large', 'wb').write(bytes(20_000_000))", "File too large"),
    "many files": ("[open(str(n), 'wb').write(bytes(1_000_000)) for n in range(20)]", "No space left on device"),
    "descriptors": ("[os.open('/dev/null', 0) for _ in range(100)]", "Too many open files"),
    "processes": ("[os.fork() or time.sleep(60) for _ in range(40)]", "Resource temporarily unavailable"),
}


@pytest.mark.parametrize(("code", "message"), GREEDY.values(), ids=GREEDY)
async def test_who_takes_more_than_a_task_may_have_is_refused(
    code: str, message: str, prisons: Callable[..., Prison], job: Callable[..., Work]
) -> None:
    prison = prisons(memory_bytes=10**9, disk_bytes=10**7, files=64, processes=24)
    await prison.pool.warm()
    if not prison.held[0].files:
        pytest.skip(f"this machine has no namespaces: {prison.held[0]}")
    await prison.refused(job(f"def work(model, task):\n    {code}\n    return Result(model)\n"), message)
    assert await prison.pool.run(job(DOUBLE))


# -- frames

WRITES = """
def work(model: Arrays, task: Task) -> Result:
    for number in range(3, 20):
        try:
            os.write(number, {forged!r})
        except OSError:
            pass
    time.sleep(600)
"""


def frame(header: object, body: bytes = b"", *, says: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return pipes.PREFIX.pack(len(text), len(body) if says is None else says) + text + body


FORGED = {
    "half a result": frame({"say": "done", "id": 1}),
    "a body without end": frame({"say": "done", "id": 1}, says=1 << 60),
    "a header of great depth": frame(b"[" * 200_000),
    "too much progress": frame({"say": "progress", "id": 1, "fraction": 0.5}) * 200,
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
async def test_a_forged_message_costs_its_worker_and_its_task_and_no_more(
    forged: bytes, pool: WorkerPool, job: Callable[..., Work]
) -> None:
    with pytest.raises(TaskFailed, match="the worker process was killed: it sent ") as failure:
        await pool.run(job(WRITES.format(forged=forged)))
    assert failure.value.reason == common.FAILURE_REASON_TASK_CRASHED
    assert await pool.run(job(DOUBLE))


async def test_a_forged_message_fails_one_lease_and_the_device_stays(stage: Stage) -> None:
    body = HEAD + WRITES.format(forged=FORGED["half a result"])
    playing = stage.play()
    stream = await leased(stage, task_of(stage, body))
    failed = await stream.hear("failed")
    assert (failed.lease, failed.reason) == (5, common.FAILURE_REASON_TASK_CRASHED)
    assert failed.message.startswith("the worker process was killed: it sent ")
    assert not playing.done()


# -- its agent, and others

KILLS = {
    "its parent": "os.kill(os.getppid(), 9)",
    "its group": "os.killpg(0, 9)",
    "all that it can": "os.kill(-1, 9); os.abort()",
    "the agent": "os.kill({agent}, 9); os.abort()",
}


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
async def test_who_kills_others_ends_itself_alone(
    kill: str, prisons: Callable[..., Prison], job: Callable[..., Work]
) -> None:
    """Another job's task is under way meanwhile, and ends as it should."""
    prison = prisons()
    under_way, go_on = asyncio.Event(), "def work(model, task):\n    task.progress(0.5)\n    time.sleep(1)\n"
    other = asyncio.create_task(
        prison.pool.run(job(go_on + "    return Result(model)\n", heard=lambda _: under_way.set()))
    )
    await under_way.wait()
    body = f"def work(model, task):\n    {kill.format(agent=os.getpid())}\n    return Result(model)\n"
    await prison.refused(job(body), "the worker process died|ProcessLookupError|PermissionError")
    assert (await other).weight == 1.0


async def test_who_prints_without_end_does_not_keep_its_agent_busy(
    prisons: Callable[..., Prison], job: Callable[..., Work]
) -> None:
    prison = prisons()
    body = (
        "import threading\ndef shout():\n    while True: os.write(2, b'x' * 65536)\n"
        "def work(model, task):\n    threading.Thread(target=shout, daemon=True).start()\n"
        "    time.sleep(0.2)\n    raise ValueError('at last')\n"
    )
    failure = await prison.refused(job(body), "at last")
    assert len(failure.output_tail) <= 4000


async def test_what_a_job_has_started_ends_with_an_agent_that_is_killed(tmp_path: Path) -> None:
    """Also what has left its group, and whose parent has ended."""
    file = tmp_path / "task.py"
    text = f"time.sleep(3600.{os.getpid()})"
    file.write_text(
        HEAD
        + f"""
import subprocess
def work(model: Arrays, task: Task) -> Result:
    sleeps = [sys.executable, "-c", "import time; {text}"]
    subprocess.Popen(sleeps, start_new_session=True)
    task.progress(0.1)
    time.sleep(3600)
"""
        + TAIL
    )
    script = f"""
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from device_agent.workers import WorkerPool
from job_driver.bundle import pack
from tests.integration.agent.works import work

async def main():
    code = pack(Path({str(file)!r}))
    await WorkerPool(1).run(work(code, heard=lambda fraction: print("running", flush=True)))
asyncio.run(main())
"""
    agent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert agent.stdout is not None
    assert await agent.stdout.readline() == b"running\n"
    left = [each for each in psutil.process_iter(["cmdline"]) if text in " ".join(each.info["cmdline"] or ())]
    assert left
    agent.send_signal(signal.SIGKILL)
    await agent.communicate()
    await asyncio.to_thread(psutil.wait_procs, left, 10)
    assert not [each for each in left if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


async def test_where_there_is_no_linux_job_code_runs_with_what_is_left_and_that_is_said(tmp_path: Path) -> None:
    """The agent and its workers take this machine for a Mac. (On a real one this was not tested.)"""
    (tmp_path / "sitecustomize.py").write_text('import ctypes.util, psutil, sys, uuid\nsys.platform = "darwin"\n')
    file = tmp_path / "task.py"
    file.write_text(HEAD + DOUBLE + TAIL)
    script = f"""
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from device_agent.workers import WorkerPool
from job_driver.bundle import pack
from tests.integration.agent.works import work

async def main():
    pool = WorkerPool(1, told=print)
    output = await pool.run(work(pack(Path({str(file)!r}))))
    print(output.weight)
    await pool.close()
asyncio.run(main())
"""
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script), stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(tmp_path)}
    )
    out, _ = await agent.communicate()
    told, weight = out.decode().splitlines()
    assert weight == "3.0"
    assert "rlimits (file 256 MB, 256 open files)" in told
    assert "namespaces: they need Linux" in told
    assert "landlock: it needs Linux" in told


def test_this_machine_says_which_landlock_it_has() -> None:
    try:
        version = syscalls.landlock_version()
    except OSError as error:
        pytest.skip(f"this kernel has no Landlock: {error}")
    assert version >= 1
