"""Job code in worker processes: what it is given, what it returns, and how its failures are told."""

from collections.abc import Callable

import pytest

from device_agent.actions import TaskFailed
from device_agent.worker_process import Work
from device_agent.workers import WorkerPool
from tests.integration.agent.works import DOUBLE, MEAN, work
from venn.v1 import common_pb2 as common
from venn.wire import tensors
from venn.wire.chunks import digest_of


async def test_a_task_runs_on_a_copy_of_the_model_in_a_warm_process(pool: WorkerPool, job: Callable[..., Work]) -> None:
    outputs = [await pool.run(job(DOUBLE)) for _ in range(3)]
    results = [tensors.decode(output.body) for output in outputs]
    assert all(result["w"].tolist() == [0, 2, 4, 6] for result in results)
    assert len({int(result["worker"]) for result in results}) == 1
    assert outputs[0].weight == 3.0
    assert outputs[0].metrics == {"round": 2.0}
    assert outputs[0].digest == digest_of(outputs[0].body)


async def test_a_task_has_its_own_random_numbers_and_nothing_of_the_task_before(
    pool: WorkerPool, job: Callable[..., Work]
) -> None:
    body = """
kept = []
def work(model: Arrays, task: Task) -> Result:
    kept.append(1)
    return Result({"drawn": task.rng.random(3), "kept": np.int64(len(kept))})
"""
    first, second = [tensors.decode((await pool.run(job(body))).body) for _ in range(2)]
    assert first["drawn"].tolist() == second["drawn"].tolist()
    assert int(second["kept"]) == 1


async def test_each_job_has_processes_of_its_own(pool: WorkerPool, job: Callable[..., Work]) -> None:
    one = tensors.decode((await pool.run(job(DOUBLE))).body)["worker"]
    other = tensors.decode((await pool.run(job(DOUBLE + "# another\n"))).body)["worker"]
    again = tensors.decode((await pool.run(job(DOUBLE))).body)["worker"]
    assert one != other
    assert one == again


async def test_a_worker_computes_on_one_thread_without_our_secrets(
    pool: WorkerPool, job: Callable[..., Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENN_KEYS", "secret")
    body = """
def work(model: Arrays, task: Task) -> Result:
    hidden = "VENN_KEYS" not in os.environ and "grpc" not in sys.modules
    return Result({"ok": np.bool_(hidden and os.environ["OMP_NUM_THREADS"] == "1")})
"""
    assert tensors.decode((await pool.run(job(body))).body)["ok"]


async def test_an_exception_comes_with_its_line_and_the_last_output(pool: WorkerPool, job: Callable[..., Work]) -> None:
    body = """
def work(model: Arrays, task: Task) -> Result:
    for number in range(100):
        print("line", number)
    raise ValueError("x has 0 rows")
"""
    with pytest.raises(TaskFailed, match="ValueError: x has 0 rows") as failure:
        await pool.run(job(body))
    assert failure.value.phase == common.PHASE_ON_DEVICE
    assert failure.value.reason == common.FAILURE_REASON_TASK_CRASHED
    tail = failure.value.output_tail.splitlines()
    assert "line 99" in tail
    assert "line 1" not in tail
    assert any('raise ValueError("x has 0 rows")' in line for line in tail)
    assert not any("worker.py" in line for line in tail)


@pytest.mark.parametrize(
    ("body", "phase", "message"),
    [
        ("import nothing_of_that_name\nwork = print", common.PHASE_IMPORT, "No module named 'nothing_of_that_name'"),
        ("def work(model, task: return 1", common.PHASE_IMPORT, "SyntaxError"),
        ("def work(model, task): return 1", common.PHASE_ON_DEVICE, "returned int, not Result"),
        ("def work(model, task): sys.exit(3)", common.PHASE_ON_DEVICE, "SystemExit: 3"),
        ("def work(model, task): os._exit(3)", common.PHASE_ON_DEVICE, "the worker process died: exit code 3"),
        (
            "def work(model, task): return Result({'o': np.array([object()])})",
            common.PHASE_ON_DEVICE,
            "array o has dtype object",
        ),
    ],
)
async def test_what_goes_wrong_is_said_in_one_line(
    pool: WorkerPool, job: Callable[..., Work], body: str, phase: int, message: str
) -> None:
    with pytest.raises(TaskFailed) as failure:
        await pool.run(job(body))
    assert message in failure.value.message
    assert "\n" not in failure.value.message
    assert failure.value.phase == phase
    assert await pool.run(job(DOUBLE))  # and the next task finds a worker


async def test_a_result_unlike_the_model_fails_on_the_device_with_both_named(
    pool: WorkerPool, job: Callable[..., Work]
) -> None:
    unlike = "def work(model, task): return Result({'w': np.zeros((3, 2), dtype=np.float32)})"
    with pytest.raises(TaskFailed) as failure:
        await pool.run(job(unlike, tail=MEAN))
    assert failure.value.phase == common.PHASE_ON_DEVICE
    assert "w is float32[3, 2] in the response, but float64[4] in the model" in failure.value.message
    assert await pool.run(job("def work(model, task): return Result(model)", tail=MEAN))


async def test_a_worker_killed_by_a_signal_is_named_with_its_output_and_replaced(
    pool: WorkerPool, job: Callable[..., Work]
) -> None:
    body = """
def work(model: Arrays, task: Task) -> Result:
    print("about to die", flush=True)
    os.kill(os.getpid(), 9)
"""
    with pytest.raises(TaskFailed, match="died: signal 9") as failure:
        await pool.run(job(body))
    assert failure.value.output_tail == "about to die"
    assert await pool.run(job(DOUBLE))


async def test_a_damaged_bundle_fails_the_import(pool: WorkerPool) -> None:
    with pytest.raises(TaskFailed, match="the bundle is damaged") as failure:
        await pool.run(work(b"no zip"))
    assert failure.value.phase == common.PHASE_IMPORT


async def test_the_synthetic_task_spends_what_it_is_told(pool: WorkerPool) -> None:
    params: dict[str, bool | int | float | str] = {"kind": "synthetic", "compute_s": 0.2, "upload_bytes": 1000}
    output = await pool.run(work(None, params=params))
    assert output.compute_cpu_s >= 0.2
    assert tensors.decode(output.body)["payload"].nbytes == 1000
    echoed = await pool.run(work(None, params={"kind": "synthetic"}))
    assert tensors.decode(echoed.body)["w"].tolist() == [0, 1, 2, 3]
