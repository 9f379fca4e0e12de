"""The entrypoint of the image: it slows its container down as it was told, then becomes ``venn ARGUMENTS``.

It is told by the environment, in the notation of scenarios; what is absent or empty is not limited:

    VENN_UP, VENN_DOWN, VENN_DELAY, VENN_JITTER, VENN_LOSS   the link of the container
    VENN_CORES, VENN_MEMORY_LIMIT   only read back: the engine sets them (cpus, mem_limit)
    VENN_PROFILE=phone-low          a packaged profile, for those of the above that are absent
    VENN_CHANGES=[{"VENN_UP": "1 Mbit/s"}]   JSON: what the link may be changed to, each as the variables above
    VENN_LIMITS=DIR                 where it writes what follows; $HOSTNAME may be in it; /home/venn/limits
    VENN_ALLOW_DEGRADED=true        run on where a limit cannot be held

Rates are set by ``tc`` on the container's own interface (tbf; down through ifb), delay, jitter and loss by netem; both
need root with NET_ADMIN. Where one is refused, a relay in the container (``venn relay``) holds rates, delay and jitter,
and the agent goes through it; in place of a loss it can stall, if it may run on degraded. What nothing can hold, now or
after a change, and what the engine does not hold, ends it with exit code 3.

Root becomes user 1000 without capabilities. Written are ``limits.json``:

    {"limits": [{"key": "up", "asked": "4 Mbit/s", "read_back": 4000000.0, "means": "tc"}, ...], "degraded": ["..."]}

(``read_back`` in base units, null where no kernel holds it; ``means`` is empty where it is not in force), and where
there is a relay, ``links.json``, ``links-counts.json`` and ``throttle.json``, which the agent reads (VENN_THROTTLE).

``changed.json`` in the same folder, an object of the variables above, goes before the environment: what the link was
changed to. ``python -m testbed.live.throttle.entrypoint --again`` in the container, as root, sets the link
once more, to that,
or since an interface that was taken away and given back is a new one. What then holds it is printed, as in
``limits.json``, with what the relay says of itself.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from testbed.live.throttle import cgroup, tc
from testbed.live.throttle.container import HOME, as_user, dropped, has_relay, limit_relay, start_relay
from testbed.live.throttle.means import (
    NETEM,
    RELAY,
    STALL,
    TC,
    FleetPlan,
    is_delayed,
    is_rated,
    link_means,
    why_refused,
)
from testbed.live.throttle.tc import RefusedError
from testbed.world.limits import COUNTS, LINK, OF_A_CONTAINER, Limits, same
from venn.wire.errors import CannotEnforceError, PeerError, UsageError
from venn.wire.exits import guard, write_line
from venn.wire.files import write_atomic

AGAIN = "--again"
KEYS = (*LINK, "cores", "memory_limit")
GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/memory"))  # of either version
CPUS, MEM_LIMIT = "cpus", "mem_limit"  # keys of a Compose file, and means
CHANGED = "changed.json"
STARTED = Path("/dev/shm/venn-started")  # goes with this life of the container: its limits are set
STARTED_WITHIN_S, LOOK_S = 60.0, 0.1
CHANGES, ALLOW_DEGRADED = "VENN_CHANGES", "VENN_ALLOW_DEGRADED"
NO_LOSS = f"load it (modprobe sch_netem), or leave loss out; or run with --allow-degraded ({ALLOW_DEGRADED}=true)"


@dataclass(frozen=True, slots=True)
class Held:
    """The limits that are in force in this container."""

    plan: FleetPlan
    read_back: Mapping[str, float]  # by key
    problems: tuple[CannotEnforceError, ...]
    refused: Mapping[str, str]  # by means: why not by that

    @property
    def by_relay(self) -> bool:
        """Whether a relay holds anything, now or after a change."""
        return RELAY in (self.plan.rate, self.plan.delay) or self.plan.loss == STALL

    def rows(self) -> list[dict[str, object]]:
        return [
            {"key": key, "asked": asked, "read_back": self.read_back.get(key), "means": means}
            for key, asked, means in self.plan.asked()
        ]

    def to_json(self) -> dict[str, object]:
        return {"limits": self.rows(), "degraded": [str(problem) for problem in self.problems]}


def main(argv: list[str]) -> int:
    """Set the limits and become the command, or set them again (``--again``). Returns an exit code if that fails."""
    return guard(lambda: _again() if argv == [AGAIN] else _run(argv, os.environ), argv, "venn container")


def asked_limits(environment: Mapping[str, str]) -> Limits:
    """The limits that the environment asks for. Raises UsageError, which names the variable."""
    from testbed.world.profiles import FIELDS

    texts: dict[str, str | int | float] = {}
    if name := environment.get("VENN_PROFILE"):
        from testbed.world.profiles import load_profile

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


def asked_changes(environment: Mapping[str, str]) -> tuple[Limits, ...]:
    """The limits that the link may be changed to. Raises UsageError, which names the variable."""
    text = environment.get(CHANGES) or "[]"
    try:
        return tuple(asked_limits({str(name): str(value) for name, value in each.items()}) for each in json.loads(text))
    except (ValueError, TypeError, AttributeError):
        fix = """write e.g. [{"VENN_UP": "1 Mbit/s"}]"""
        raise UsageError("CHANGES", "is not a list of settings in JSON", where=CHANGES, fix=fix) from None


def hold(
    limits: Limits,
    shape: Callable[[Limits, bool], None],
    engine: Callable[[], tuple[float | None, int | None]],
    changes: Sequence[Limits] = (),
) -> Held:
    """Hold the limits by the strongest means. ``shape`` sets the link, with netem or without, or raises RefusedError;
    ``engine`` tells the cores and the memory that the engine holds; ``changes`` are what a means must hold as well, and
    are tried.
    """
    refused: dict[str, str] = {}  # by means
    every = (*changes, limits)
    by_netem = is_delayed(every) or any(each.loss for each in every)
    for means, wanted in ((NETEM, by_netem), (TC, is_rated(every))):
        if wanted:
            try:
                for each in every:  # the limits themselves are the last, and stay
                    shape(each, means == NETEM)
            except RefusedError as error:
                refused[means] = why_refused(error)
            else:
                break
    cores, memory = engine()
    plan = FleetPlan(
        fleet="",
        count=1,
        limits=limits,
        changes=tuple(changes),
        cpu=CPUS if _same(limits.cores, cores) else "",
        memory=MEM_LIMIT if _same(limits.memory_bytes, memory) else "",
        **link_means(every, tc=TC not in refused, netem=NETEM not in refused),
    )
    read_back = {"cores": cores, "memory_limit": memory, **plan.by_kernel(limits)}  # ``shape`` has compared
    fixes = {
        "cores": f"the engine holds {cores or 'none'}; write cpus: {limits.cores}",
        "memory_limit": f"the engine holds {memory or 'none'}; write mem_limit: {limits.memory_bytes}",
    }
    lacking = ((key, asked) for key, asked, means in plan.asked() if not means)
    problems = [_problem(key, f"{asked} is not in force", fixes[key]) for key, asked in lacking]
    if plan.stalls:
        problems.append(_problem("loss", plan.stalls, f"{refused[NETEM]}; {NO_LOSS}"))
    got = {key: float(value) for key, value in read_back.items() if value is not None}
    return Held(plan, got, tuple(problems), refused)


def _problem(key: str, message: str, fix: str) -> CannotEnforceError:
    return CannotEnforceError("CANNOT_ENFORCE", message, where=variable(key), fix=fix)


def variable(key: str) -> str:
    return f"VENN_{key.upper()}"


def _run(argv: list[str], environment: Mapping[str, str]) -> int:
    limits, changes = asked_limits(environment), asked_changes(environment)
    if limits == Limits() and not changes:
        _become(argv, environment)
    held = _held(limits, environment, changes)
    folder = _folder(environment)
    with as_user():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / OF_A_CONTAINER, json.dumps(held.to_json(), indent=2) + "\n")
    throttle = _relay(held.plan, folder) if held.by_relay else {}
    said = ", ".join(f"{row['key']} {row['asked']} by {row['means'] or 'nothing'}" for row in held.rows())
    sys.stderr.write(f"limits: {said or 'none so far'}\n")
    if (folder / CHANGED).exists():  # it was changed before it had started, or in an earlier life
        _set_once_more(environment)
    STARTED.touch()
    return _become(argv, {**environment, **throttle})


def _again() -> int:
    wait_for(STARTED)
    write_line(sys.stdout, json.dumps(_set_once_more(os.environ).to_json()))
    return 0


def _set_once_more(environment: Mapping[str, str]) -> Held:
    """Set the link as it is wanted now. Raises CannotEnforceError."""

    with suppress(FileNotFoundError):
        environment = {**environment, **json.loads((_folder(environment) / CHANGED).read_text(encoding="utf-8"))}
    limits = asked_limits(environment)
    tc.clear_own()
    held = _held(limits, environment)
    if not has_relay():
        if held.by_relay:
            why = "; ".join(f"{means}: {said}" for means, said in held.refused.items())
            raise CannotEnforceError("NOT_IN_FORCE", f"its link is not set: {why}", where="the container")
        return held
    limit_relay(held.plan.relayed(limits))
    return replace(held, read_back={**held.read_back, **_of_relay(held.plan)})


def _folder(environment: Mapping[str, str]) -> Path:
    return Path(os.path.expandvars(environment.get("VENN_LIMITS") or str(HOME / "limits")))


def wait_for(path: Path, within_s: float = STARTED_WITHIN_S) -> None:
    """Wait for a file: two that set the link at once would be in each other's way. Raises PeerError."""
    last = time.monotonic() + within_s
    while not path.exists():
        if time.monotonic() > last:
            raise PeerError("NOT_STARTED", f"this container has not set its limits within {within_s:g} s")
        time.sleep(LOOK_S)


def _held(limits: Limits, environment: Mapping[str, str], changes: Sequence[Limits] = ()) -> Held:
    """Hold the limits. Raises CannotEnforceError, unless it may run on degraded."""
    held = hold(limits, _shape, _engine, changes)
    if held.problems and environment.get(ALLOW_DEGRADED) != "true":
        raise held.problems[0]
    return held


def _shape(limits: Limits, netem: bool) -> None:
    tc.shape_own(limits, netem=netem)


def _engine() -> tuple[float | None, int | None]:
    """The cores and the memory of this container, as the kernel has them."""
    try:
        return cgroup.cores_in_force(GROUPS), cgroup.memory_in_force(GROUPS)
    except (OSError, ValueError):
        return None, None


def _same(asked: float | None, got: float | None) -> bool:
    return asked is not None and same(got, asked)


def _relay(plan: FleetPlan, folder: Path) -> dict[str, str]:
    """Start a relay for what ``tc`` does not do; return the environment of its agent. Raises PeerError."""
    from device_agent.throttle import ANY, Throttle, write_throttle
    from testbed.live.throttle.relay import LinkSpec

    spec = LinkSpec(**plan.relayed(plan.limits), seed=os.uname().nodename, anywhere=True)
    proxy = start_relay(spec, folder / "links.json", folder / COUNTS)
    with as_user():
        write_throttle(folder / "throttle.json", Throttle(proxies={ANY: proxy}))
    return {"VENN_THROTTLE": str(folder / "throttle.json")}


def _of_relay(plan: FleetPlan) -> dict[str, float]:
    """The limits that a relay holds, by key."""
    to = plan.relayed(plan.limits)
    values = zip(LINK, (to["up_bits"], to["down_bits"], to["delay_s"], to["jitter_s"], to["stall"]), strict=True)
    return {key: value for key, value in values if value}


def _become(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Become ``venn`` with these arguments, as the user."""
    command = dropped([sys.executable, "-m", "testbed.cli.main", *argv])
    os.execvpe(command[0], command, {**environment, "HOME": str(HOME)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
