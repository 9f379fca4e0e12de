"""What an engine can hold its containers to, and what it and the kernel say that they are held to."""

import json

from docker import DockerClient
from docker.models.containers import Container as Made

from testbed.live.containers.engine import obeyed
from testbed.shape import cgroup
from testbed.shape.entrypoint import CPUS, MEM_LIMIT
from testbed.shape.probe import NETEM, RELAY, STALL, Check, Machine


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


def is_held(text: str) -> bool:
    """Whether an entrypoint says that all of a link is in force; a relay says so itself."""
    try:
        rows = json.loads(text)["limits"]
        return all(row["read_back"] is not None for row in rows if row["means"] in (RELAY, STALL))
    except (ValueError, KeyError, TypeError):
        return False
