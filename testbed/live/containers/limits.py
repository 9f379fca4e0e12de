"""What an engine can hold its containers to, and what it and the kernel say that they are held to."""

import json
from dataclasses import dataclass

from docker import DockerClient
from docker.models.containers import Container as Made

from testbed.live.containers.engine import obeyed
from testbed.shape import cgroup
from testbed.shape.entrypoint import CPUS, MEM_LIMIT
from testbed.shape.probe import NETEM, RELAY, Check, Machine


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


def rows_of(text: str) -> list[Row]:
    """As an entrypoint writes them. Raises ValueError, KeyError or TypeError."""
    return [Row(str(row["key"]), row["read_back"], str(row["means"])) for row in json.loads(text)["limits"]]
