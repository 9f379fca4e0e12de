"""The Compose file of a run: what a person reads to know its containers, and what starts them.

It holds to what docker-compose 1.29 and Compose v2 both take: no top-level name, limits by ``cpus`` and ``mem_limit``.
How many containers a service has stands on the command line (``scale``).
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from testbed.live.containers.engine import IMAGE
from testbed.shape.limits import Limits
from venn.wire.marks import LABEL
from venn.wire.notation import format_duration, format_fraction, format_rate

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
    link: Mapping[str, str] = field(default_factory=dict)  # what the entrypoint shall hold the link to

    def to_yaml(self, mark: str) -> dict[str, object]:
        limits: dict[str, object] = {}
        if self.cores is not None:
            limits["cpus"] = self.cores
        if self.memory_bytes is not None:
            limits |= {"mem_limit": self.memory_bytes, "memswap_limit": self.memory_bytes}
        shaped: dict[str, object] = {}
        if self.link:
            shaped = {"user": "root", "cap_add": ["NET_ADMIN"], "environment": dict(self.link)}
        ports = {"ports": [f"127.0.0.1:{self.port}:{PORT}"]} if self.port is not None else {}
        return {
            "image": IMAGE,
            "command": shlex.join(self.command).replace("$", "$$"),  # compose would fill in its own variables
            "working_dir": INSIDE,
            "init": True,
            "stop_grace_period": STOP_GRACE,
            **limits,
            **shaped,
            **ports,
            "labels": {LABEL: mark},
        }


def driver_service(job: str) -> str:
    return f"job-{job}"


def fleet_service(fleet: str) -> str:
    return f"fleet-{fleet}"


def link_of(limits: Limits) -> dict[str, str]:
    """The environment by which a device's entrypoint is told its link, in the notation."""
    told = {}
    for name, rate in (("VENN_UP", limits.up_bits), ("VENN_DOWN", limits.down_bits)):
        if rate is not None:
            told[name] = format_rate(rate)
    for name, seconds in (("VENN_DELAY", limits.delay_s), ("VENN_JITTER", limits.jitter_s)):
        if seconds:
            told[name] = format_duration(seconds)
    if limits.loss:
        told["VENN_LOSS"] = format_fraction(limits.loss)
    return told


def scale_flags(services: Mapping[str, Service]) -> list[str]:
    return [word for name, each in services.items() if each.count > 1 for word in ("--scale", f"{name}={each.count}")]


def write_project(services: Mapping[str, Service], mark: str, command: Sequence[str]) -> str:
    """The text of the file; ``command`` makes its containers."""
    document = {
        "services": {name: service.to_yaml(mark) for name, service in services.items()},
        "networks": {"default": {"labels": {LABEL: mark}}},
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return HEAD.format(command=" ".join(command)) + text
