"""What a comparison consists of: runs, each of a workload under a policy with a seed, and what tells them apart."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from testbed.scenario import Scenario
from testbed.scenario.loader import as_words
from venn.wire.errors import UsageError


@dataclass(frozen=True, slots=True)
class Workload:
    """A scenario, as it is after every override."""

    path: Path
    scenario: Scenario
    digest: str  # of the scenario and the files that it names; what it says of policy and seed has no part in it

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self.scenario.name


@dataclass(frozen=True, slots=True)
class Asked:
    """One run of the comparison."""

    workload: Workload
    policy: str
    seed: int
    folder: Path  # for all policies with this seed

    def __str__(self) -> str:
        return f"{self.workload.name} under {self.policy}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A comparison to be made: which workloads, policies and seeds, into which folder, and how."""

    workloads: tuple[Workload, ...]
    policies: tuple[str, ...]
    seeds: int  # runs of each policy, from the scenario's own seed upwards
    out: Path
    overrides: tuple[str, ...] = ()  # as PATH=VALUE or --KEY=VALUE, made in every workload already
    processes: int = 1  # that simulate at once
    allow_degraded: bool = False  # live runs go on where a limit cannot be enforced
    over: tuple[str, ...] = ()  # the policies that the others are held against; empty: the first

    @property
    def simulated(self) -> bool:
        """Whether the runs are simulations."""
        return self.workloads[0].scenario.backend_spec.simulated

    @property
    def flags(self) -> list[str]:
        """The flags of each live run."""
        degraded = ["--allow-degraded"] if self.allow_degraded else []
        return [*as_words(self.overrides), *degraded]

    def runs(self) -> Iterator[Asked]:
        """The runs in the order in which they are made: policies take turns in going first."""
        for workload in self.workloads:
            for turn in range(self.seeds):
                first = turn % len(self.policies)
                seed = workload.scenario.seed + turn
                folder = self.out / workload.name / f"seed-{seed}"
                for policy in (*self.policies[first:], *self.policies[:first]):
                    yield Asked(workload, policy, seed, folder)


def workload(path: Path, scenario: Scenario) -> Workload:
    """Makes a workload of a scenario; reads every file that the scenario names."""
    plain = scenario.model_copy(update={"seed": 0, "policy": ""})
    files = {str(file): _digest(file.read_bytes()) for file in _files(plain) if file.is_file()}
    return Workload(path, scenario, _key(plain.dump(), files))


def world_key(workload: Workload, seed: int) -> str:
    """The digest of the devices and jobs of a seed, as this version makes them: 16 hex digits."""
    return _key(version("venn-testbed"), workload.digest, seed)


def cell_key(world: str, policy: str) -> str:
    """The digest of one cell: of its world, and of the policy with the text of its file, if it has one."""
    file = Path(policy.partition(".py:")[0] + ".py")
    return _key(world, policy, _digest(file.read_bytes()) if ".py:" in policy and file.is_file() else "")


def check_policies(names: Sequence[str], over: Sequence[str] = ()) -> None:
    """Check that each policy is there, is named once, and is compared if it is in ``over``. Raises UsageError."""
    from coordinator.policies.registry import PolicyError, load_policy

    if len(set(names)) != len(names) or not names:
        raise UsageError("POLICIES", "name each policy once", where="--policies", fix="e.g. --policies random,venn")
    for name in names:
        try:
            load_policy(name)
        except PolicyError as error:
            raise UsageError("NO_POLICY", str(error), where="--policies") from None
    for name in over:
        if name not in names:
            fix = f"name it in --policies as well, or one of {', '.join(names)}"
            raise UsageError("POLICIES", f"{name} is not among the policies compared", where="--over", fix=fix)
    if len(set(over)) != len(over):
        raise UsageError("POLICIES", "name each policy once", where="--over", fix="e.g. --over random,fifo")


def _files(value: object) -> Iterator[Path]:
    """Every path inside a value of the scenario's models."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _files(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _files(inner)
    elif hasattr(value, "model_fields_set") or hasattr(value, "__dataclass_fields__"):
        fields = getattr(type(value), "model_fields", None) or getattr(value, "__dataclass_fields__", {})
        for name in fields:
            yield from _files(getattr(value, name))


def _key(*parts: object) -> str:
    return _digest(json.dumps(parts, sort_keys=True).encode())[:16]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
