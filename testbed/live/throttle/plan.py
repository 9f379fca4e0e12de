"""Which means holds which limit.

Which means holds which limit of which fleet; and what this machine cannot do of it.

What a timeline changes of the limits of fleets, and whose links it can cut.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from testbed.live.throttle.probe import CGROUP, NETEM, RELAY, STALL, TC, Machine
from testbed.scenario.model import Scenario
from testbed.scenario.requirements import meant_fleets
from testbed.world.limits import LINK, Limits, Relayed, changed
from testbed.world.links import STALL_S
from venn.wire.errors import CannotEnforceError
from venn.wire.notation import format_bytes, format_duration, format_fraction, format_number, format_rate
from venn.wire.requirements import Selector

SPARE_CORES = 0.5  # for the coordinator, the drivers and the sessions
NOT_IN_FORCE = "not in force"


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """How the devices of one fleet are limited. A means is empty where nothing is asked, or nothing can be done."""

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
        """What a relay does in place of the losses that were asked for, as people are told; "" if it does nothing."""
        if self.loss != STALL:
            return ""
        most = max(limits.loss for limits in (self.limits, *self.changes))
        return f"{format_fraction(most)} cannot be enforced; in place of each loss a relay can stall for {STALL_S:g} s"

    def relayed(self, limits: Limits) -> Relayed:
        """What of such limits ``tc`` leaves to the relay."""
        delayed = self.delay == RELAY
        return Relayed(
            up_bits=None if self.rate == TC else limits.up_bits,
            down_bits=None if self.rate == TC else limits.down_bits,
            delay_s=limits.delay_s if delayed else 0.0,
            jitter_s=limits.jitter_s if delayed else 0.0,
            stall=limits.loss if self.loss == STALL else 0.0,
        )

    def by_kernel(self, limits: Limits) -> dict[str, float | None]:
        """What of such limits of a link the kernel holds, by key."""
        means = dict(zip(LINK, (self.rate, self.rate, self.delay, self.delay, self.loss), strict=True))
        return {key: value for key, value in limits.of_link.items() if means[key] in (TC, NETEM)}

    def asked(self) -> Iterator[tuple[str, str, str]]:
        """Each limit: its key, its value in the notation, its means."""
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
    fleets: Mapping[str, FleetPlan]  # those that are limited in any way
    problems: tuple[CannotEnforceError, ...]  # a run has none, or --allow-degraded

    @property
    def links(self) -> bool:
        return any(each.linked for each in self.fleets.values())


def enforceable(plan: Plan, *, allow_degraded: bool, degraded: Callable[[str], None]) -> Plan:
    """``plan``, if all of it can be enforced; else ``degraded`` is told of each limit that cannot, where that is
    allowed. Raises CannotEnforceError."""
    for problem in plan.problems:
        if not allow_degraded:
            raise problem
        degraded(f"{problem.where}: {problem.message}")
    return plan


def make_plan(scenario: "Scenario", machine: Machine) -> Plan:
    """The strongest means for each limit of each fleet."""
    # a container that is started has no need of it

    fleets: dict[str, FleetPlan] = {}
    problems: list[CannotEnforceError] = []
    for name, fleet in scenario.fleets.items():
        limits, changes = fleet.limits, changes_of(scenario, name)
        if limits == Limits() and not changes:
            continue
        plan = _fleet(name, fleet.count, limits, changes, machine, alone=fleet.processes == fleet.count)
        fleets[name] = plan
        problems += _beyond(plan, machine)
        for key, value, means in plan.asked():
            if not means:
                field = {"cores": "cpu", "memory_limit": "memory", "loss": "loss"}.get(key, "rate")
                problems.append(_problem(f"fleets.{name}.{key}", f"{value} cannot be enforced", machine.why_not(field)))
        if plan.stalls:  # not the same as a loss, and called by its own name
            problems.append(_problem(f"fleets.{name}.loss", plan.stalls, machine.why_not("loss")))
    problems += _too_many_cores(scenario, fleets, machine)
    problems += _too_much_memory(fleets, machine)
    return Plan(fleets, tuple(problems))


def _fleet(
    name: str, count: int, limits: Limits, changes: tuple[Limits, ...], machine: Machine, *, alone: bool
) -> FleetPlan:
    cpu, memory = machine.means("cpu") or "", machine.means("memory") or ""
    netem = alone and machine.can("delay", NETEM)
    every = (limits, *changes)
    rated = any(each.up_bits is not None or each.down_bits is not None for each in every)
    return FleetPlan(
        fleet=name,
        count=count,
        limits=limits,
        changes=changes,
        cpu=_named(cpu, machine) if limits.cores is not None else "",
        memory=_named(memory, machine) if limits.memory_bytes is not None else "",
        rate="" if not rated else TC if alone and machine.can("rate", TC) else RELAY,
        delay="" if not any(each.delay_s or each.jitter_s for each in every) else NETEM if netem else RELAY,
        loss="" if not any(each.loss for each in every) else NETEM if netem else STALL,
    )


def _named(means: str, machine: Machine) -> str:
    return machine.group_name if means == CGROUP else means


def _beyond(plan: FleetPlan, machine: Machine) -> Iterator[CannotEnforceError]:
    limits = plan.limits
    if limits.cores is not None and limits.cores > machine.cores:
        message = f"{limits.cores:g} cores are more than the {machine.cores} of this machine"
        yield _problem(f"fleets.{plan.fleet}.cores", message, f"have at most {machine.cores}")
    if limits.memory_bytes is not None and limits.memory_bytes > machine.memory_bytes:
        message = f"{format_bytes(limits.memory_bytes)} are more than this machine has"
        yield _problem(f"fleets.{plan.fleet}.memory_limit", message, "write less")


def _too_many_cores(
    scenario: "Scenario", fleets: Mapping[str, FleetPlan], machine: Machine
) -> Iterator[CannotEnforceError]:
    """Problems with the cores of the devices that may work at once; a quota that is never reached slows nothing."""
    at_once = sum(math.ceil(job.demand * (1 + job.over_commit)) for job in scenario.jobs.values())
    each = [plan.limits.cores for plan in fleets.values() for _ in range(plan.count) if plan.limits.cores]
    asked = sum(sorted(each, reverse=True)[:at_once])
    have = machine.cores - SPARE_CORES
    if asked > have:
        message = f"{min(at_once, len(each))} devices at work at once have {asked:.2f} cores, and this machine has "
        message += f"{have:g} for them, so that such limits are never reached"
        yield _problem("fleets", message, "have fewer devices with cores, lower cores, or ask for fewer at once")


def _too_much_memory(fleets: Mapping[str, FleetPlan], machine: Machine) -> Iterator[CannotEnforceError]:
    """Problems with the memory of all devices: a device keeps what it has taken."""
    each = [plan.limits.memory_bytes for plan in fleets.values() for _ in range(plan.count) if plan.limits.memory_bytes]
    fit = sum(taken <= machine.memory_bytes for taken in accumulate(sorted(each)))
    if fit < len(each):
        message = f"{len(each)} devices may take {format_bytes(sum(each))} of memory, more than this machine has: "
        yield _problem("fleets", f"{message}{fit} fit", f"have at most {fit} devices, or lower memory_limit")


def _problem(where: str, message: str, fix: str) -> CannotEnforceError:
    return CannotEnforceError("CANNOT_ENFORCE", message, where=where, fix=f"{fix}; or run with --allow-degraded")


def changes_of(scenario: Scenario, fleet: str) -> tuple[Limits, ...]:
    """What the timeline may hold the devices of a fleet to."""
    limits = scenario.fleets[fleet].limits
    return tuple(
        changed(limits, entry.change)
        for entry in scenario.churn
        if entry.change and isinstance(entry.of, Selector) and fleet in meant_fleets(scenario, entry.of)
    )


def relayed(scenario: Scenario) -> frozenset[str]:
    """The fleets whose devices have a relay each, where links are limited by relays."""
    fleets = scenario.fleets.items()
    return frozenset(name for name, each in fleets if each.limits.link or changes_of(scenario, name))
