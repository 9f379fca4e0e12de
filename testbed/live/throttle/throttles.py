"""All that slows the devices of one run down: planned from the scenario, made, read back, and removed again."""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from device_agent.throttle import Throttle, write_throttle
from testbed.live.backend.prepare import DeviceHost, changes_of
from testbed.live.throttle import cgroup, tc
from testbed.live.throttle.account import Account, bypassed, moved_by_device
from testbed.live.throttle.means import (
    CGROUP,
    DUTY,
    NETEM,
    RLIMIT,
    SPARE_CORES,
    TC,
    FleetPlan,
    Machine,
    Plan,
    link_means,
)
from testbed.live.throttle.relay import LinkSpec, write_specs
from testbed.live.throttle.tc import RefusedError
from testbed.runfolder.paths import RunFolder
from testbed.scenario.backends import OUTSIDE
from testbed.scenario.model import Scenario
from testbed.world.limits import Limits, Relayed, changed, same
from testbed.world.timeline import LinkChange, Verb
from venn.wire.errors import CannotEnforceError
from venn.wire.notation import format_bytes
from venn.wire.process import PREFIX, own_mark

NOT_IN_FORCE = "not in force"


def enforceable(plan: Plan, *, allow_degraded: bool, degraded: Callable[[str], None]) -> Plan:
    """Return ``plan``. Tell ``degraded`` each limit that cannot be enforced, or raise CannotEnforceError where that is
    not allowed."""
    for problem in plan.problems:
        if not allow_degraded:
            raise problem
        degraded(f"{problem.where}: {problem.message}")
    return plan


def make_plan(scenario: "Scenario", machine: Machine) -> Plan:
    """Plan the strongest means for each limit of each fleet."""
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


def outside_of(scenario: Scenario, fleet: str) -> frozenset[Verb]:
    """What is done to a fleet's devices from outside, with relays: only a link that is limited has one, to be cut."""
    linked = scenario.fleets[fleet].limits.link or changes_of(scenario, fleet)
    return OUTSIDE if linked else OUTSIDE - {Verb.DISCONNECT, Verb.PARTITION}


def _fleet(
    name: str, count: int, limits: Limits, changes: tuple[Limits, ...], machine: Machine, *, alone: bool
) -> FleetPlan:
    cpu, memory = machine.means("cpu") or "", machine.means("memory") or ""
    netem = alone and machine.can("delay", NETEM)
    return FleetPlan(
        fleet=name,
        count=count,
        limits=limits,
        changes=changes,
        cpu=_named(cpu, machine) if limits.cores is not None else "",
        memory=_named(memory, machine) if limits.memory_bytes is not None else "",
        **link_means((limits, *changes), tc=alone and machine.can("rate", TC), netem=netem),
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
    """Yield a problem if devices at work at once have too many cores: a quota that is never reached slows nothing."""
    at_once = sum(math.ceil(job.demand * (1 + job.over_commit)) for job in scenario.jobs.values())
    each = [plan.limits.cores for plan in fleets.values() for _ in range(plan.count) if plan.limits.cores]
    asked = sum(sorted(each, reverse=True)[:at_once])
    have = machine.cores - SPARE_CORES
    if asked > have:
        message = f"{min(at_once, len(each))} devices at work at once have {asked:.2f} cores, and this machine has "
        message += f"{have:g} for them, so that such limits are never reached"
        yield _problem("fleets", message, "have fewer devices with cores, lower cores, or ask for fewer at once")


def _too_much_memory(fleets: Mapping[str, FleetPlan], machine: Machine) -> Iterator[CannotEnforceError]:
    """Yield a problem if all devices together have too much memory: a device keeps what it has taken."""
    each = [plan.limits.memory_bytes for plan in fleets.values() for _ in range(plan.count) if plan.limits.memory_bytes]
    fit = sum(taken <= machine.memory_bytes for taken in accumulate(sorted(each)))
    if fit < len(each):
        message = f"{len(each)} devices may take {format_bytes(sum(each))} of memory, more than this machine has: "
        yield _problem("fleets", f"{message}{fit} fit", f"have at most {fit} devices, or lower memory_limit")


def _problem(where: str, message: str, fix: str) -> CannotEnforceError:
    return CannotEnforceError("CANNOT_ENFORCE", message, where=where, fix=f"{fix}; or run with --allow-degraded")


@dataclass(slots=True)
class _Device:
    """What was made for one device."""

    plan: FleetPlan
    group: cgroup.Group | None = None
    cable: tc.Namespace | None = None


class Throttles:
    """The limits of the devices of one run: ``make``, then ask what hosts are started with; ``remove`` always."""

    def __init__(self, plan: Plan, machine: Machine, folder: RunFolder, hosts: Sequence[DeviceHost], seed: int) -> None:
        self._plan, self._machine, self._folder, self._seed = plan, machine, folder, seed
        self._hosts = [host for host in hosts if any(device.fleet in plan.fleets for device in host.devices)]
        self._devices: dict[str, _Device] = {}
        limited = (device for host in hosts for device in host.devices if device.fleet in plan.fleets)
        self.account = Account(plan, {device.device: device.fleet for device in limited})

    @property
    def any(self) -> bool:
        return bool(self._hosts)

    @property
    def links(self) -> Path | None:
        """The file that the relay reads; None: no link is limited."""
        return self._folder.root / "links.json" if self._plan.links else None

    @property
    def counts(self) -> Path:
        return self._folder.root / "links-counts.json"

    def make(self) -> None:
        """Make groups and namespaces, and write the relay's file. Raises CannotEnforceError; nothing is left then."""
        try:
            for host in self._hosts:
                for device in host.devices:
                    if plan := self._plan.fleets.get(device.fleet):
                        self._devices[device.device] = _Device(plan)
                        self._make(device.device, len(self._devices))
            if self.links is not None:
                write_specs(
                    self.links, {name: self._link(name, self._devices[name].plan.limits) for name in self._linked()}
                )
        except (OSError, ValueError) as error:
            self.remove()
            raise CannotEnforceError(
                "CANNOT_ENFORCE", f"a limit could not be set: {error}", fix="see `venn doctor`"
            ) from error
        except BaseException:
            self.remove()
            raise

    def write(self, proxies: Mapping[str, str]) -> None:
        """Write the file of each agent, with the addresses of the relay's links."""
        for host in self._hosts:
            own = [device.device for device in host.devices if device.device in self._devices]
            through = {name: proxies[name] for name in own if name in proxies}
            made = self._devices[own[0]] if host.single else _Device(FleetPlan("", 0, Limits()))
            plan, group = made.plan, made.group
            throttle = Throttle(
                start_in=group.start_in if group else (),
                work_in=group.work_in if group else (),
                duty_cores=plan.limits.cores if plan.cpu == DUTY else None,
                memory_bytes=plan.limits.memory_bytes if plan.memory == RLIMIT else None,
                proxies=through,
            )
            write_throttle(self._file(host), throttle)

    def flags(self, host: DeviceHost) -> list[str]:
        """The flags of a host's program."""
        return ["--throttle", str(self._file(host))] if host in self._hosts else []

    def measured(self, host: DeviceHost) -> bool:
        """Whether the tasks of a host take real time."""
        made = self._devices.get(host.name)
        return host.single and made is not None and bool(made.plan.cpu)

    def within(self, host: DeviceHost) -> tuple[str, ...]:
        """The command that a host's program is started through."""
        made = self._devices.get(host.name)
        return made.cable.enter if host.single and made is not None and made.cable is not None else ()

    def relink(self, device: str, change: LinkChange | None) -> Relayed:
        """Change a device's link as the timeline wants it; None: its own again. Do and read back what ``tc`` can do,
        and return what is left to the relay. Raises CannotEnforceError.
        """
        made = self._devices[device]
        limits = made.plan.limits if change is None else changed(made.plan.limits, change)
        try:
            if made.cable is not None:
                tc.shape(made.cable, limits, netem=made.plan.netem)
                in_force = made.plan.by_kernel(tc.in_force(made.cable))
                for key, asked in made.plan.by_kernel(limits).items():
                    if not same(in_force[key], asked):
                        raise RefusedError(f"{key} {asked} was asked, and {in_force[key]} is in force")
        except (OSError, ValueError) as error:
            raise CannotEnforceError("NOT_IN_FORCE", f"its link was not changed: {error}", where=device) from error
        return made.plan.relayed(limits)

    def bypassed(self) -> list[str]:
        """The devices that moved more bytes than their links passed."""
        try:
            counts = dict(json.loads(self.counts.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            counts = {}
        passed = {device: counts.get(device, {}) for device in self._linked()}
        return bypassed(passed, moved_by_device(self._folder.root))

    def remove(self) -> None:
        """Remove what was made; `venn down` finds what cannot be removed yet."""
        for made in reversed(self._devices.values()):  # the first has made what is around all of them
            if made.cable is not None:
                with suppress(RefusedError):
                    tc.remove_namespace(made.cable.name)
            for path in reversed(made.group.made if made.group else ()):
                with suppress(OSError):
                    cgroup.remove(path)
            made.cable = made.group = None

    # -- one device

    def _make(self, name: str, number: int) -> None:
        made = self._devices[name]
        plan, limits = made.plan, made.plan.limits
        if (plan.cpu, plan.memory) != ("", "") and {plan.cpu, plan.memory} & {self._machine.group_name}:
            made.group = cgroup.make(self._machine.trees, own_mark(), name, limits)
            if plan.cpu == self._machine.group_name:
                self.account.read(plan, "cores", limits.cores, cgroup.cores_in_force(made.group.work_in))
            if plan.memory == self._machine.group_name:
                memory = cgroup.memory_in_force(made.group.memory_of)
                self.account.read(plan, "memory_limit", limits.memory_bytes, memory)
        if plan.namespace:
            offset = os.getpid() * 61  # so that runs side by side have cables of their own
            made.cable = self._cable(number, offset)
            tc.shape(made.cable, limits, netem=plan.netem)
            in_force = plan.by_kernel(tc.in_force(made.cable))
            for key, asked in plan.by_kernel(limits).items():
                self.account.read(plan, key, asked, in_force[key])

    def _cable(self, number: int, offset: int) -> tc.Namespace:
        taken = tc.addresses_in_use()
        while tc.cable(offset + number)[0] in taken:
            offset += len(self._devices) + 1
        name = f"{PREFIX}{own_mark()}-{number}"
        return tc.create_namespace(name, f"vn{os.getpid()}x{number}", offset + number)

    def _linked(self) -> list[str]:
        return [name for name, made in self._devices.items() if made.plan.linked]

    def _link(self, name: str, limits: Limits) -> LinkSpec:
        """The part of a device's link that is left to the relay."""
        made = self._devices[name]
        return LinkSpec(
            **made.plan.relayed(limits),
            seed=f"{self._seed}/{name}/link",
            host=made.cable.address if made.cable else "127.0.0.1",
            interface=made.cable.interface if made.cable else "",
        )

    def _file(self, host: DeviceHost) -> Path:
        return self._folder.device_host(host.name) / "throttle.json"
