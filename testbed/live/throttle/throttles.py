"""All that slows the devices of one run down, and the account of what was in force.

What was asked of the devices of a run, what was read back, and whether it held.

All that slows the devices of one run down: made, read back, and removed again.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from device_agent.throttle import Throttle, write_throttle
from testbed.live.prepare import DeviceHost
from testbed.live.throttle import cgroup, namespace
from testbed.live.throttle.namespace import RefusedError
from testbed.live.throttle.plan import FleetPlan, Plan
from testbed.live.throttle.probe import DUTY, RLIMIT, Machine
from testbed.live.throttle.relay import LinkSpec, write_specs
from testbed.report.host import EMULATION_FILE
from testbed.runfolder.paths import RunFolder
from testbed.world.limits import SAME, Limits, Relayed, changed, same
from testbed.world.timeline import LinkChange
from venn.wire.errors import CannotEnforceError
from venn.wire.files import read_json_lines, write_atomic
from venn.wire.process import PREFIX, own_mark

TOO_FAST = 0.15  # more of the processor than asked, on average over a fleet
LONG_TASK_S = 0.5  # of wall time: a shorter task may lie within a burst


@dataclass(slots=True)
class Account:
    plan: Plan
    fleet_of: Mapping[str, str]  # device -> its fleet, of those that are limited
    read_back: dict[tuple[str, str], float] = field(default_factory=dict)  # (fleet, key) -> the worst value

    def read(self, fleet: FleetPlan, key: str, asked: float | None, got: float | None) -> None:
        """What is in force for a device. Raises RefusedError: it is not what was asked."""
        if asked is None:
            return
        if not same(got, asked) or got is None:
            raise RefusedError(f"{fleet.fleet}: {key} {asked:g} was asked, and {got} is in force")
        before = self.read_back.get((fleet.fleet, key), asked)
        self.read_back[fleet.fleet, key] = got if abs(got - asked) >= abs(before - asked) else before

    def too_fast(self, used: Mapping[str, tuple[float, float]]) -> list[str]:
        """Fleets whose tasks got more of the processor than was asked for; notes what they got (read back where no
        kernel holds it). ``used`` is processor and wall time by device, in seconds.
        """
        fast = []
        for name, plan in self.plan.fleets.items():
            own = [used[device] for device, fleet in self.fleet_of.items() if fleet == name and device in used]
            wall = sum(each[1] for each in own)
            if plan.limits.cores is None or not plan.cpu or not wall:
                continue
            got = sum(each[0] for each in own) / wall
            self.read_back.setdefault((name, "cores"), got)
            if got > (1 + TOO_FAST) * plan.limits.cores:
                fast.append(f"fleets.{name}.cores: {plan.limits.cores:g} was asked, and tasks had {got:.3g}")
        return fast

    def write(self, root: Path, degraded: Sequence[str]) -> None:
        """Into a run folder: what was asked and what is in force."""
        rows = []
        for name, plan in self.plan.fleets.items():
            for key, value, means in plan.asked():
                got = self.read_back.get((name, key))
                rows.append({"fleet": name, "key": key, "asked": value, "read_back": got, "means": means})
        fleets = [{"fleet": each.fleet, "count": each.count} for each in self.plan.fleets.values()]
        told: dict[str, object] = {"fleets": fleets, "limits": rows, "degraded": list(degraded)}
        write_atomic(root / EMULATION_FILE, json.dumps(told, indent=2) + "\n")


def moved_by_device(root: Path) -> dict[str, tuple[int, int]]:
    """Bytes up and down by device, as the agents of a run have counted them."""
    moved: dict[str, tuple[int, int]] = {}
    for path in sorted((root / "devices").glob("*/receipts.jsonl")):
        for row in read_json_lines(path):
            up, down = moved.get(row["device"], (0, 0))
            moved[row["device"]] = (up + row["uploaded"], down + row["downloaded"])
    return moved


def used_by_device(root: Path) -> dict[str, tuple[float, float]]:
    """Processor and wall time of each device's longer tasks, in seconds."""
    used: dict[str, tuple[float, float]] = {}
    for path in sorted((root / "devices").glob("*/receipts.jsonl")):
        for row in read_json_lines(path):
            if row["compute_s"] >= LONG_TASK_S:
                cpu, wall = used.get(row["device"], (0.0, 0.0))
                used[row["device"]] = (cpu + row["compute_cpu_s"], wall + row["compute_s"])
    return used


@dataclass(slots=True)
class _Device:
    """What was made for one."""

    plan: FleetPlan
    group: cgroup.Group | None = None
    cable: namespace.Namespace | None = None


class Throttles:
    """``make``, then what the hosts are started with; ``remove`` always."""

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
        """What the relay is told; None: no link is limited."""
        return self._folder.root / "links.json" if self._plan.links else None

    @property
    def counts(self) -> Path:
        return self._folder.root / "links-counts.json"

    def make(self) -> None:
        """Groups, namespaces, and the relay's orders. Raises CannotEnforceError; nothing is left then."""
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
        except (OSError, ValueError, RefusedError) as error:
            self.remove()
            raise CannotEnforceError(
                "CANNOT_ENFORCE", f"a limit could not be set: {error}", fix="see `venn doctor`"
            ) from error
        except BaseException:
            self.remove()
            raise

    def write(self, proxies: Mapping[str, str]) -> None:
        """What the agents are told, with the addresses of the relay's links."""
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
        """The flags of its agent."""
        return ["--throttle", str(self._file(host))] if host in self._hosts else []

    def measured(self, host: DeviceHost) -> bool:
        """Whether its tasks' time is real."""
        made = self._devices.get(host.name)
        return host.single and made is not None and bool(made.plan.cpu)

    def within(self, host: DeviceHost) -> tuple[str, ...]:
        """What its program is started through."""
        made = self._devices.get(host.name)
        return made.cable.enter if host.single and made is not None and made.cable is not None else ()

    def linked(self, device: str) -> bool:
        """Whether it has a link in the relay."""
        return device in self._linked()

    def relink(self, device: str, change: LinkChange | None) -> Relayed:
        """A device's link from now on, as the timeline wants it; None: its own. What ``tc`` does of it is done then,
        and read back; what is left to the relay is returned. Raises CannotEnforceError.
        """
        made = self._devices[device]
        limits = made.plan.limits if change is None else changed(made.plan.limits, change)
        try:
            if made.cable is not None:
                namespace.shape(made.cable, limits, netem=made.plan.netem)
                in_force = made.plan.by_kernel(namespace.in_force(made.cable))
                for key, asked in made.plan.by_kernel(limits).items():
                    if not same(in_force[key], asked):
                        raise RefusedError(f"{key} {asked} was asked, and {in_force[key]} is in force")
        except (OSError, ValueError, RefusedError) as error:
            raise CannotEnforceError("NOT_IN_FORCE", f"its link was not changed: {error}", where=device) from error
        return made.plan.relayed(limits)

    def bypassed(self, moved: Mapping[str, tuple[int, int]]) -> list[str]:
        """Devices that moved more bytes (up, down) than their links saw: they went past them."""
        counts = self._counts()
        missing = []
        for device in self._linked():
            row = counts.get(device, {})
            seen = (row.get("up", 0), row.get("down", 0))
            if any(have < (1 - SAME) * said for have, said in zip(seen, moved.get(device, (0, 0)), strict=True)):
                missing.append(device)
        return missing

    def remove(self) -> None:
        """What was made and can be removed; `venn down` finds what cannot yet."""
        for made in reversed(self._devices.values()):  # the first has made what is around all of them
            if made.cable is not None:
                with suppress(RefusedError):
                    namespace.remove(made.cable.name)
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
            namespace.shape(made.cable, limits, netem=plan.netem)
            in_force = plan.by_kernel(namespace.in_force(made.cable))
            for key, asked in plan.by_kernel(limits).items():
                self.account.read(plan, key, asked, in_force[key])

    def _cable(self, number: int, offset: int) -> namespace.Namespace:
        taken = namespace.addresses_in_use()
        while namespace.cable(offset + number)[0] in taken:
            offset += len(self._devices) + 1
        name = f"{PREFIX}{own_mark()}-{number}"
        return namespace.create(name, f"vn{os.getpid()}x{number}", offset + number)

    def _linked(self) -> list[str]:
        return [name for name, made in self._devices.items() if made.plan.linked]

    def _link(self, name: str, limits: Limits) -> LinkSpec:
        """What is left to the relay: what ``tc`` does not do."""
        made = self._devices[name]
        return LinkSpec(
            **made.plan.relayed(limits),
            seed=f"{self._seed}/{name}/link",
            host=made.cable.address if made.cable else "127.0.0.1",
            interface=made.cable.interface if made.cable else "",
        )

    def _file(self, host: DeviceHost) -> Path:
        return self._folder.device_host(host.name) / "throttle.json"

    def _counts(self) -> dict[str, dict[str, int]]:
        try:
            return dict(json.loads(self.counts.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}
