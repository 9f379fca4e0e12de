"""The link of a container, shaped from within: its one interface, what it sends by itself, what it gets through ifb.

It needs NET_ADMIN in the container's own network namespace. All of it goes with the container.
"""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from testbed.live.throttle.namespace import RefusedError, held_by, run, shape_end
from testbed.world.limits import Limits, alike

PREFIX, INGRESS = "eth", "ifb0"
INTERFACES = Path("/sys/class/net")
EVERYTHING = (("u32", "match", "u32", "0", "0"), ("matchall",))  # kernels have the one or the other


def shape(limits: Limits, *, netem: bool) -> None:
    """Both ways; delay, jitter and loss only with netem. Raises RefusedError; nothing is shaped then."""
    name = own()
    clear()
    try:
        run("ip", "link", "set", name, "gso_max_segs", "1")
        shape_end(["tc", "qdisc", "add", "dev", name], limits, limits.up_bits, netem=netem)
        if limits.down_bits is not None or netem:
            run("ip", "link", "add", INGRESS, "type", "ifb")
            run("ip", "link", "set", INGRESS, "up")
            run("tc", "qdisc", "add", "dev", name, "handle", "ffff:", "ingress")
            _redirect(name)
            shape_end(["tc", "qdisc", "add", "dev", INGRESS], limits, limits.down_bits, netem=netem)
        asked = limits if netem else replace(limits, delay_s=0.0, jitter_s=0.0, loss=0.0)
        if not alike(got := in_force(name), asked):
            raise RefusedError(f"{asked.of_link} was asked, and {got.of_link} is in force")
    except RefusedError:
        clear()
        raise


def clear() -> None:
    """As it was, whatever of it is there."""
    for name in names():
        for end in ("root", "ingress"):
            with suppress(RefusedError):
                run("tc", "qdisc", "delete", "dev", name, end)
    with suppress(RefusedError):
        run("ip", "link", "delete", INGRESS)


def in_force(name: str) -> Limits:
    """As the kernel has them. Raises RefusedError."""
    up = json.loads(run("tc", "-j", "qdisc", "show", "dev", name))
    down = json.loads(run("tc", "-j", "qdisc", "show", "dev", INGRESS)) if (INTERFACES / INGRESS).exists() else []
    return held_by(up, down)


def own(interfaces: Path = INTERFACES) -> str:
    """The one that leads out of the container: eth0, or eth1 after it was taken away and given back. Raises
    RefusedError: there is none, or another, past which the container would go.
    """
    found = names(interfaces)
    if len(found) != 1:
        raise RefusedError(f"the container has {' beside '.join(found) or 'no network'}")
    return found[0]


def names(interfaces: Path = INTERFACES) -> list[str]:
    """All that lead out of the container."""
    try:
        return sorted(path.name for path in interfaces.iterdir() if path.name.startswith(PREFIX))
    except OSError:
        return []


def _redirect(name: str) -> None:
    refused: RefusedError | None = None
    for match in EVERYTHING:
        words = ("parent", "ffff:", "protocol", "all", *match, "action", "mirred", "egress", "redirect", "dev", INGRESS)
        try:
            run("tc", "filter", "add", "dev", name, *words)
        except RefusedError as error:
            refused = error
        else:
            return
    assert refused is not None
    raise refused
