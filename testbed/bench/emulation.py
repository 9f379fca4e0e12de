"""Limits of devices: a known load through every means that this machine has; what was got against what was asked.

The processor: a task that would use a whole core, by what the kernel counts for it. Memory: what a process held when it
was killed or refused more. Rates: bytes of an application over an established connection, so that headers (3 to 5 %)
are part of it. Delays: the median round trip of one byte, less that of the same link without delay. Jitter: the range
between the quartiles of round trips, whose two ways scatter evenly and apart. Loss: datagrams that were not echoed, of
which 1 - (1 - loss)^2 are to be expected.

Then two devices hand over 5 MB at 1 Mbit/s in a real run, one through each kind of link, and no session and no lease
may be lost over it. Where there is a Docker Engine with the image, a device in a container does so too, and the same
task is done in two of them: its times must be to each other as their limits. ``ratio`` is the worst got over asked,
folded to at most 1. What no means of this machine can do is told as untested.
"""

import asyncio
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path

from coordinator.engine.model import SessionEnd
from device_agent.throttle import NOTHING, DutyCycle, Throttle, processor_time
from testbed.bench.figures import Figures, Measured, Say, Untested
from testbed.bench.loads import Echo, answer
from testbed.live.run import run_scenario
from testbed.live.throttle import cgroup, tc
from testbed.live.throttle.means import CGROUP, DUTY, NETEM, RELAY, RLIMIT, TC, Machine, probe
from testbed.live.throttle.relay import LinkSpec
from testbed.runfolder.summary import Summary
from testbed.scenario.loader import parse
from testbed.world.limits import Limits
from venn.wire.command import run_async
from venn.wire.errors import UsageError
from venn.wire.process import PREFIX, own_mark

CORES = (0.1, 0.25, 0.5)
MBITS = (1.0, 5.0, 20.0)
TRIPS_MS = (20.0, 50.0, 200.0)
SPIN_S = 2.0
WINDOWS = 3  # of so long; the median counts
SETTLE_S = 0.5  # before a figure counts
MOVE_S = 3.0  # of bytes at the asked rate
TRIPS = 50
JITTERS_MS, JITTER_DELAY_S = (10.0, 20.0), 0.02
JITTER_TRIPS = 1000  # the standard error of the range between their quartiles is 4 %
LOSSES = (0.01, 0.05)
DATAGRAMS = 8_000
MEMORY_MB = (128, 384)
MEMORY_BEYOND = 2  # times the limit, which is more than a process may ever get
MEASURED = ("cpu", "memory", "rate", "delay", "loss")  # fields of the checks; "delay" is jitter, too
UPLOAD_MB = 5
SLOW, FAST = 0.125, 0.5  # cores of containers
LOST = (SessionEnd.CONNECTION_ENDED, SessionEnd.SILENT, SessionEnd.SLOW_READER)  # sessions that broke
LOADS = (sys.executable, "-m", "testbed.bench.loads")
SCENARIO = """
version: 1
name: bench
policy: fifo
backend: {backend}
duration: 5m
every_job: {{file: {file}, demand: 1, rounds: {rounds}, min_response: 100%, deadline: 150s}}
jobs: {{{jobs}}}
every_device: {every_device}
fleets: {{{fleets}}}
"""
# By backend; each fleet has a job of its name.
UPLOADS = {
    "process": {"cable": "{count: 1, processes: 1}", "relay": "{count: 2, processes: 1}"},
    "compose": {"container": "{count: 1}"},
}
CONTAINED = {"slow": f"{{count: 1, cores: {SLOW}}}", "fast": f"{{count: 1, cores: {FAST}}}"}
JOB = """
import time

import numpy as np

from job_driver import Arrays, Job, Result, Task


def initial(rng: np.random.Generator) -> Arrays:
    return {{"w": np.zeros(1)}}


def work(model: Arrays, task: Task) -> Result:
    {work}


class Forget:
    same_as_model = False

    def __init__(self, model: Arrays) -> None:
        self.model = model

    def add(self, result: Result) -> None:
        pass

    def close(self) -> Arrays:
        return self.model


job = Job(initial=initial, on_device=work, aggregate=Forget)
"""
GROW = f"""return Result({{"w": task.rng.integers(0, 256, {UPLOAD_MB} * 10**6, dtype=np.uint8)}})"""
SPIN = """end = time.process_time() + 1.0
    while time.process_time() < end:
        pass
    return Result(dict(model))"""


def run(say: Say) -> Measured:
    """Measure; about five minutes."""
    machine = probe()
    figures = Figures(say)
    for cores in CORES:
        if machine.can("cpu", CGROUP):
            name = f"cpu_cgroup_v{machine.trees.version}_{cores:g}_cores"
            figures.add(name, _in_group(machine, cores), cores)
        if machine.can("cpu", DUTY):
            figures.add(f"cpu_duty_cycle_{cores:g}_cores", _on_duty(cores), cores)
    for megabytes in MEMORY_MB:
        for means, name in ((CGROUP, f"cgroup_v{machine.trees.version}"), (RLIMIT, RLIMIT)):
            if machine.can("memory", means):
                got = got_bytes(machine, means, megabytes * 10**6) / 1e6
                figures.add(f"memory_{name}_{megabytes}_mb", got, megabytes)
    untested = [
        Untested(f"{each.field} by {each.means}", each.says)
        for each in machine.checks
        if not each.passed and each.field in MEASURED
    ]

    async def links() -> int:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**20)
        target = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            await _rates(machine, target, figures)
            await _delays(machine, target, figures)
            await _jitter(machine, target, figures)
        await _losses(machine, figures)
        lacking = missing()
        untested.extend(await _upload(["process"] if lacking else list(UPLOADS), figures, say))
        if lacking := lacking or await _contained(figures, say):
            untested.append(Untested("limits of containers", lacking))
        return 0

    run_async(links())
    for each in untested:
        say(str(each))
    return Measured("emulation", figures.got, figures.asked, figures.worst, untested=tuple(untested))


# -- the processor


@contextmanager
def _group(machine: Machine, limits: Limits) -> Iterator[cgroup.Group]:
    group = cgroup.make(machine.trees, own_mark(), f"bench-{os.getpid()}", limits)
    try:
        yield group
    finally:
        for path in reversed(group.made):
            cgroup.remove(path)


def _in_group(machine: Machine, cores: float) -> float:
    with _group(machine, Limits(cores=cores)) as group, _spinning() as pid:
        for path in group.work_in:
            (path / "cgroup.procs").write_text(str(pid))
        return _cores_of(pid)


def _on_duty(cores: float) -> float:
    with _spinning() as pid:
        duty = DutyCycle(cores)
        try:
            duty.add(pid)
            return _cores_of(pid)
        finally:
            duty.close()


@contextmanager
def _spinning() -> Iterator[int]:
    with subprocess.Popen([*LOADS, "spin", "60"], start_new_session=True) as process:
        try:
            time.sleep(SETTLE_S)  # it has started
            yield process.pid
        finally:
            process.kill()


def _cores_of(pid: int) -> float:
    """Processor time over wall time."""
    time.sleep(SETTLE_S)
    got = []
    for _ in range(WINDOWS):
        used, began = processor_time(pid) or 0.0, time.monotonic()
        time.sleep(SPIN_S)
        got.append(((processor_time(pid) or 0.0) - used) / (time.monotonic() - began))
    return statistics.median(got)


# -- memory


def got_bytes(machine: Machine, means: str, asked: int) -> int:
    """The most that a process held, limited as a worker is, before it was killed or refused: resident bytes in a
    cgroup, bytes of data under RLIMIT_DATA.
    """
    if means != CGROUP:
        return _held(NOTHING, asked, rlimit=True)[1]
    with _group(machine, Limits(memory_bytes=asked)) as group:
        return _held(Throttle(start_in=group.start_in, work_in=group.work_in), asked)[0]


def _held(throttle: Throttle, asked: int, *, rlimit: bool = False) -> tuple[int, int]:
    command = throttle.launch([*LOADS, "hog", str(MEMORY_BEYOND * asked)])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # it is warm
        throttle.slow_down(process.pid)
        if rlimit:
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (asked, asked))
        process.stdin.write("\n")
        process.stdin.flush()
        whole = [line for line in process.stdout if line.endswith("\n")]  # a kill ends in the middle of a line
    resident, data = whole[-1].split() if whole else ("0", "0")
    return int(resident), int(data)


# -- the link


async def _rates(machine: Machine, target: str, figures: Figures) -> None:
    for means in (TC, RELAY):
        for mbits, way in product(MBITS, ("up", "down")) if machine.can("rate", means) else ():
            limits, count = Limits(up_bits=mbits * 1e6, down_bits=mbits * 1e6), int(mbits * 1e6 / 8 * MOVE_S)
            seconds = await _through(limits, means, target, way, count)
            figures.add(f"{way}_{means}_{mbits:g}_mbit_s", count * 8 / seconds / 1e6, mbits)


async def _delays(machine: Machine, target: str, figures: Figures) -> None:
    """Measure delays alone and with a rate by ``tc``: a relay or netem and ``tc`` together are one means."""
    rate = 5e6
    kinds = ((RELAY, RELAY, None), ("tc_and_relay", TC, rate), (NETEM, NETEM, None), ("tc_and_netem", NETEM, rate))
    for name, means, bits in kinds:
        if not machine.can("delay" if means == NETEM else "rate", means):
            continue
        base = await _through(Limits(up_bits=bits, down_bits=bits), means, target, "echo", TRIPS)
        for asked in TRIPS_MS:
            limits = Limits(up_bits=bits, down_bits=bits, delay_s=asked / 1000)
            got = await _through(limits, means, target, "echo", TRIPS)
            figures.add(f"delay_{name}_{asked:g}_ms", 1000 * (got - base), asked)


async def _jitter(machine: Machine, target: str, figures: Figures) -> None:
    for means in (RELAY, NETEM):
        for asked in JITTERS_MS if machine.can("delay", means) else ():
            limits = Limits(delay_s=JITTER_DELAY_S, jitter_s=asked / 1000)
            between = await _through(limits, means, target, "quartiles", JITTER_TRIPS)
            figures.add(f"jitter_{means}_{asked:g}_ms", 1000 * jitter_of(between), asked)


def jitter_of(between_s: float) -> float:
    """The jitter from the range between the quartiles of round trips: two ways are even over plus and minus half of the
    jitter, so that the sum is triangular over plus and minus all of it, and its quartiles are at 1 - 1 / sqrt(2) of it.
    """
    return between_s / (2 - math.sqrt(2))


@contextmanager
def _cable(limits: Limits, *, netem: bool) -> Iterator[tc.Namespace]:
    """A network namespace behind a link with these limits."""
    cable = tc.create_namespace(f"{PREFIX}{own_mark()}-bench", f"vn{os.getpid()}b", os.getpid() * 61)
    try:
        tc.shape(cable, limits, netem=netem)
        yield cable
    finally:
        tc.remove_namespace(cable.name)


async def _losses(machine: Machine, figures: Figures) -> None:
    """Measure losses past the relay, which loses nothing: datagrams over the cable itself."""
    for loss in LOSSES if machine.can("loss", NETEM) else ():
        with _cable(Limits(loss=loss), netem=True) as cable:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=(cable.address, 0))
            try:
                address = f"{cable.address}:{transport.get_extra_info('sockname')[1]}"
                percent = 100 * await _client([*cable.enter, *LOADS, "lost", address, str(DATAGRAMS)])
            finally:
                transport.close()
        figures.add(f"loss_{NETEM}_{100 * loss:g}_percent_each_way", percent, 100 * (1 - (1 - loss) ** 2))


async def _through(limits: Limits, means: str, target: str, kind: str, count: int) -> float:
    """What a device behind such a link measures."""
    with nullcontext() if means == RELAY else _cable(limits, netem=means == NETEM) as cable:
        link = LinkSpec(
            up_bits=None if cable else limits.up_bits,
            down_bits=None if cable else limits.down_bits,
            delay_s=0.0 if means == NETEM else limits.delay_s,
            jitter_s=0.0 if means == NETEM else limits.jitter_s,
            host=cable.address if cable else "127.0.0.1",
            interface=cable.interface if cable else "",
        ).link()
        proxy = await link.start()
        try:
            return await _client([*(cable.enter if cable else ()), *LOADS, kind, proxy, target, str(count)])
        finally:
            await link.stop()


async def _client(command: list[str]) -> float:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return float(output)


# -- a real run


async def _upload(backends: Sequence[str], figures: Figures, say: Say) -> list[Untested]:
    """Seconds for 5 MB, by the job that asked for them; and what was lost, of which there shall be nothing. Returns the
    backends that do not run here.
    """
    summaries: list[Summary] = []
    untested: list[Untested] = []
    for backend in backends:
        say(f"{UPLOAD_MB} MB up at 1 Mbit/s, in a real run, backend {backend}")
        try:
            summaries.append(summary := await _run(backend, UPLOADS[backend], GROW, rounds=1, up="1 Mbit/s"))
        except UsageError as error:
            untested.append(Untested(f"uploads, backend {backend}", str(error)))
            continue
        means = {limit.fleet: limit.means for limit in summary.emulation.limits if limit.key == "up"}
        for job in summary.jobs:
            figures.add(f"upload_{job.name}_by_{means[job.name]}_s", job.collect_s, UPLOAD_MB * 8.0)
    if not summaries:
        return untested
    leases = [summary.leases for summary in summaries]
    figures.add("upload_leases_revoked", sum(each.revoked for each in leases), 0)
    figures.add("upload_leases_lost", sum(each.lost + each.expired + each.failed for each in leases), 0)
    lost = sum(summary.sessions_by_end.get(end, 0) for summary in summaries for end in LOST)
    figures.add("upload_sessions_lost", lost, 0)
    figures.add("upload_unfinished_jobs", sum(summary.unfinished_jobs for summary in summaries), 0)
    return untested


async def _contained(figures: Figures, say: Say) -> str:
    """The same task in two containers. Returns why it does not run here, "" if it does."""
    say("the same task in two containers, in a real run")
    try:
        summary = await _run("compose", CONTAINED, SPIN, rounds=4)
    except UsageError as error:  # as with an image of another version
        return str(error)
    took = {times.fleet: times for times in summary.emulation.tasks}
    for fleet, cores in (("slow", SLOW), ("fast", FAST)):
        figures.add(f"cpu_container_{cores:g}_cores", took[fleet].compute_cpu_s / took[fleet].measured_s, cores)
    figures.add("containers_slow_task_over_fast", took["slow"].measured_s / took["fast"].measured_s, FAST / SLOW)
    return ""


async def _run(backend: str, fleets: Mapping[str, str], work: str, *, rounds: int, up: str = "") -> Summary:
    """A real run, with a job for each of the fleets. ``work``: what a task does; ``up``: the rate of each link."""
    with tempfile.TemporaryDirectory(prefix="venn-bench-") as folder:
        file = Path(folder) / "bench_job.py"
        file.write_text(JOB.format(work=work))
        scenario = parse(
            SCENARIO.format(
                backend=backend,
                file=file,
                rounds=rounds,
                jobs=", ".join(f"{name}: {{requirement: fleet = {name}}}" for name in fleets),
                every_device=f"{{up: {up}}}" if up else "{}",
                fleets=", ".join(f"{name}: {fleet}" for name, fleet in fleets.items()),
            )
        )
        return (await run_scenario(scenario, out=Path(folder) / "run", quiet=True)).summary


def missing() -> str:
    """What this machine lacks to run containers; "" if it lacks nothing."""
    try:
        from testbed.live.containers.engine import checks
    except ModuleNotFoundError as error:
        return f"there is no Python package {error.name}"
    return next((each.missing for each in checks() if each.missing), "")
