"""The entrypoint of the image: slows its container down as it was told, then becomes ``venn ARGUMENTS``.

It is told by the environment, in the notation of scenarios; what is absent or empty is not limited:

    VENN_UP, VENN_DOWN, VENN_DELAY, VENN_JITTER, VENN_LOSS   the link of the container
    VENN_CORES, VENN_MEMORY_LIMIT   only read back: the engine sets them (cpus, mem_limit)
    VENN_PROFILE=phone-low          a packaged profile, for those of the above that are absent
    VENN_LIMITS=DIR                 where it writes what follows; $HOSTNAME may be in it; /home/venn/limits
    VENN_ALLOW_DEGRADED=true        run on where a limit cannot be held

Rates are set by ``tc`` on the container's own interface (tbf; down through ifb), delay, jitter and loss by netem; both
need root with NET_ADMIN. Where one is refused, a relay in the container (``venn relay``) holds rates, delay and jitter,
and the agent goes through it. What nothing can hold, and what the engine does not hold, ends it with exit code 3.

Root becomes user 1000 without capabilities. Written are ``limits.json``:

    {"limits": [{"key": "up", "asked": "4 Mbit/s", "read_back": 4000000.0, "means": "tc"}, ...], "degraded": ["..."]}

(``read_back`` in base units, null where no kernel holds it; ``means`` is empty where it is not in force), and where
there is a relay, ``links.json``, ``links-counts.json`` and ``throttle.json``, which the agent reads (VENN_THROTTLE).

``python -m testbed.shape.entrypoint --again`` in the container, as root, sets the link once more: an interface that was
taken away and given back is a new one. With other values in its environment it changes the link; what then holds it is
printed, as in ``limits.json``. The relay stays as it is.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from testbed.report.emulation import OF_A_CONTAINER
from testbed.shape import cgroup, interface
from testbed.shape.commands import RefusedError
from testbed.shape.limits import LINK, Limits
from testbed.shape.plan import FleetPlan
from testbed.shape.probe import NETEM, RELAY, TC
from venn.wire.errors import CannotEnforceError, PeerError, UsageError
from venn.wire.exits import guard, write_line
from venn.wire.files import write_atomic

AGAIN = "--again"
KEYS = (*LINK, "cores", "memory_limit")
USER = 1000
HOME = Path("/home/venn")
DROP = (
    *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
    *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"),
)
GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/memory"))  # of either version
SAME = 0.05  # what is read back may differ by so much from what was asked
CPUS, MEM_LIMIT = "cpus", "mem_limit"  # keys of a Compose file, and means
COUNTS = "links-counts.json"


@dataclass(frozen=True, slots=True)
class Held:
    """What is in force in this container."""

    plan: FleetPlan
    read_back: Mapping[str, float]  # by key
    problems: tuple[CannotEnforceError, ...]

    def rows(self) -> list[dict[str, object]]:
        return [
            {"key": key, "asked": asked, "read_back": self.read_back.get(key), "means": means}
            for key, asked, means in self.plan.asked()
        ]


def main(argv: list[str]) -> int:
    """Does not return where all goes well."""
    return guard(lambda: _run(argv, os.environ), argv, "venn container")


def asked_limits(environment: Mapping[str, str]) -> Limits:
    """Raises UsageError, which names the variable."""
    from testbed.profiles.model import FIELDS

    texts: dict[str, str | int | float] = {}
    if name := environment.get("VENN_PROFILE"):
        from testbed.profiles import load_profile

        texts.update({key: value.value for key, value in load_profile(name).values.items() if key in KEYS})
    texts.update({key: text for key in KEYS if (text := environment.get(variable(key), ""))})
    values: dict[str, float] = {}
    for key, value in texts.items():
        try:
            values[key] = FIELDS[key](value)
        except UsageError as error:
            raise UsageError(error.reason, error.message, where=variable(key), fix=error.fix) from None
    memory = values.get("memory_limit")
    return Limits(
        cores=values.get("cores"),
        memory_bytes=None if memory is None else int(memory),
        up_bits=values.get("up"),
        down_bits=values.get("down"),
        delay_s=values.get("delay", 0.0),
        jitter_s=values.get("jitter", 0.0),
        loss=values.get("loss", 0.0),
    )


def hold(
    limits: Limits,
    shape: Callable[[Limits, bool], None],
    engine: Callable[[], tuple[float | None, int | None]],
) -> Held:
    """By the strongest means. ``shape`` sets the link, with netem or without, or raises RefusedError; ``engine`` tells
    the cores and the memory that the engine holds.
    """
    refused: dict[str, str] = {}  # by means
    rated = limits.up_bits is not None or limits.down_bits is not None
    impaired = bool(limits.delay_s or limits.jitter_s or limits.loss)
    for means, wanted in ((NETEM, impaired), (TC, rated)):
        if wanted:
            try:
                shape(limits, means == NETEM)
            except RefusedError as error:
                refused[means] = str(error)
            else:
                break
    netem = impaired and NETEM not in refused
    cores, memory = engine()
    plan = FleetPlan(
        fleet="",
        count=1,
        limits=limits,
        cpu=CPUS if _same(limits.cores, cores) else "",
        memory=MEM_LIMIT if _same(limits.memory_bytes, memory) else "",
        rate="" if not rated else RELAY if TC in refused else TC,
        delay="" if not (limits.delay_s or limits.jitter_s) else NETEM if netem else RELAY,
        loss=NETEM if limits.loss and netem else "",
    )
    read_back = {"cores": cores, "memory_limit": memory}
    read_back |= {"up": limits.up_bits, "down": limits.down_bits} if plan.rate == TC else {}  # ``shape`` has compared
    fixes = {
        "loss": f"{refused.get(NETEM, '')}; leave it out, or load sch_netem into the machine's kernel",
        "cores": f"the engine holds {cores or 'none'}; write cpus: {limits.cores}",
        "memory_limit": f"the engine holds {memory or 'none'}; write mem_limit: {limits.memory_bytes}",
    }
    return Held(
        plan,
        {key: float(value) for key, value in read_back.items() if value is not None},
        tuple(
            CannotEnforceError("CANNOT_ENFORCE", f"{asked} is not in force", where=variable(key), fix=fixes[key])
            for key, asked, means in plan.asked()
            if not means
        ),
    )


def variable(key: str) -> str:
    return f"VENN_{key.upper()}"


def _run(argv: list[str], environment: Mapping[str, str]) -> int:
    limits, again = asked_limits(environment), argv == [AGAIN]
    if again:
        interface.clear()
    elif limits == Limits():
        _become(argv, environment)
    held = hold(limits, _shape, _engine)
    degraded = [str(problem) for problem in held.problems]
    if held.problems and environment.get("VENN_ALLOW_DEGRADED") != "true":
        raise held.problems[0]
    if again:
        write_line(sys.stdout, json.dumps({"limits": held.rows(), "degraded": degraded}))
        return 0
    folder = Path(os.path.expandvars(environment.get("VENN_LIMITS") or str(HOME / "limits")))
    with _as_user():
        folder.mkdir(parents=True, exist_ok=True)
        told = {"limits": held.rows(), "degraded": degraded}
        write_atomic(folder / OF_A_CONTAINER, json.dumps(told, indent=2) + "\n")
    throttle = _relay(held.plan, folder) if RELAY in (held.plan.rate, held.plan.delay) else {}
    said = ", ".join(f"{row['key']} {row['asked']} by {row['means'] or 'nothing'}" for row in held.rows())
    sys.stderr.write(f"limits: {said}\n")
    return _become(argv, {**environment, **throttle})


def _shape(limits: Limits, netem: bool) -> None:
    if unshaped := interface.others():
        raise RefusedError(f"the container has {unshaped[0]} beside {interface.OWN}")
    interface.shape(limits, netem=netem)


def _engine() -> tuple[float | None, int | None]:
    """The cores and the memory of this container, as the kernel has them."""
    try:
        return cgroup.cores_in_force(GROUPS), cgroup.memory_in_force(GROUPS)
    except (OSError, ValueError):
        return None, None


def _same(asked: float | None, got: float | None) -> bool:
    return asked is not None and got is not None and abs(got - asked) <= SAME * asked


def _relay(plan: FleetPlan, folder: Path) -> dict[str, str]:
    """Started, for what ``tc`` does not do; the environment of the agent that goes through it. Raises PeerError."""
    from device_agent.throttle import ANY, Throttle, write_throttle
    from testbed.shape.relay import LinkSpec, write_specs

    limits = plan.limits
    spec = LinkSpec(
        up_bits=limits.up_bits if plan.rate == RELAY else None,
        down_bits=limits.down_bits if plan.rate == RELAY else None,
        delay_s=limits.delay_s if plan.delay == RELAY else 0.0,
        jitter_s=limits.jitter_s if plan.delay == RELAY else 0.0,
        seed=os.uname().nodename,
        anywhere=True,
    )
    links, counts = folder / "links.json", folder / COUNTS
    with _as_user():
        write_specs(links, {ANY: spec})
    command = [sys.executable, "-m", "testbed.cli.main", "relay", str(links), "--counts", str(counts)]
    relay = subprocess.Popen(_dropped(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert relay.stdout is not None
    line = relay.stdout.readline()
    if not line:
        raise PeerError("RELAY", f"the relay of this container ended with exit code {relay.wait()}")
    with _as_user():
        write_throttle(folder / "throttle.json", Throttle(proxies=json.loads(line)["listening"]))
    return {"VENN_THROTTLE": str(folder / "throttle.json")}


@contextmanager
def _as_user() -> Iterator[None]:
    """What root makes in here belongs to the user that it will be."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(USER)
    os.seteuid(USER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def _dropped(command: Sequence[str]) -> list[str]:
    return [*DROP, *command] if os.getuid() == 0 else list(command)


def _become(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """A command line, as ``venn`` takes it."""
    command = _dropped([sys.executable, "-m", "testbed.cli.main", *argv])
    os.execvpe(command[0], command, {**environment, "HOME": str(HOME)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
