"""What was asked of the devices of a run, what was read back, and whether it held."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.live.throttle.namespace import RefusedError
from testbed.live.throttle.plan import FleetPlan, Plan
from testbed.report.emulation import FILE as EMULATION
from testbed.world.limits import same
from venn.wire.files import read_json_lines, write_atomic

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
        write_atomic(root / EMULATION, json.dumps(told, indent=2) + "\n")


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
