"""Links of devices in the kernel: a network namespace with a cable, or a container's own interface, and ``tc``.

The device's end is shaped inside the namespace (what it sends), this machine's end outside (what it gets), so that
each way has its own bucket. The namespace takes the cable with it when it goes. Nothing is routed: all that the device
can reach is this machine's end, where its proxy listens, and only through the cable.

The addresses are of 198.18.0.0/15, which RFC 2544 keeps for such tests.

A container's link is shaped from within: its one interface, what it sends by itself, what it gets through ifb. This
needs NET_ADMIN in the container's own network namespace. All of it goes with the container.
"""

import ipaddress
import json
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from testbed.world.limits import Limits, alike

ENDS = ipaddress.ip_network("198.18.0.0/15")
PER_CABLE = 4  # addresses
BURST_S = 0.010  # of the rate, at least
LEAST_BURST = 3200  # bytes: two packets
QUEUE_MS = 400
NETEM_PACKETS = 10_000
IN_ORDER = ("rate", "100gbit")  # with a rate, of any size, netem lets no packet overtake another
DEVICE_END = "eth0"


Qdisc = dict[str, Any]  # as ``tc`` tells it


@dataclass(frozen=True, slots=True)
class Namespace:
    """A network namespace that exists, with its cable."""

    name: str
    interface: str  # this machine's end
    address: str  # of it: the proxy listens here

    @property
    def enter(self) -> tuple[str, ...]:
        """The command that runs a command in it. (``ip netns exec`` would hide the cgroups: it mounts /sys anew.)"""
        return ("nsenter", f"--net=/var/run/netns/{self.name}")


def addresses_in_use() -> set[str]:
    """The addresses that this machine has. Raises RefusedError."""
    return {
        str(entry["local"])
        for link in json.loads(run("ip", "-j", "address"))
        for entry in link.get("addr_info", ())
        if "local" in entry
    }


def cable(number: int) -> tuple[str, str]:
    """This machine's address and the device's, of the ``number``-th cable; the first comes again after the last."""
    first = int(ENDS.network_address) + PER_CABLE * (number % (ENDS.num_addresses // PER_CABLE))
    return str(ipaddress.ip_address(first + 1)), str(ipaddress.ip_address(first + 2))


def create_namespace(name: str, interface: str, number: int) -> Namespace:
    """Make a namespace with its cable. Raises RefusedError; nothing is left then."""
    ours, theirs = cable(number)
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", interface, "type", "veth", "peer", "name", DEVICE_END, "netns", name)
        run("ip", "link", "set", interface, "alias", name, "gso_max_segs", "1")
        run("ip", "-n", name, "link", "set", DEVICE_END, "gso_max_segs", "1")
        run("ip", "address", "add", f"{ours}/30", "dev", interface)
        run("ip", "-n", name, "address", "add", f"{theirs}/30", "dev", DEVICE_END)
        run("ip", "link", "set", interface, "up")
        run("ip", "-n", name, "link", "set", DEVICE_END, "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
    except RefusedError:
        remove_namespace(name)
        raise
    return Namespace(name, interface, ours)


def remove_namespace(name: str) -> None:
    """Remove a namespace and first its cable: the kernel removes a namespace later. Raises RefusedError."""
    with suppress(RefusedError):  # it was not made yet
        run("ip", "-n", name, "link", "delete", DEVICE_END)
    run("ip", "netns", "delete", name)


def burst_bytes(rate_bits: float) -> int:
    return max(LEAST_BURST, int(rate_bits / 8 * BURST_S))


def rate_arguments(rate_bits: float) -> list[str]:
    """The arguments of tbf for a rate."""
    return ["tbf", "rate", f"{rate_bits:.0f}bit", "burst", str(burst_bytes(rate_bits)), "latency", f"{QUEUE_MS}ms"]


def netem_arguments(limits: Limits) -> list[str]:
    """The arguments of netem for one way, which has half of the delay of a round trip."""
    words = ["netem", "limit", str(NETEM_PACKETS)]
    if limits.delay_s or limits.jitter_s:
        words += ["delay", f"{limits.delay_s * 500:.3f}ms"]
        words += [f"{limits.jitter_s * 500:.3f}ms", *IN_ORDER] if limits.jitter_s else []
    return words + (["loss", f"{limits.loss * 100:.4f}%"] if limits.loss else [])


def shape(namespace: Namespace, limits: Limits, *, netem: bool) -> None:
    """Shape both ways, in place of what was there; delay, jitter and loss only with netem. Raises RefusedError."""
    inside = ["-n", namespace.name]
    outside: list[str] = []
    for where, end, rate_bits in (
        (inside, DEVICE_END, limits.up_bits),
        (outside, namespace.interface, limits.down_bits),
    ):
        if netem or rate_bits is None:  # a qdisc of one kind does not become another
            with suppress(RefusedError):  # there was none
                run("tc", *where, "qdisc", "delete", "dev", end, "root")
        shape_end(["tc", *where, "qdisc", "replace", "dev", end], limits, rate_bits, netem=netem)


def shape_end(add: Sequence[str], limits: Limits, rate_bits: float | None, *, netem: bool) -> None:
    """Shape what one interface sends; ``add`` is the command that adds a qdisc to it. Raises RefusedError."""
    parent = ["root", "handle", "1:"]
    if netem and (limits.delay_s or limits.jitter_s or limits.loss):
        run(*add, *parent, *netem_arguments(limits))
        parent = ["parent", "1:1", "handle", "2:"]
    if rate_bits is not None:
        run(*add, *parent, *rate_arguments(rate_bits))


def in_force(namespace: Namespace) -> Limits:
    """The limits of a cable, as the kernel has them. Raises RefusedError."""
    up = run("tc", "-j", "-n", namespace.name, "qdisc", "show", "dev", DEVICE_END)
    down = run("tc", "-j", "qdisc", "show", "dev", namespace.interface)
    return held_by(json.loads(up), json.loads(down))


def held_by(up: list[Qdisc], down: list[Qdisc]) -> Limits:
    """The limits that the qdiscs of both ways hold, as ``tc`` tells them (bytes, seconds); of losses the lesser."""
    netems = [_options(qdiscs, "netem") for qdiscs in (up, down)]
    delays = [options.get("delay", {}) for options in netems]
    return Limits(
        up_bits=_rate_of(up),
        down_bits=_rate_of(down),
        delay_s=sum(float(each.get("delay", 0.0)) for each in delays),
        jitter_s=sum(float(each.get("jitter", 0.0)) for each in delays),
        loss=min(float(options.get("loss-random", {}).get("loss", 0.0)) for options in netems),
    )


def _rate_of(qdiscs: list[Qdisc]) -> float | None:
    rate = _options(qdiscs, "tbf").get("rate")
    return None if rate is None else 8.0 * float(rate)


def _options(qdiscs: list[Qdisc], kind: str) -> dict[str, Any]:
    return next((qdisc["options"] for qdisc in qdiscs if qdisc.get("kind") == kind), {})


TIMEOUT_S = 20.0


class RefusedError(OSError):
    """A command of the system refused: its first line of error."""


def run(*command: str) -> str:
    """Run a command, and return its standard output. Raises RefusedError."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise RefusedError(f"there is no {command[0]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise RefusedError(f"{' '.join(_short(command))}: {said[0] if said else f'exit code {done.returncode}'}")
    return done.stdout


def _short(command: Sequence[str]) -> Sequence[str]:
    return command if len(command) <= 6 else [*command[:6], "..."]


PREFIX, INGRESS = "eth", "ifb0"
INTERFACES = Path("/sys/class/net")
EVERYTHING = (("u32", "match", "u32", "0", "0"), ("matchall",))  # kernels have the one or the other


def shape_own(limits: Limits, *, netem: bool) -> None:
    """Shape a container's link; delay, jitter and loss only with netem. Raises RefusedError; nothing is shaped then."""
    name = own_interface()
    clear_own()
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
        if not alike(got := own_in_force(name), asked):
            raise RefusedError(f"{asked.of_link} was asked, and {got.of_link} is in force")
    except RefusedError:
        clear_own()
        raise


def clear_own() -> None:
    """Remove what ``shape_own`` has made, as far as it is there."""
    for name in interfaces():
        for end in ("root", "ingress"):
            with suppress(RefusedError):
                run("tc", "qdisc", "delete", "dev", name, end)
    with suppress(RefusedError):
        run("ip", "link", "delete", INGRESS)


def own_in_force(name: str) -> Limits:
    """The limits of a container's link, as the kernel has them. Raises RefusedError."""
    up = json.loads(run("tc", "-j", "qdisc", "show", "dev", name))
    down = json.loads(run("tc", "-j", "qdisc", "show", "dev", INGRESS)) if (INTERFACES / INGRESS).exists() else []
    return held_by(up, down)


def own_interface(place: Path = INTERFACES) -> str:
    """The interface that leads out of the container: eth0, or eth1 after it was taken away and given back. Raises
    RefusedError: there is none, or another, past which the container would go.
    """
    found = interfaces(place)
    if len(found) != 1:
        raise RefusedError(f"the container has {' beside '.join(found) or 'no network'}")
    return found[0]


def interfaces(place: Path = INTERFACES) -> list[str]:
    """All interfaces that lead out of the container."""
    try:
        return sorted(path.name for path in place.iterdir() if path.name.startswith(PREFIX))
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
