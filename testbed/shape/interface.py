"""The link of a container, shaped from within: its one interface, what it sends by itself, what it gets through ifb.

It needs NET_ADMIN in the container's own network namespace. All of it goes with the container.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from testbed.shape.commands import RefusedError, run
from testbed.shape.limits import Limits
from testbed.shape.namespace import rate_of, shape_end

OWN, INGRESS = "eth0", "ifb0"
INTERFACES = Path("/sys/class/net")
EVERYTHING = (("u32", "match", "u32", "0", "0"), ("matchall",))  # kernels have the one or the other


def shape(limits: Limits, *, netem: bool) -> None:
    """Both ways; delay, jitter and loss only with netem. Raises RefusedError; nothing is shaped then."""
    clear()
    try:
        run("ip", "link", "set", OWN, "gso_max_segs", "1")
        shape_end(["tc", "qdisc", "add", "dev", OWN], limits, limits.up_bits, netem=netem)
        if limits.down_bits is not None or netem:
            run("ip", "link", "add", INGRESS, "type", "ifb")
            run("ip", "link", "set", INGRESS, "up")
            run("tc", "qdisc", "add", "dev", OWN, "handle", "ffff:", "ingress")
            _redirect()
            shape_end(["tc", "qdisc", "add", "dev", INGRESS], limits, limits.down_bits, netem=netem)
        if rates_in_force() != (limits.up_bits, limits.down_bits):
            raise RefusedError(f"{limits.up_bits, limits.down_bits} was asked, and {rates_in_force()} is in force")
    except RefusedError:
        clear()
        raise


def clear() -> None:
    """As it was, whatever of it is there."""
    for command in (
        ("tc", "qdisc", "delete", "dev", OWN, "root"),
        ("tc", "qdisc", "delete", "dev", OWN, "ingress"),
        ("ip", "link", "delete", INGRESS),
    ):
        with suppress(RefusedError):
            run(*command)


def rates_in_force() -> tuple[float | None, float | None]:
    """Up and down, bits per second, as the kernel has them; None where there is none. Raises RefusedError."""
    up = json.loads(run("tc", "-j", "qdisc", "show", "dev", OWN))
    down = json.loads(run("tc", "-j", "qdisc", "show", "dev", INGRESS)) if (INTERFACES / INGRESS).exists() else []
    return rate_of(up), rate_of(down)


def others(interfaces: Path = INTERFACES) -> list[str]:
    """Interfaces that lead out of the container past the one that is shaped."""
    return sorted(name for name in _names(interfaces) if name.startswith("eth") and name != OWN)


def _names(interfaces: Path) -> Iterable[str]:
    try:
        return [path.name for path in interfaces.iterdir()]
    except OSError:
        return []


def _redirect() -> None:
    refused: RefusedError | None = None
    for match in EVERYTHING:
        words = ("parent", "ffff:", "protocol", "all", *match, "action", "mirred", "egress", "redirect", "dev", INGRESS)
        try:
            run("tc", "filter", "add", "dev", OWN, *words)
        except RefusedError as error:
            refused = error
        else:
            return
    assert refused is not None
    raise refused
