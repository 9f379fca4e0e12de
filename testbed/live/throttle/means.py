"""The means by which this machine can enforce limits, each tried, and which means holds which limit of a fleet."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import psutil

from testbed.live.throttle import cgroup, tc
from testbed.live.throttle.tc import RefusedError
from testbed.world.limits import LINK, Limits, Relayed, alike
from testbed.world.links import STALL_S
from venn.wire.errors import CannotEnforceError
from venn.wire.notation import format_bytes, format_duration, format_fraction, format_number, format_rate
from venn.wire.process import own_mark

CGROUP, DUTY, RLIMIT, TC, NETEM, RELAY = "cgroup", "duty cycle", "rlimit", "tc", "netem", "relay"
STALL = "stall in the relay"  # in place of a loss
TRIAL = Limits(cores=0.5, memory_bytes=64 * 2**20, up_bits=1e6, down_bits=1e6, delay_s=0.01, jitter_s=0.002, loss=0.01)
SPARE_CORES = 0.5  # for the coordinator, the drivers and the sessions
FIELDS = ("cpu", "memory", "rate", "delay", "loss", "faults")


@dataclass(frozen=True, slots=True)
class Check:
    """A means for a field, and whether it works here. The means of a field come strongest first."""

    field: str
    means: str
    passed: bool
    says: str  # what it is; else what is wrong, and how to fix it


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine has, and what it can enforce."""

    cores: int
    memory_bytes: int
    trees: cgroup.Trees
    checks: tuple[Check, ...]

    def can(self, field: str, means: str) -> bool:
        return any(each.passed for each in self.checks if (each.field, each.means) == (field, means))

    def means(self, field: str) -> str | None:
        """The strongest means for a field; None: there is none."""
        return next((each.means for each in self.checks if each.field == field and each.passed), None)

    def why_not(self, field: str) -> str:
        """Why the strongest means that failed did so, and the fix."""
        return next((each.says for each in self.checks if each.field == field and not each.passed), "")

    @property
    def group_name(self) -> str:
        return f"cgroup v{self.trees.version}"


NOTHING = Machine(1, 0, cgroup.NONE, ())  # where nothing is asked, nothing is tried


@cache
def probe() -> Machine:
    """Try each means on this machine, and remove what was made for that. Takes a tenth of a second."""
    trees = cgroup.find_trees()
    groups = {name: _tried(_try_group(trees, name)) for name in ("cpu", "memory")}
    cable = _tried(_try_cable(netem=False))
    netem = cable or _tried(_try_cable(netem=True))
    return Machine(
        os.cpu_count() or 1, psutil.virtual_memory().total, trees, tuple(checks_of(trees.version, groups, cable, netem))
    )


def checks_of(version: int, groups: dict[str, str], cable: str, netem: str) -> Iterable[Check]:
    """The checks that follow from what refused each trial, "" if nothing did."""
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
    """What refused a trial; "" if it succeeded."""
    try:
        trial()
    except (OSError, ValueError) as error:
        return why_refused(error)
    return ""


def why_refused(error: Exception) -> str:
    """Why a trial was refused, in words for users."""
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
        made = tc.create_namespace(name, f"vn{os.getpid()}p", os.getpid())
        try:
            wanted = TRIAL if netem else Limits(up_bits=TRIAL.up_bits, down_bits=TRIAL.down_bits)
            tc.shape(made, wanted, netem=netem)
            if not alike(tc.in_force(made), wanted):
                raise RefusedError("the kernel does not hold the link to what it is told")
            if subprocess.run([*made.enter, "true"], capture_output=True, check=False).returncode != 0:
                raise RefusedError("no process can enter a namespace: nsenter is missing or refused")
        except FileNotFoundError as error:
            raise RefusedError(f"there is no {error.filename}") from None
        finally:
            tc.remove_namespace(name)

    return trial


def is_rated(every: Iterable[Limits]) -> bool:
    """Whether any of these limits has a rate."""
    return any(each.up_bits is not None or each.down_bits is not None for each in every)


def is_delayed(every: Iterable[Limits]) -> bool:
    """Whether any of these limits has a delay or a jitter."""
    return any(each.delay_s or each.jitter_s for each in every)


def link_means(every: Sequence[Limits], *, tc: bool, netem: bool) -> dict[str, str]:
    """The means for rate, delay and loss of a link that these limits hold in turn; ``tc`` and ``netem`` can be had."""
    return {
        "rate": "" if not is_rated(every) else TC if tc else RELAY,
        "delay": "" if not is_delayed(every) else NETEM if netem else RELAY,
        "loss": "" if not any(each.loss for each in every) else NETEM if netem else STALL,
    }


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The means that limit the devices of one fleet; empty where nothing is asked, or nothing can be done."""

    fleet: str
    count: int
    limits: Limits
    changes: tuple[Limits, ...] = ()  # that the timeline may hold its devices to for a while
    cpu: str = ""
    memory: str = ""
    rate: str = ""
    delay: str = ""  # and jitter
    loss: str = ""

    @property
    def linked(self) -> bool:
        """Whether its devices have a relay each."""
        return any(limits.link for limits in (self.limits, *self.changes))

    @property
    def namespace(self) -> bool:
        """Whether its devices have a network namespace each."""
        return self.rate == TC or self.netem

    @property
    def netem(self) -> bool:
        """Whether packets are delayed or lost in the kernel."""
        return NETEM in (self.delay, self.loss)

    @property
    def stalls(self) -> str:
        """What a relay does in place of the losses that were asked for, in words for users; "" if nothing."""
        if self.loss != STALL:
            return ""
        most = max(limits.loss for limits in (self.limits, *self.changes))
        return f"{format_fraction(most)} cannot be enforced; in place of each loss a relay can stall for {STALL_S:g} s"

    def relayed(self, limits: Limits) -> Relayed:
        """The part of such limits that ``tc`` leaves to the relay."""
        delayed = self.delay == RELAY
        return Relayed(
            up_bits=None if self.rate == TC else limits.up_bits,
            down_bits=None if self.rate == TC else limits.down_bits,
            delay_s=limits.delay_s if delayed else 0.0,
            jitter_s=limits.jitter_s if delayed else 0.0,
            stall=limits.loss if self.loss == STALL else 0.0,
        )

    def by_kernel(self, limits: Limits) -> dict[str, float | None]:
        """The limits of a link that the kernel holds, by key."""
        means = dict(zip(LINK, (self.rate, self.rate, self.delay, self.delay, self.loss), strict=True))
        return {key: value for key, value in limits.of_link.items() if means[key] in (TC, NETEM)}

    def asked(self) -> Iterator[tuple[str, str, str]]:
        """Yield each limit: its key, its value in the notation, its means."""
        limits = self.limits
        if limits.cores is not None:
            yield "cores", format_number(limits.cores), self.cpu
        if limits.memory_bytes is not None:
            yield "memory_limit", format_bytes(limits.memory_bytes), self.memory
        for key, rate in (("up", limits.up_bits), ("down", limits.down_bits)):
            if rate is not None:
                yield key, format_rate(rate), self.rate
        for key, seconds in (("delay", limits.delay_s), ("jitter", limits.jitter_s)):
            if seconds:
                yield key, format_duration(seconds), self.delay
        if limits.loss:
            yield "loss", format_fraction(limits.loss), self.loss


@dataclass(frozen=True, slots=True)
class Plan:
    """The means for all fleets of a run, and what cannot be enforced."""

    fleets: Mapping[str, FleetPlan]  # those that are limited in any way
    problems: tuple[CannotEnforceError, ...]  # a run has none, or --allow-degraded

    @property
    def links(self) -> bool:
        return any(each.linked for each in self.fleets.values())
