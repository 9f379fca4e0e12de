"""Control groups for the worker of one device: version 2 where it has the controllers, else version 1.

A worker is born where its memory is limited, and enters a group whose processor time is limited when it is warm.
Version 1 has a tree for each. In version 2 both groups lie in one that limits the memory, since a group that has others
in it may have no processes.
"""

import errno
import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.world.limits import Limits

PERIOD_US = 50_000
EMPTY_WITHIN_S = 2.0
LEAST_QUOTA_US = 1_000  # that the kernel takes
MOUNTS, OWN = Path("/proc/self/mounts"), Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class Trees:
    """The places where groups may be made: an existing group for each controller. Version 2 has one for all."""

    version: int  # 1 or 2
    parents: Mapping[str, Path]  # of "cpu" and "memory", as far as they are there

    def has(self, controller: str) -> bool:
        return controller in self.parents


NONE = Trees(2, {})


@dataclass(frozen=True, slots=True)
class Group:
    """The groups that were made for one device, and which of them its worker enters when."""

    start_in: tuple[Path, ...]
    work_in: tuple[Path, ...]
    memory_of: tuple[Path, ...]  # whose memory is limited
    made: tuple[Path, ...]  # outermost first


def find_trees(mounts: Path = MOUNTS, own: Path = OWN) -> Trees:
    """Find version 2 if this process may make groups with both controllers, else version 1, else none."""
    mounted = [line.split() for line in _lines(mounts)]
    paths = dict(_own_path(line) for line in _lines(own) if line.count(":") >= 2)
    for _, place, kind, *_ in mounted:
        if kind == "cgroup2" and (parent := _delegated(Path(place), paths.get("", "/"))):
            return Trees(2, {"cpu": parent, "memory": parent})
    parents = {}
    for _, place, kind, options, *_ in mounted:
        for controller in {"cpu", "memory"} & set(options.split(",")) if kind == "cgroup" else ():
            path = _below(Path(place), paths.get(controller, "/"))
            if os.access(path, os.W_OK):
                parents[controller] = path
    return Trees(1, parents) if parents else NONE


def mounted(mounts: Path = MOUNTS) -> list[Path]:
    """The roots of all trees, of either version."""
    words = [line.split() for line in _lines(mounts)]
    return sorted({Path(place) for _, place, kind, *_ in words if kind in ("cgroup", "cgroup2")})


def make(trees: Trees, mark: str, name: str, limits: Limits) -> Group:
    """Make groups for one device, with those of its limits that they can hold. Raises OSError: nothing is left then."""
    made: list[Path] = []
    try:
        if trees.version == 2:
            return _make_v2(trees, mark, name, limits, made)
        return _make_v1(trees, mark, name, limits, made)
    except OSError:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir()
        raise


def remove(path: Path) -> None:
    """Remove a group and all below it; kill the processes in it. Raises OSError: it cannot be removed."""
    inner = sorted((each for each in path.rglob("*") if each.is_dir()), reverse=True)
    for each in (*inner, path):
        for pid in _words(each / "cgroup.procs"):
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _remove_when_empty(each)


def _remove_when_empty(path: Path) -> None:
    """Remove a group as soon as it is empty: a process that was killed stays for some milliseconds."""
    last = time.monotonic() + EMPTY_WITHIN_S
    while True:
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > last:
                raise
            time.sleep(0.01)
        else:
            return


def cores_in_force(groups: Iterable[Path]) -> float | None:
    """The quota in cores, as the kernel has it, of the first group with its file. Raises OSError or ValueError."""
    for path in groups:
        if (path / "cpu.max").exists():
            quota, period = (path / "cpu.max").read_text().split()
            return None if quota == "max" else int(quota) / int(period)
        if (path / "cpu.cfs_quota_us").exists():
            quota_us = int((path / "cpu.cfs_quota_us").read_text())
            return None if quota_us < 0 else quota_us / int((path / "cpu.cfs_period_us").read_text())
    return None


def memory_in_force(groups: Iterable[Path]) -> int | None:
    """The limit in bytes, as the kernel has it, of the first group with its file. Raises OSError or ValueError."""
    for path in groups:
        for file in ("memory.max", "memory.limit_in_bytes"):
            if (path / file).exists():
                text = (path / file).read_text().strip()
                return None if text == "max" else int(text)
    return None


def quota_us(cores: float) -> tuple[int, int]:
    """Quota and period in microseconds; the period is longer where the quota would be too small for the kernel."""
    period = PERIOD_US
    while cores * period < LEAST_QUOTA_US and period < 1_000_000:
        period = min(1_000_000, 2 * period)
    return max(LEAST_QUOTA_US, round(cores * period)), period


def _make_v2(trees: Trees, mark: str, name: str, limits: Limits, made: list[Path]) -> Group:
    outermost = trees.parents["cpu"] / f"venn-{mark}"
    device, warm, work = outermost / name, outermost / name / "warm", outermost / name / "work"
    for path in (outermost, device, warm, work):
        if not path.exists():
            path.mkdir()
            made.append(path)
        if path in (outermost, device):
            (path / "cgroup.subtree_control").write_text("+cpu +memory")
    if limits.memory_bytes is not None:
        (device / "memory.max").write_text(str(limits.memory_bytes))
        with suppress(OSError):  # there is none without swap
            (device / "memory.swap.max").write_text("0")
    if limits.cores is not None:
        (work / "cpu.max").write_text("{} {}".format(*quota_us(limits.cores)))
    return Group((warm,), (work,), (device,), tuple(made))


def _make_v1(trees: Trees, mark: str, name: str, limits: Limits, made: list[Path]) -> Group:
    start_in, work_in = [], []
    asked = {"cpu": limits.cores, "memory": limits.memory_bytes}
    for controller, limit in asked.items():
        if limit is None or not trees.has(controller):
            continue
        outermost = trees.parents[controller] / f"venn-{mark}"
        for path in (outermost, outermost / name):
            if not path.exists():
                path.mkdir()
                made.append(path)
        if controller == "cpu":
            quota, period = quota_us(float(limit))
            (outermost / name / "cpu.cfs_period_us").write_text(str(period))
            (outermost / name / "cpu.cfs_quota_us").write_text(str(quota))
            work_in.append(outermost / name)
        else:
            (outermost / name / "memory.limit_in_bytes").write_text(str(limit))
            with suppress(OSError):  # there is none without swap accounting
                (outermost / name / "memory.memsw.limit_in_bytes").write_text(str(limit))
            start_in.append(outermost / name)
    return Group(tuple(start_in), tuple(work_in), tuple(start_in), tuple(made))


def _delegated(root: Path, own: str) -> Path | None:
    """The nearest group, from our own upwards, below which groups with both controllers may be made: it is writable,
    hands both down or is empty of processes and so may begin to."""
    path = _below(root, own)
    while path == root or root in path.parents:
        handed = set(_words(path / "cgroup.subtree_control"))
        may_begin = {"cpu", "memory"} <= set(_words(path / "cgroup.controllers")) and not _words(path / "cgroup.procs")
        if os.access(path / "cgroup.procs", os.W_OK) and os.access(path, os.W_OK):
            if {"cpu", "memory"} <= handed:
                return path
            if may_begin and path != root:
                with suppress(OSError):
                    (path / "cgroup.subtree_control").write_text("+cpu +memory")
                    return path
        path = path.parent
    return None


def _below(root: Path, own: str) -> Path:
    """Our own group; the root, where it lies outside of what is mounted here."""
    path = root / own.lstrip("/")
    return path if path.is_dir() else root


def _own_path(line: str) -> tuple[str, str]:
    """The controller and path of a line like ``4:memory:/a/b``; of controllers that share a tree, the first."""
    _, controllers, path = line.split(":", 2)
    names = controllers.split(",")
    return next((name for name in names if name in ("cpu", "memory")), controllers), path


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EOPNOTSUPP):
            return []
        raise
