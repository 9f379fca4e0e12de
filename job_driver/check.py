"""Checks a job in one round on two shares, in this process (``venn job check``). No coordinator, no devices."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from job_driver.aggregation import check_finite, check_form
from job_driver.bundle import JobFile, job_code
from job_driver.job import Arrays, Result, Round, Task, WeightedMean, check_like, needs_form_of_model
from job_driver.metrics import tellable
from job_driver.settings import ParamValue
from venn.wire import tensors
from venn.wire.errors import UsageError
from venn.wire.notation import format_bytes, format_duration
from venn.wire.tensors import TensorError

SHARES = 2
SAMPLES = 180  # of each generated share, and of the generated held-out file
CLASSES, PIXELS = 10, 64
LOOK_EVERY_S = 0.002
FILES = ("share-0.npz", "share-1.npz", "held_out.npz")


@dataclass
class Finding:
    """The cost and the result of one round."""

    download_bytes: int = 0  # to each device: the model (the code travels once)
    upload_bytes: int = 0  # from each device, the larger one
    code_bytes: int = 0
    seconds: float = 0.0  # of one task, the longer one
    peak_memory_bytes: int = 0  # that one task added
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def workload(self) -> str:
        """The line for the scenario, as if this machine had the cpu score 1."""
        compute = format_duration(_rounded(self.seconds))
        down, up = format_bytes(self.download_bytes), format_bytes(self.upload_bytes)
        return f"workload: {{compute: {compute}, download: {down}, upload: {up}}}"


def check_job(
    file: JobFile, *, shares: Sequence[Path], held_out: Path | None, params: Mapping[str, ParamValue], seed: int = 0
) -> Finding:
    """Run the round. Raises UsageError in one line where the job's code, or what it returns, is wrong."""
    job, finding = file.job, Finding(code_bytes=len(file.code))
    with job_code(file, "initial", UsageError):
        model: Arrays = {name: np.asarray(a) for name, a in job.initial(np.random.default_rng([seed, 0])).items()}
    sent = _encoded(file, "initial", model)
    finding.download_bytes = len(sent)
    with job_code(file, "aggregate", UsageError):
        total = job.aggregate(model)
    for number, share in enumerate(shares):
        task = Task(share, _Params(params), rng=np.random.default_rng([seed, number, 1, 1]))
        result = _on_device(file, tensors.decode(sent), task, finding)
        with job_code(file, "aggregate", UsageError):
            total.add(result)
    with job_code(file, "aggregate", UsageError):
        after = total.close()
    check_form(file, model, after)
    check_finite(file, after)
    _evaluate(file, after, held_out, finding)
    return finding


class _Params(dict[str, ParamValue]):
    """Parameters that say which one is missing."""

    def __missing__(self, name: str) -> ParamValue:
        fix = f"give it as a device will get it: --param {name}=VALUE"
        raise UsageError(
            "PARAM", f"the task reads the parameter {name}, which has no value", where="on_device", fix=fix
        )


def generated_data(folder: Path) -> tuple[list[Path], Path]:
    """Make two shares and a held-out file that look like 8 x 8 digits (x: 0 to 16, y: 0 to 9), from no data set."""
    rng = np.random.default_rng(7)
    shapes = rng.integers(0, 17, (CLASSES, PIXELS))
    paths = [folder / name for name in FILES]
    for path in paths:
        y = np.arange(SAMPLES) % CLASSES
        x = np.clip(shapes[y] + rng.normal(0, 2, (SAMPLES, PIXELS)), 0, 16)
        np.savez(path, x=x, y=y)
    return paths[:SHARES], paths[SHARES]


def find_data(names: Sequence[str], held_out: Path | None, folder: Path) -> tuple[list[Path], Path | None]:
    """Find the shares that were asked for; without any, make some. Files that are made go into ``folder``."""
    if not names or list(names) == ["sklearn-digits"]:
        shares, made = _sklearn_digits(folder) if names else generated_data(folder)
        return shares, held_out or made
    for name in [*names, *([str(held_out)] if held_out else [])]:
        if not Path(name).exists():
            raise UsageError("DATA", "there is no such file", where=name, fix="give the path of a share, twice for two")
    paths = [Path(name) for name in names]
    return (paths * SHARES)[: max(SHARES, len(paths))], held_out


def _sklearn_digits(folder: Path) -> tuple[list[Path], Path]:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # it has no types

    data = load_digits()
    paths = [folder / name for name in FILES]
    for start, path in enumerate(paths):
        np.savez(path, x=data.data[start::3], y=data.target[start::3])
    return paths[:SHARES], paths[SHARES]


def facts_of(file: JobFile, finding: Finding) -> dict[str, Any]:
    """The finding as ``--json`` prints it."""
    whole = asdict(finding) | {"metrics": tellable(finding.metrics), "workload": finding.workload}
    return whole | {"code_digest": file.digest.hex()}


def text_of(file: JobFile, finding: Finding) -> str:
    """The finding as text for people."""
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in finding.metrics.items())
    model, code = format_bytes(finding.download_bytes), format_bytes(finding.code_bytes)
    lines = [
        f"{file.path.name}: one round on {SHARES} shares works",
        f"  to a device    {model} of model, and once {code} of code",
        f"  from a device  {format_bytes(finding.upload_bytes)}",
        f"  a task takes   {format_duration(_rounded(finding.seconds))} here",
        f"  and adds       {format_bytes(finding.peak_memory_bytes)} of memory at its peak",
        f"  metrics        {metrics or '-'}",
        f"  code           {file.digest.hex()}",
        *(f"  note           {note}" for note in finding.notes),
        "for the scenario, where time is modelled (this machine taken as cpu 1):",
        f"  {finding.workload}",
    ]
    return "\n".join(lines)


def _on_device(file: JobFile, model: Arrays, task: Task, finding: Finding) -> Result:
    with _peak_memory(finding):
        began = time.perf_counter()
        with job_code(file, "on_device", UsageError):
            result = file.job.on_device(model, task)
        finding.seconds = max(finding.seconds, time.perf_counter() - began)
    if not isinstance(result, Result):
        raise _wrong(file, f"on_device returned {type(result).__name__}, not a Result", "return Result({...})")
    arrays = {name: np.asarray(array) for name, array in result.arrays.items()}
    finding.upload_bytes = max(finding.upload_bytes, len(_encoded(file, "on_device", arrays)))
    if not 1 / file.job.most_weight <= result.weight <= file.job.most_weight:
        most = file.job.most_weight
        message = f"on_device returned the weight {result.weight:g}; this job allows {1 / most:g} to {most:g}"
        raise _wrong(file, message, "allow it in the job: Job(..., most_weight=...)")
    if needs_form_of_model(file.job):
        with job_code(file, "on_device", UsageError):
            check_like(model, arrays)
    return Result(arrays, result.weight, result.metrics)


def _evaluate(file: JobFile, model: Arrays, held_out: Path | None, finding: Finding) -> None:
    job = file.job
    if job.evaluate is not None and held_out is not None:
        with job_code(file, "evaluate", UsageError):
            finding.metrics = {str(name): float(value) for name, value in job.evaluate(model, held_out).items()}
    if job.stop is not None:
        with job_code(file, "stop", UsageError):
            job.stop((Round(1, SHARES, 0, finding.seconds, finding.metrics),))
        finding.notes.append("stop is called with max_rounds only, never with an exact number of rounds")
    if job.aggregate is WeightedMean and job.evaluate is None:
        finding.notes.append("there is no evaluate: the run will not show whether the model improves")


def _encoded(file: JobFile, function: str, arrays: Arrays) -> bytes:
    try:
        body = tensors.encode(arrays)
        tensors.decode(body, refuse_nan=True)
    except TensorError as error:
        raise _wrong(file, f"{function}: {error.message}", error.fix) from error
    return body


@contextmanager
def _peak_memory(finding: Finding) -> Iterator[None]:
    """Measure how far the process grows inside, looked at every few milliseconds from another thread."""
    process, done = psutil.Process(), threading.Event()
    before = process.memory_info().rss

    def look() -> None:
        while True:
            finding.peak_memory_bytes = max(finding.peak_memory_bytes, process.memory_info().rss - before)
            if done.wait(LOOK_EVERY_S):
                return

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _rounded(seconds: float) -> float:
    """Round to two digits, at least a millisecond: more would be noise."""
    return max(0.001, float(f"{seconds:.2g}"))


def _wrong(file: JobFile, message: str, fix: str) -> UsageError:
    return UsageError("JOB_FILE", message, where=file.path.name, fix=fix)
