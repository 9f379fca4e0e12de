"""The script of one world: its devices and jobs, and the faults with their times. All of it comes from a seed.

A script can be written down, cut down and replayed: a world is a function of its script.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

from venn.wire.errors import UsageError

FORMAT = 1
COORDINATOR = "coordinator"


class Kind(StrEnum):
    """What a fault does to a machine."""

    KILL = "kill"  # SIGKILL; started again later
    KILL_IN_WRITE = "kill in write"  # SIGKILL in the middle of a write to disk, after ``level`` more of them
    POWER_CUT = "power cut"  # what was not synced is lost, or torn
    STOP = "stop"  # SIGSTOP, for ``seconds``
    CUT_OFF = "cut off"  # nothing comes through, for ``seconds``
    FLAKY = "flaky"  # messages are lost with their connections, delayed, repeated: probability ``level``
    SLOW = "slow"  # each message takes up to ``level`` seconds more
    FULL_DISK = "full disk"  # for ``seconds``
    CLOCK_JUMP = "clock jump"  # of the wall clock, by ``level`` seconds
    REPLACE = "replace"  # the coordinator's machine is lost, and one with an empty disk takes its place
    SECOND_DRIVER = "second driver"  # it stands still for ``seconds``; somebody starts another in its folder
    REPLAY = "replay"  # a stranger sends again what was sent before, and noise
    LIE = "lie"  # a device of a stranger takes leases, and says that its response counts


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. ``machine``: a machine's name; of REPLAY and LIE the stranger's."""

    at: float  # virtual seconds
    kind: Kind
    machine: str
    seconds: float = 0.0  # how long it lasts, or until the program is started again
    level: float = 0.0

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        level = f" ({self.level:g})" if self.level else ""
        return f"{self.at:9.1f} s  {self.machine}: {self.kind.value}{level}{lasts}"


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job, and when it arrives. Durations are seconds."""

    name: str
    at: float
    rounds: int
    demand: int
    over_commit: str = "0"
    min_response: str = "1"
    deadline_s: float = 240.0
    lease_s: float = 240.0
    buffer: int | None = None  # asynchronous
    repeat: str = "once"
    stragglers: str = "finish"
    pad: int = 0  # bytes that a response has beside what counts
    size: float = 0.0  # least of a device
    fsync: bool = True


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """A device. ``session`` and ``gap`` are mean seconds; 0: it is always there."""

    name: str
    size: float  # what jobs may ask for
    compute_s: float  # of a task, about
    session: float = 0.0
    gap: float = 0.0
    crash: float = 0.0  # probability that a session ends without a goodbye


@dataclass(frozen=True, slots=True)
class Script:
    """One world, from its beginning until everything has come to rest."""

    seed: int
    hours: float  # virtual hours with faults; then the world is left alone until its jobs have ended
    heartbeat_s: float = 20.0
    policy: str = "venn"
    devices: tuple[DevicePlan, ...] = ()
    jobs: tuple[JobPlan, ...] = ()
    faults: tuple[Fault, ...] = ()
    format: int = field(default=FORMAT)

    @property
    def seconds(self) -> float:
        return self.hours * 3600

    def without(self, **parts: Any) -> "Script":
        """The same with other parts."""
        return replace(self, **parts)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    def write(self, path: Path) -> None:
        """Write it down."""
        path.write_text(self.to_json() + "\n", encoding="utf-8")


def read(path: Path) -> Script:
    """Read a script that was written down. Raises UsageError."""
    try:
        value: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if value["format"] != FORMAT:
            raise ValueError(f"its format is {value['format']}, known is {FORMAT}")
        faults = tuple(Fault(**(one | {"kind": Kind(one["kind"])})) for one in value["faults"])
        jobs, devices = (tuple(k(**one) for one in value[n]) for k, n in ((JobPlan, "jobs"), (DevicePlan, "devices")))
        return Script(**(dict(value) | {"faults": faults, "jobs": jobs, "devices": devices}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        fix = "name a file that `venn chaos sim` wrote"
        raise UsageError("SCRIPT", f"is not a script: {error}", where=str(path), fix=fix) from error


# -- from a seed

POLICIES = ("venn", "venn", "venn-plus", "fifo", "srsf", "las", "random")
TEMPI = (20.0, 40.0, 80.0)  # heartbeats, seconds; all other times go by them
FAULT_EVERY = 6.0  # heartbeats, on average
WEIGHTS: Mapping[str, Mapping[Kind, int]] = {  # of faults, by what runs on the machine
    COORDINATOR: {
        Kind.KILL: 4,
        Kind.KILL_IN_WRITE: 3,
        Kind.POWER_CUT: 2,
        Kind.STOP: 2,
        Kind.CUT_OFF: 2,
        Kind.FLAKY: 3,
        Kind.SLOW: 1,
        Kind.FULL_DISK: 2,
        Kind.CLOCK_JUMP: 2,
        Kind.REPLACE: 1,
    },
    "driver": {
        Kind.KILL: 4,
        Kind.KILL_IN_WRITE: 4,
        Kind.POWER_CUT: 4,
        Kind.STOP: 3,
        Kind.CUT_OFF: 2,
        Kind.FLAKY: 4,
        Kind.SLOW: 1,
        Kind.FULL_DISK: 2,
        Kind.CLOCK_JUMP: 1,
        Kind.SECOND_DRIVER: 2,
    },
    "device": {Kind.KILL: 4, Kind.STOP: 3, Kind.CUT_OFF: 4, Kind.FLAKY: 4, Kind.SLOW: 2, Kind.CLOCK_JUMP: 1},
    "stranger": {Kind.REPLAY: 3, Kind.LIE: 2},
}


def generate(seed: int, hours: float = 4.0) -> Script:
    """The script of a seed."""
    rng = Random(f"script/{seed}")
    heartbeat = rng.choice(TEMPI)
    devices = tuple(_device(rng, number, heartbeat) for number in range(rng.randint(3, 7)))
    jobs = tuple(_jobs(rng, hours * 3600, heartbeat, devices))
    return Script(
        seed=seed,
        hours=hours,
        heartbeat_s=heartbeat,
        policy=rng.choice(POLICIES),
        devices=devices,
        jobs=jobs,
        faults=tuple(_faults(rng, hours * 3600, heartbeat, devices, jobs)),
    )


def _device(rng: Random, number: int, heartbeat: float) -> DevicePlan:
    comes_and_goes = rng.random() < 0.5
    return DevicePlan(
        name=f"d{number}",
        size=rng.choice((2.0, 4.0, 8.0)) if number else 8.0,
        compute_s=rng.uniform(0.2, 5) * heartbeat,
        session=rng.uniform(30, 120) * heartbeat if comes_and_goes else 0.0,
        gap=rng.uniform(3, 30) * heartbeat if comes_and_goes else 0.0,
        crash=rng.choice((0.0, 0.3, 1.0)) if comes_and_goes else 0.0,
    )


def _jobs(rng: Random, seconds: float, heartbeat: float, devices: tuple[DevicePlan, ...]) -> Any:
    at, number = 0.0, 0
    while at < 0.8 * seconds and number < 6:
        size = rng.choice((0.0, 0.0, 4.0))
        demand = min(rng.randint(1, 3), sum(device.size >= size for device in devices))
        asynchronous = rng.random() < 0.3
        yield JobPlan(
            name=f"j{number}",
            at=at,
            rounds=rng.randint(2, 8),
            demand=demand,
            over_commit="0" if asynchronous else rng.choice(("0", "0", "0.5")),
            min_response=rng.choice(("1", "0.5", "0.8")),
            deadline_s=rng.uniform(12, 30) * heartbeat,
            lease_s=rng.uniform(12, 30) * heartbeat,
            buffer=rng.randint(1, demand) if asynchronous else None,
            repeat=rng.choice(("once", "once", "allow")),
            stragglers=rng.choice(("finish", "revoke")),
            pad=rng.choice((0, 0, 0, 100_000, 700_000)),
            size=size,
            fsync=rng.random() < 0.8,
        )
        number += 1
        at += rng.expovariate(1 / (0.3 * seconds))


def _faults(
    rng: Random, seconds: float, heartbeat: float, devices: tuple[DevicePlan, ...], jobs: tuple[JobPlan, ...]
) -> Any:
    at = rng.expovariate(1 / (FAULT_EVERY * heartbeat))
    while at < seconds:
        role = rng.choices(tuple(WEIGHTS), (3, 4, 4, 2))[0]
        names = {
            COORDINATOR: [COORDINATOR],
            "driver": [job.name for job in jobs if job.at <= at],
            "device": [device.name for device in devices],
            "stranger": ["stranger"],
        }[role]
        kind = rng.choices(tuple(WEIGHTS[role]), tuple(WEIGHTS[role].values()))[0]
        yield _fault(rng, round(at, 3), kind, rng.choice(names), heartbeat)
        at += rng.expovariate(1 / (FAULT_EVERY * heartbeat))


def _fault(rng: Random, at: float, kind: Kind, machine: str, heartbeat: float) -> Fault:
    lasts = round(rng.choice((0.5, 2.0, 8.0)) * heartbeat * rng.uniform(0.3, 1.5), 3)
    level = {
        Kind.KILL_IN_WRITE: float(rng.randint(0, 12)),
        Kind.FLAKY: rng.choice((0.05, 0.2, 0.5)),
        Kind.SLOW: rng.uniform(1, heartbeat),
        Kind.CLOCK_JUMP: rng.choice((-86400.0, -60.0, -1.0, 1.0, 60.0, 86400.0)),
    }.get(kind, 0.0)
    return Fault(at, kind, machine, 0.0 if kind is Kind.CLOCK_JUMP else lasts, round(level, 3))
