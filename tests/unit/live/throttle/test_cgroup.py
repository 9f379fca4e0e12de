"""Which cgroups would be used, found in files that only look like the kernel's; and what is written into them."""

from pathlib import Path

import pytest

from testbed.live.throttle import cgroup
from testbed.live.throttle.cgroup import find_trees, quota_us
from testbed.world.limits import Limits


def files(root: Path, mounts: str, own: str) -> tuple[Path, Path]:
    (root / "mounts").write_text(mounts)
    (root / "own").write_text(own)
    return root / "mounts", root / "own"


def group(path: Path, *, controllers: str = "", handed: str = "", procs: str = "") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.controllers").write_text(controllers)
    (path / "cgroup.subtree_control").write_text(handed)
    (path / "cgroup.procs").write_text(procs)
    return path


def test_version_two_that_hands_both_controllers_down(tmp_path: Path) -> None:
    root = group(tmp_path / "cg", controllers="cpu memory io", handed="cpu memory")
    group(root / "a", controllers="cpu memory", procs="1\n")
    mounts, own = files(tmp_path, f"cgroup2 {root} cgroup2 rw 0 0\n", "0::/a\n")
    assert find_trees(mounts, own) == cgroup.Trees(2, {"cpu": root, "memory": root})


def test_a_delegated_group_without_processes_begins_to_hand_down(tmp_path: Path) -> None:
    root = group(tmp_path / "cg", controllers="cpu memory", procs="1\n")
    slice_ = group(root / "user", controllers="cpu memory")
    group(slice_ / "mine", controllers="cpu memory", procs="7\n")
    mounts, own = files(tmp_path, f"cgroup2 {root} cgroup2 rw 0 0\n", "0::/user/mine\n")
    assert find_trees(mounts, own).parents == {"cpu": slice_, "memory": slice_}
    assert (slice_ / "cgroup.subtree_control").read_text() == "+cpu +memory"


def test_a_hybrid_machine_has_version_one(tmp_path: Path) -> None:
    unified = group(tmp_path / "unified")
    cpu, memory = tmp_path / "cpu", tmp_path / "memory"
    cpu.mkdir()
    (memory / "box").mkdir(parents=True)
    mounts, own = files(
        tmp_path,
        f"cgroup {cpu} cgroup rw,cpu,cpuacct 0 0\ncgroup {memory} cgroup rw,memory 0 0\n"
        f"cgroup2 {unified} cgroup2 rw 0 0\n",
        "4:memory:/box\n3:cpu,cpuacct:/not/here\n0::/\n",
    )
    assert find_trees(mounts, own) == cgroup.Trees(1, {"cpu": cpu, "memory": memory / "box"})


def test_a_machine_without_any(tmp_path: Path) -> None:
    mounts, own = files(tmp_path, "tmpfs / tmpfs rw 0 0\n", "")
    assert find_trees(mounts, own) == cgroup.NONE


def test_what_is_written_in_version_two(tmp_path: Path) -> None:
    trees = cgroup.Trees(2, {"cpu": tmp_path, "memory": tmp_path})
    made = cgroup.make(trees, "p1-s2", "pi-01", Limits(cores=0.25, memory_bytes=10**8))
    device = tmp_path / "venn-p1-s2" / "pi-01"
    assert made.start_in == (device / "warm",)
    assert made.work_in == (device / "work",)
    assert (device / "memory.max").read_text() == str(10**8)
    assert cgroup.memory_in_force(made.memory_of) == 10**8
    assert cgroup.cores_in_force(made.work_in) == 0.25
    assert made.made[0] == tmp_path / "venn-p1-s2"


def test_what_is_written_in_version_one(tmp_path: Path) -> None:
    trees = cgroup.Trees(1, {"cpu": tmp_path / "cpu", "memory": tmp_path / "memory"})
    for parent in trees.parents.values():
        parent.mkdir()
    made = cgroup.make(trees, "p1-s2", "pi-01", Limits(cores=1.5, memory_bytes=10**8))
    assert cgroup.cores_in_force(made.work_in) == 1.5
    assert cgroup.memory_in_force(made.memory_of) == 10**8


@pytest.mark.parametrize("cores", [0.001, 0.01, 0.08, 0.25, 1.0, 3.5])
def test_a_quota_is_never_less_than_the_kernel_takes(cores: float) -> None:
    quota, period = quota_us(cores)
    assert quota >= 1000
    assert period <= 1_000_000
    assert quota / period == pytest.approx(cores, rel=0.05)
