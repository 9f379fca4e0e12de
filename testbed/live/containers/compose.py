"""The Compose file of a run: what a person reads to know its containers, and what starts them.

It holds to what docker-compose 1.29 and Compose v2 both take: no top-level name, limits by ``cpus`` and ``mem_limit``.
How many containers a service has stands on the command line (``scale``).
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from testbed.live.throttle.entrypoint import variable
from testbed.live.throttle.plan import FleetPlan
from testbed.world.limits import LINK, Limits
from venn.wire.process import LABEL

INSIDE = "/venn"  # where a container has its part of the run folder
PORT = 9700  # of the coordinator
DRIVER_PORT = 9701  # of every driver
COORDINATOR = "coordinator"
STOP_GRACE = "10s"
HEAD = """\
# The containers of one run, as `venn run` made them; what of them is left goes with `venn down`.
# {command}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Containers of one kind."""

    command: Sequence[str]
    count: int = 1
    cores: float | None = None
    memory_bytes: int | None = None
    port: int | None = None  # of this machine, on its loopback, that leads to PORT
    link: bool = False  # its entrypoint shapes its link
    environment: Mapping[str, str] = field(default_factory=dict)  # by which the entrypoint is told the limits

    def to_yaml(self, image: str, mark: str) -> dict[str, object]:
        limits: dict[str, object] = {}
        if self.cores is not None:
            limits["cpus"] = self.cores
        if self.memory_bytes is not None:
            limits |= {"mem_limit": self.memory_bytes, "memswap_limit": self.memory_bytes}
        rights = {"user": "root", "cap_add": ["NET_ADMIN"]} if self.link else {"cap_drop": ["ALL"]}
        environment = {"environment": dict(self.environment)} if self.environment else {}
        ports = {"ports": [f"127.0.0.1:{self.port}:{PORT}"]} if self.port is not None else {}
        return {
            "image": image,
            "command": shlex.join(self.command).replace("$", "$$"),  # compose would fill in its own variables
            "working_dir": INSIDE,
            "init": True,
            "stop_grace_period": STOP_GRACE,
            **limits,
            **rights,
            "security_opt": ["no-new-privileges:true"],
            **environment,
            **ports,
            "labels": {LABEL: mark},
        }


def driver_service(job: str) -> str:
    return f"job-{job}"


def fleet_service(fleet: str) -> str:
    return f"fleet-{fleet}"


def told(limits: Limits) -> dict[str, str]:
    """The environment by which a device's entrypoint knows its limits; see ``testbed.live.throttle.entrypoint``."""
    return {variable(key): text for key, text, _ in FleetPlan("", 1, limits).asked()}


def told_again(limits: Limits) -> dict[str, str]:
    """The same for a link that is changed: what is not limited any more is said too."""
    return {variable(key): "" for key in LINK} | told(limits)


def scale_flags(services: Mapping[str, Service]) -> list[str]:
    return [word for name, each in services.items() if each.count > 1 for word in ("--scale", f"{name}={each.count}")]


def write_project(services: Mapping[str, Service], image: str, mark: str, command: Sequence[str]) -> str:
    """The text of the file; ``command`` makes its containers."""
    document = {
        "services": {name: service.to_yaml(image, mark) for name, service in services.items()},
        "networks": {"default": {"labels": {LABEL: mark}}},
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return HEAD.format(command=" ".join(command)) + text
