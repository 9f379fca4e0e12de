"""What an engine can hold its containers to, and what it and the kernel say that they are held to."""

from docker import DockerClient
from docker.models.containers import Container as Made

from testbed.live.containers.engine import obeyed
from testbed.shape import cgroup
from testbed.shape.probe import RELAY, Check, Machine

CONTAINER = "container"
_V1, _V2 = "/sys/fs/cgroup/cpu/cpu.cfs_{}_us", "/sys/fs/cgroup/{}"
_READ = (
    f"cat {_V2.format('cpu.max')} 2>/dev/null || echo $(cat {_V1.format('quota')}) $(cat {_V1.format('period')}); "
    f"cat {_V2.format('memory.max')} 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
)


def machine_of(client: DockerClient) -> Machine:
    """The machine that the engine runs on. Raises CannotEnforceError: it does not answer."""
    with obeyed("it does not say what it can do"):
        info = client.info()
    kernel = "in a container that may shape its own link"
    checks = (
        Check("cpu", CONTAINER, bool(info.get("CpuCfsQuota")), "the engine's kernel has no cpu quota"),
        Check("memory", CONTAINER, bool(info.get("MemoryLimit")), "the engine's kernel limits no memory"),
        Check("rate", RELAY, True, kernel),
        Check("delay", RELAY, True, kernel),
    )
    return Machine(int(info["NCPU"]), int(info["MemTotal"]), cgroup.NONE, checks)


def cores_of(made: Made) -> float | None:
    """As the engine has it."""
    nano = made.attrs["HostConfig"].get("NanoCpus") or 0
    return nano / 1e9 if nano else None


def memory_of(made: Made) -> int | None:
    return made.attrs["HostConfig"].get("Memory") or None


def in_kernel(made: Made) -> tuple[float | None, int | None]:
    """Cores and bytes, from the cgroup that a running container sees; None: it has no such limit."""
    output = made.exec_run(["/bin/sh", "-c", _READ]).output
    said = output.decode(errors="replace").split() if isinstance(output, bytes) else []
    quota, period, memory = (*said, "max", "max", "max")[:3]
    cores = float(quota) / float(period) if quota.isdecimal() and period.isdecimal() else None
    return cores, int(memory) if memory.isdecimal() else None
