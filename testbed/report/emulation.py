"""How the devices of a run were slowed down, by which means, and what their tasks then took."""

import json
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from statistics import fmean
from typing import Any

from testbed.report.history import History, JobHistory, LeaseHistory
from testbed.runfolder.summary import Emulation, Limit, TaskTimes
from testbed.world.limits import OF_A_CONTAINER
from venn.wire.errors import UsageError

FILE = "emulation.json"
NOT_IN_FORCE = "not in force"


SIMULATED = Emulation(cpu="modelled", memory="not limited", link="modelled", processes=0)


def read_emulation(folder: Path, *, devices: int, processes: int) -> Emulation:
    """Reads the emulation of a live run. Raises UsageError if its file was damaged."""
    try:
        value = json.loads((folder / FILE).read_text(encoding="utf-8"))
        limits = tuple(_limit(row) for row in value["limits"])
        degraded = tuple(str(each) for each in value["degraded"])
        counts = {str(row["fleet"]): int(row["count"]) for row in value["fleets"]}
    except FileNotFoundError:
        return Emulation(cpu="modelled", memory="not limited", link="not limited", processes=processes)
    except (OSError, ValueError, KeyError, TypeError) as error:
        fix = "restore the file, or run again"
        raise UsageError("RUN_DAMAGED", f"{error}", where=str(folder / FILE), fix=fix) from None
    return Emulation(
        cpu=_told(limits, {"cores"}, counts, devices, "modelled"),
        memory=_told(limits, {"memory_limit"}, counts, devices, "not limited"),
        link=_told(limits, {"up", "down", "delay", "jitter", "loss"}, counts, devices, "not limited"),
        processes=processes,
        limits=limits,
        degraded=degraded,
    )


def is_slow_as_a_whole(host_folder: Path) -> bool:
    """Whether a host of devices is a container with few cores: its session is as slow as its task, and says nothing of
    the machine."""
    try:
        return '"cores"' in (host_folder / OF_A_CONTAINER).read_text(encoding="utf-8")
    except OSError:
        return False


def _told(limits: tuple[Limit, ...], keys: set[str], counts: dict[str, int], devices: int, else_: str) -> str:
    """``tc and relay on 2 devices, else not limited``."""
    chosen = [limit for limit in limits if limit.key in keys]
    means = dict.fromkeys(limit.means or NOT_IN_FORCE for limit in chosen)
    held = sum(counts[fleet] for fleet in {limit.fleet for limit in chosen})
    if not held:
        return else_
    others = f", else {else_}" if held < devices else ""
    return f"{' and '.join(means)} on {held} device{'s' if held > 1 else ''}{others}"


def _limit(row: Any) -> Limit:
    read_back = row["read_back"]
    return Limit(
        str(row["fleet"]),
        str(row["key"]),
        str(row["asked"]),
        None if read_back is None else float(read_back),
        str(row["means"]),
    )


def task_times(history: History, limited: Collection[str]) -> tuple[TaskTimes, ...]:
    """Task times by fleet and job; ``limited`` are the fleets whose processor was limited."""
    found: defaultdict[tuple[str, str], list[LeaseHistory]] = defaultdict(list)
    for lease in history.leases.values():
        fleet = fleet_of(history, lease)
        if fleet in limited and lease.compute_s is not None:
            found[fleet, history.jobs[lease.job].name].append(lease)
    return tuple(_means(history, *key, leases) for key, leases in sorted(found.items()))


def overhead_s(history: History, job: JobHistory, limited: Collection[str]) -> float:
    """Seconds of a finished job's JCT that are neither tasks nor waiting for devices: gaps, and for each closed attempt
    from the moment at which its responses would be there, had each come as soon as its task was over.
    """
    completed = job.completed_at()
    assert completed is not None
    gaps = completed - job.arrived_at - sum(sum(attempt.split(history.ended_s)) for attempt in job.attempts)
    last: defaultdict[tuple[int, int], float] = defaultdict(float)  # by round and attempt: the end of its last task
    for lease in (lease for attempt in job.attempts for lease in attempt.leases):
        if lease.counts_in is not None:
            last[lease.counts_in] = max(last[lease.counts_in], lease.offered_at + _task_s(history, lease, limited))
    ends = ((attempt.ended_at or 0.0, last[attempt.round, attempt.attempt]) for attempt in job.closed())
    return gaps + sum(max(0.0, end - over) for end, over in ends)


def modelled_s(history: History, lease: LeaseHistory) -> float | None:
    """The seconds that a lease's task takes in a simulation. None: the job or the device does not say what it needs."""
    cpu = history.capabilities[lease.device].numbers.get("cpu", 0.0)
    compute_s = history.jobs[lease.job].spec.workload.compute_s
    return compute_s / cpu if cpu > 0 and compute_s > 0 else None


def fleet_of(history: History, lease: LeaseHistory) -> str:
    """Empty: its device names none."""
    return next(iter(history.capabilities[lease.device].labels.get("fleet", ())), "")


def _means(history: History, fleet: str, job: str, leases: list[LeaseHistory]) -> TaskTimes:
    modelled = [each for each in (modelled_s(history, lease) for lease in leases) if each is not None]
    return TaskTimes(
        fleet=fleet,
        job=job,
        tasks=len(leases),
        measured_s=fmean(lease.compute_s or 0.0 for lease in leases),
        modelled_s=fmean(modelled) if modelled else None,
        compute_cpu_s=fmean(lease.compute_cpu_s for lease in leases),
        held_back=fmean(lease.held_back for lease in leases),
    )


def _task_s(history: History, lease: LeaseHistory, limited: Collection[str]) -> float:
    measured = fleet_of(history, lease) in limited
    return (lease.compute_s if measured else modelled_s(history, lease)) or 0.0
