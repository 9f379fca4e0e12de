"""The process that runs a job's code on a device; ``confine.keeper`` starts it.

It confines itself before it has any job's code. Messages come on standard input and leave on what was standard output;
what the job prints goes to standard error, where the agent keeps the last of it. It ends when standard input ends,
whatever it is doing then. Between tasks it keeps imported modules and the model's bytes, but nothing that the job's own
code made: its file is run afresh for each task.

    down  load {digest} + bundle    run {id, ...} + the model, if it is another    cancel {id}
    up    ready {held}    began {id}    progress {id, fraction}    done {id, weight, ...} + arrays
          failed {id, phase, message}    revoked {id}
"""

import hashlib
import io
import linecache
import math
import os
import queue
import sys
import threading
import time
import traceback
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np

from device_agent import pipes
from device_agent.confine.inside import confine
from device_agent.confine.orders import Orders
from device_agent.pipes import Header
from job_driver.job import Arrays, Job, Result, Revoked, Task, check_like, needs_form_of_model
from venn.wire import tensors
from venn.wire.chunks import digest_of
from venn.wire.process import end_with_parent

PROGRESS_S = 0.2  # told at most so often
MODULE = "venn_job"
MOST_MESSAGE = 1000  # characters of an error
STEPS = 50  # parts of a synthetic task after which progress is told
PIECE = 4096  # elements that it works on at a time

OnDevice = Callable[[Arrays, Task], Result]


class ImportFailed(Exception):
    """The error of a job file that has no job."""


class Worker:
    """Does the tasks that an agent sends, one after the other."""

    def __init__(self, up: BinaryIO) -> None:
        self._up = up
        self._bundle: tuple[str, str, bytes] | None = None  # digest, file name, source
        self._code: types.CodeType | None = None  # of it, once it was compiled
        self._model = b""
        self.cancelled: set[int] = set()  # written by the reading thread

    def handle(self, header: Header, body: bytes) -> None:
        """Take a message."""
        match header["do"]:
            case "load":
                self._bundle, self._code = (header["digest"], *_unpack(body)), None
            case "run":
                if header["brings_model"]:
                    self._model = body
                self._run(header)
                self.cancelled.discard(header["id"])
            case other:
                raise pipes.BrokenFrame(f"{other}")

    def _run(self, header: Header) -> None:
        answer: Header = {"id": header["id"]}
        body = b""
        phase = "import"
        try:
            on_device, like_model = self._function()
            phase = "on_device"
            if header["say_began"]:  # somebody counts something from here on
                pipes.write(self._up, {"say": "began", "id": header["id"]})
            result, took = self._work(on_device, like_model, header)
            body = tensors.encode(result.arrays)
            answer |= {"say": "done", "weight": float(result.weight), "digest": digest_of(body).hex()}
            answer |= {"metrics": {name: float(value) for name, value in result.metrics.items()}, **took}
        except Revoked:
            answer |= {"say": "revoked"}
        except BaseException as error:  # whatever the job's code raises, SystemExit too, ends its task and no more
            _print_trace(error)
            answer |= {"say": "failed", "phase": phase, "message": self._one_line(error)}
            body = b""
        sys.stdout.flush()
        sys.stderr.flush()
        pipes.write(self._up, answer, body)

    def _function(self) -> tuple[OnDevice, bool]:
        """The function that runs on the device, from a file that is run afresh; and whether its result must be like the
        model.
        """
        if self._bundle is None:
            return synthetic, False
        _, name, source = self._bundle
        module = types.ModuleType(MODULE)
        module.__file__ = name
        sys.modules[MODULE] = module
        if self._code is None:
            self._code = compile(source, name, "exec", dont_inherit=True)
        exec(self._code, module.__dict__)
        job = getattr(module, "job", None)
        if not isinstance(job, Job):
            raise ImportFailed(f"{name} has no Job named job")
        return job.on_device, needs_form_of_model(job)

    def _work(self, on_device: OnDevice, like_model: bool, header: Header) -> tuple[Result, dict[str, float]]:
        model = {name: array.copy() for name, array in tensors.decode(self._model).items()}
        task = Task(
            data=Path(header["data"]),
            params=header["params"],
            round=header["round"],
            rng=np.random.default_rng(_seed(header)),
            ends_at=time.monotonic() + header["seconds_left"],
            report=self._reporter(header["id"]),
        )
        wall, cpu = time.perf_counter(), time.process_time()
        result = on_device(model, task)
        took = {"compute_s": time.perf_counter() - wall, "compute_cpu_s": time.process_time() - cpu}
        if not isinstance(result, Result):
            raise TypeError(
                f"{getattr(on_device, '__name__', 'on_device')} returned {type(result).__name__}, not Result"
            )
        if like_model:
            check_like(tensors.decode(self._model), result.arrays)
        return result, took

    def _one_line(self, error: BaseException) -> str:
        """The error that was raised, and its line in the job's file."""
        name = self._bundle[1] if self._bundle else ""
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
        place = f" ({name}, line {lines[-1]})" if lines else ""
        text = " ".join(str(error).split())
        return f"{type(error).__name__}{': ' if text else ''}{text[:MOST_MESSAGE]}{place}"

    def _reporter(self, number: int) -> Callable[[float], None]:
        told = 0.0

        def report(fraction: float) -> None:
            nonlocal told
            if number in self.cancelled:
                raise Revoked("the lease is gone")
            now = time.monotonic()
            if now - told >= PROGRESS_S:
                told = now
                pipes.write(self._up, {"say": "progress", "id": number, "fraction": fraction})

        return report


def synthetic(model: Arrays, task: Task) -> Result:
    """A task without a job's code: it spends a stated amount of processor time and sends a stated number of bytes.

    params: kind = synthetic, compute_s = 0 (processor seconds, >= 0), upload_bytes (absent: the model goes back).
    Raises ValueError for parameters that make no sense.
    """
    compute_s = float(task.params.get("compute_s", 0.0))
    if not (math.isfinite(compute_s) and compute_s >= 0):
        raise ValueError(f"compute_s must be seconds, at least 0, not {compute_s}")
    started, values = time.thread_time(), task.rng.random(PIECE)
    for step in range(1, STEPS + 1):
        until = started + compute_s * step / STEPS
        while time.thread_time() < until:
            values = np.sqrt(values * values + 1e-9)
        task.progress(step / STEPS)
    if "upload_bytes" not in task.params:
        return Result(model)
    upload_bytes = int(task.params["upload_bytes"])
    if upload_bytes < 0:
        raise ValueError(f"upload_bytes must be at least 0, not {upload_bytes}")
    return Result({"payload": task.rng.integers(0, 256, upload_bytes, dtype=np.uint8)})


def _unpack(bundle: bytes) -> tuple[str, bytes]:
    """The one file of a bundle; what is wrong with it comes out when it is run."""
    try:
        with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
            [entry] = archive.infolist()
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError("its code is compressed")
            name, source = entry.filename, archive.read(entry)
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        return "bundle", f"raise ImportError({f'the bundle is damaged: {error}'!r})".encode()
    lines = source.decode(errors="replace").splitlines(keepends=True)
    linecache.cache[name] = (len(source), None, lines, name)  # so that a traceback shows the job's lines
    return name, source


def _seed(header: Header) -> int:
    """The seed of a task, from (job's seed, device, round, attempt): it draws the same numbers wherever it runs."""
    text = f"{header['seed']}/{header['device']}/{header['round']}/{header['attempt']}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")


def _print_trace(error: BaseException) -> None:
    """Print the trace of an error from the job's first line on; how the job was called is ours."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def _read(down: BinaryIO, inbox: "queue.SimpleQueue[tuple[Header, bytes]]", worker: Worker) -> None:
    while (message := pipes.read(down)) is not None:
        if message[0]["do"] == "cancel":
            worker.cancelled.add(message[0]["id"])
        else:
            inbox.put(message)
    os._exit(0)  # the agent is gone: nobody wants what we do


def main(orders: Orders, folder: str, why_no_namespaces: str) -> NoReturn:
    """Be a worker. ``folder``: for temporary files; ``why_no_namespaces``: "" if this process has some."""
    down, up = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.nice(orders.nice)
    end_with_parent()  # stopped, or deep in a library, it would not see that standard input has ended
    try:
        held = confine(orders, folder, why_no_namespaces)
    except OSError as error:
        sys.exit(f"a worker could not be confined: {error}")
    end_with_parent(known=True)  # a change of user makes the kernel forget it
    inbox: queue.SimpleQueue[tuple[Header, bytes]] = queue.SimpleQueue()
    worker = Worker(up)
    threading.Thread(target=_read, args=(down, inbox, worker), daemon=True).start()
    pipes.write(up, {"say": "ready", "held": held.to_json()})
    while True:
        worker.handle(*inbox.get())
