"""What this machine can enforce, and how: each means is tried, not looked up, and what was made for that is removed."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import psutil

from testbed.live.throttle import cgroup, namespace
from testbed.live.throttle.namespace import RefusedError
from testbed.world.limits import Limits, alike
from venn.wire.process import own_mark

CGROUP, DUTY, RLIMIT, TC, NETEM, RELAY = "cgroup", "duty cycle", "rlimit", "tc", "netem", "relay"
STALL = "stall in the relay"  # in place of a loss
TRIAL = Limits(cores=0.5, memory_bytes=64 * 2**20, up_bits=1e6, down_bits=1e6, delay_s=0.01, jitter_s=0.002, loss=0.01)
FIELDS = ("cpu", "memory", "rate", "delay", "loss", "faults")


@dataclass(frozen=True, slots=True)
class Check:
    """One means for one field. The means of a field come strongest first."""

    field: str
    means: str
    passed: bool
    says: str  # what it is; else what is wrong, and how to fix it


@dataclass(frozen=True, slots=True)
class Machine:
    cores: int
    memory_bytes: int
    trees: cgroup.Trees
    checks: tuple[Check, ...]

    def can(self, field: str, means: str) -> bool:
        return any(each.passed for each in self.checks if (each.field, each.means) == (field, means))

    def means(self, field: str) -> str | None:
        """The strongest; None: this machine cannot."""
        return next((each.means for each in self.checks if each.field == field and each.passed), None)

    def why_not(self, field: str) -> str:
        """Why the strongest means that failed did so, with the fix."""
        return next((each.says for each in self.checks if each.field == field and not each.passed), "")

    @property
    def group_name(self) -> str:
        return f"cgroup v{self.trees.version}"


NOTHING = Machine(1, 0, cgroup.NONE, ())  # where nothing is asked, nothing is tried


@cache
def probe() -> Machine:
    """Takes a tenth of a second."""
    trees = cgroup.find_trees()
    groups = {name: _tried(_try_group(trees, name)) for name in ("cpu", "memory")}
    cable = _tried(_try_cable(netem=False))
    netem = cable or _tried(_try_cable(netem=True))
    return Machine(
        os.cpu_count() or 1, psutil.virtual_memory().total, trees, tuple(checks_of(trees.version, groups, cable, netem))
    )


def checks_of(version: int, groups: dict[str, str], cable: str, netem: str) -> Iterable[Check]:
    """From what refused each trial, "" if nothing did."""
    root = "run as root, or by: systemd-run --user --scope -p Delegate=yes venn ..."
    yield _check("cpu", CGROUP, groups["cpu"], f"cgroup v{version}: a quota, kept by the kernel", root)
    signals = "" if hasattr(os, "kill") and sys.platform == "linux" else "it needs Linux"
    yield _check("cpu", DUTY, signals, "stops and continues the task, 20 ms a period", "run on Linux")
    yield _check("memory", CGROUP, groups["memory"], f"cgroup v{version}: beyond it the task is killed", root)
    limit = "" if hasattr(resource, "prlimit") else "it needs Linux"
    yield _check("memory", RLIMIT, limit, "RLIMIT_DATA: beyond it allocations fail", "run on Linux")
    needs = "run as root, with ip, tc and nsenter (Debian: iproute2, util-linux)"
    yield _check("rate", TC, cable, "tbf on a cable into a network namespace, each way apart", needs)
    yield _check("rate", RELAY, "", "an HTTP CONNECT proxy for each device")
    module = "load it (modprobe sch_netem; Debian: linux-image, Fedora: kernel-modules-extra)" if not cable else needs
    yield _check("delay", NETEM, netem, "netem on the cable: delay and jitter", module)
    yield _check("delay", RELAY, "", "delay and jitter in the relay, in the order of sending")
    yield _check("loss", NETEM, netem, "netem on the cable: packets are lost", module)
    yield _check("faults", RELAY, "", "resets and black holes, in the relay")


def _check(field: str, means: str, refused: str, says: str, fix: str = "") -> Check:
    return Check(field, means, not refused, f"{refused}; {fix}" if refused else says)


def _tried(trial: Callable[[], None]) -> str:
    """What refused it; "" if it went."""
    try:
        trial()
    except (OSError, ValueError, RefusedError) as error:
        return why_refused(error)
    return ""


def why_refused(error: Exception) -> str:
    """As people are told."""
    return "this kernel has no netem" if "qdisc kind is unknown" in str(error) else str(error)


def _try_group(trees: cgroup.Trees, controller: str) -> Callable[[], None]:
    def trial() -> None:
        if not trees.has(controller):
            raise RefusedError(f"no cgroup for {controller} that this user may write to")
        wanted = Limits(cores=TRIAL.cores) if controller == "cpu" else Limits(memory_bytes=TRIAL.memory_bytes)
        group = cgroup.make(trees, own_mark(), f"probe-{controller}", wanted)
        try:
            if controller == "cpu" and cgroup.cores_in_force(group.work_in) != TRIAL.cores:
                raise RefusedError("the kernel takes no quota")
            if controller == "memory" and cgroup.memory_in_force(group.memory_of) != TRIAL.memory_bytes:
                raise RefusedError("the kernel takes no limit")
            for path in (*group.start_in, *group.work_in):
                enter = ["/bin/sh", "-c", 'echo $$ > "$0"/cgroup.procs', str(path)]
                if subprocess.run(enter, capture_output=True, check=False).returncode != 0:
                    raise RefusedError("a process cannot enter a group")
        finally:
            for path in reversed(group.made):
                with suppress(OSError):
                    path.rmdir()

    return trial


def _try_cable(*, netem: bool) -> Callable[[], None]:
    def trial() -> None:
        name = f"venn-{own_mark()}-probe"
        made = namespace.create(name, f"vn{os.getpid()}p", os.getpid())
        try:
            wanted = TRIAL if netem else Limits(up_bits=TRIAL.up_bits, down_bits=TRIAL.down_bits)
            namespace.shape(made, wanted, netem=netem)
            if not alike(namespace.in_force(made), wanted):
                raise RefusedError("the kernel does not hold the link to what it is told")
            if subprocess.run([*made.enter, "true"], capture_output=True, check=False).returncode != 0:
                raise RefusedError("no process can enter a namespace: nsenter is missing or refused")
        except FileNotFoundError as error:
            raise RefusedError(f"there is no {error.filename}") from None
        finally:
            namespace.remove(name)

    return trial
