"""What an engine can hold its containers to, and what it and the kernel say that they are held to."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from docker import DockerClient
from docker.models.containers import Container as Made

from testbed.live.containers.engine import obeyed
from testbed.report.emulation import OF_A_CONTAINER
from testbed.shape import cgroup
from testbed.shape.account import SAME, Account
from testbed.shape.commands import RefusedError
from testbed.shape.entrypoint import COUNTS, CPUS, MEM_LIMIT
from testbed.shape.plan import FleetPlan
from testbed.shape.probe import NETEM, RELAY, Check, Machine

SESSIONS = "sessions.jsonl"  # of an agent that had some


@dataclass(frozen=True, slots=True)
class Row:
    """One limit of one device."""

    key: str
    read_back: float | None  # base unit; None: no kernel holds it
    means: str  # empty: it is not in force


def machine_of(client: DockerClient) -> Machine:
    """The machine that the engine runs on. Raises CannotEnforceError: it does not answer."""
    with obeyed("it does not say what it can do"):
        info = client.info()
    checks = (
        Check("cpu", CPUS, bool(info.get("CpuCfsQuota")), "the kernel of the engine has no processor quota"),
        Check("memory", MEM_LIMIT, bool(info.get("MemoryLimit")), "the kernel of the engine limits no memory"),
        # By which means its link is shaped only a container can find out: its entrypoint says so.
        *(Check(field, means, True, "") for field, means in (("rate", RELAY), ("delay", NETEM), ("loss", NETEM))),
    )
    return Machine(int(info["NCPU"]), int(info["MemTotal"]), cgroup.NONE, checks)


def cores_of(made: Made) -> float | None:
    """As the engine has it."""
    nano = made.attrs["HostConfig"].get("NanoCpus") or 0
    return nano / 1e9 if nano else None


def memory_of(made: Made) -> int | None:
    return made.attrs["HostConfig"].get("Memory") or None


def take_account(account: Account, device: str, folder: Path) -> None:
    """Of what the entrypoint of a device has read back, as it was brought home to ``folder``. Raises RefusedError: a
    limit was not in force.
    """
    fleet = account.fleet_of[device]
    if (rows := _said(folder)) is None:
        if (folder / SESSIONS).exists():
            raise RefusedError(f"{device} does not say which limits were in force")
        return  # it never got so far
    plan = _as_held(account.plan.fleets[fleet], rows)
    account.plan = replace(account.plan, fleets={**account.plan.fleets, fleet: plan})
    limits = plan.limits
    asked = {"cores": limits.cores, "memory_limit": limits.memory_bytes, "up": limits.up_bits, "down": limits.down_bits}
    for row in rows:
        if row.read_back is not None:
            account.read(plan, row.key, asked.get(row.key), row.read_back)


def passed_by(folder: Path, moved: tuple[int, int]) -> bool:
    """Whether a device moved more bytes (up, down) than the relay of its container saw, if it has one."""
    try:
        counts = json.loads((folder / COUNTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    seen = [sum(row[way] for row in counts.values()) for way in ("up", "down")]
    return any(have < (1 - SAME) * said for have, said in zip(seen, moved, strict=True))


def rows_of(text: str) -> list[Row]:
    """As an entrypoint writes them. Raises ValueError, KeyError or TypeError."""
    return [Row(str(row["key"]), row["read_back"], str(row["means"])) for row in json.loads(text)["limits"]]


def _said(folder: Path) -> list[Row] | None:
    try:
        return rows_of((folder / OF_A_CONTAINER).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _as_held(plan: FleetPlan, rows: Iterable[Row]) -> FleetPlan:
    """With the means by which a container holds its limits."""
    means = {row.key: row.means for row in rows}
    return replace(
        plan,
        cpu=f"{means['cores']} (session included)" if means.get("cores") else "",
        memory=f"{means['memory_limit']} (session included)" if means.get("memory_limit") else "",
        rate=means.get("up") or means.get("down") or "",
        delay=means.get("delay") or means.get("jitter") or "",
        loss=means.get("loss", ""),
    )
