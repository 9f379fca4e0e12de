"""The flags of `venn agent` and `venn swarm`, and what they mean."""

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from device_agent.spec import DeviceSpec
from venn.wire.errors import UsageError
from venn.wire.notation import parse_distribution, parse_fraction

Tokens = Annotated[Path | None, typer.Option(metavar="DIR", help="Coordinator's token folder.")]
Data = Annotated[list[str] | None, typer.Option(metavar="NAME=PATH", help="Local data, by name; repeatable.")]
Label = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Label; repeatable.")]
Session = Annotated[
    str | None, typer.Option(metavar="DIST", help="Length of a session, e.g. exp(8s); default: no end.")
]
Gap = Annotated[str | None, typer.Option(metavar="DIST", help="Time between two sessions, e.g. exp(4s).")]
Crash = Annotated[str, typer.Option(metavar="FRACTION", help="Part of the sessions that end without a goodbye.")]
Trace = Annotated[Path | None, typer.Option(metavar="CSV", help="File of sessions: device,start_s,end_s.")]
Epoch = Annotated[float | None, typer.Option(metavar="UNIX", help="Unix time of time 0; default: now.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of sessions and gaps.")]
PerSession = Annotated[int, typer.Option(min=0, help="Most tasks in one session; 0: no limit.")]
PerDay = Annotated[int, typer.Option(min=0, help="Most tasks in one day; 0: no limit.")]
AllowCode = Annotated[
    list[str] | None, typer.Option(metavar="DIGEST|FILE|any", help="Job code that may run here; repeatable.")
]
Folder = Annotated[Path | None, typer.Option("--dir", metavar="DIR", help="Write receipts, sessions and load here.")]
Throttled = Annotated[
    Path | None, typer.Option("--throttle", metavar="FILE", help="Limits of devices, from `venn run`.")
]
Patience = Annotated[str, typer.Option(metavar="T", help="Time to reach the coordinator for the first time.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow unencrypted connections beyond loopback.")]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """When a device comes and goes, and how much it does; as the flags say it."""

    session: str | None
    gap: str | None
    crash: str
    seed: int
    tasks_per_session: int
    tasks_per_day: int

    def device(
        self,
        name: str,
        numbers: Mapping[str, float],
        labels: Mapping[str, tuple[str, ...]],
        data: Mapping[str, Path],
    ) -> DeviceSpec:
        """The description of a device with this behaviour. Raises UsageError."""
        return DeviceSpec(
            device=name,
            seed=self.seed,
            numbers=numbers,
            labels={**labels, "data": tuple(data)} if data else labels,
            data=data,
            session=self._checked(self.session),
            gap=self._checked(self.gap),
            crash=float(parse_fraction(self.crash)),
            tasks_per_session=self.tasks_per_session,
            tasks_per_day=self.tasks_per_day,
        )

    def _checked(self, distribution: str | None) -> str | None:
        if distribution is not None:
            parse_distribution(distribution)
        return distribution


def parse_labels(values: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Read labels such as ``site=lab``; the same key again adds a value. Raises UsageError."""
    labels: dict[str, tuple[str, ...]] = {}
    for key, value in _pairs(values, "--label", "site=lab"):
        labels[key] = (*labels.get(key, ()), value)
    return labels


def parse_data(values: Sequence[str] | None) -> dict[str, Path]:
    """Read data such as ``digits=share.npz``, and check that the paths exist. Raises UsageError."""
    data = {key: Path(value).expanduser().absolute() for key, value in _pairs(values, "--data", "digits=share.npz")}
    for path in data.values():
        if not path.exists():
            raise UsageError("NO_DATA", "there is no such file", where=f"--data {path}", fix="see `venn data split`")
    return data


def deal(data: Mapping[str, Path], count: int) -> list[dict[str, Path]]:
    """Each device's own data: a file is everybody's, of a folder's files (by name) each gets one. Raises UsageError."""
    dealt: list[dict[str, Path]] = [{} for _ in range(count)]
    for name, path in data.items():
        files = sorted(path.glob("share-*")) if path.is_dir() else [path] * count
        if len(files) < count:
            message = f"{len(files)} shares (share-*) are too few for {count} devices"
            raise UsageError("NO_DATA", message, where=str(path), fix=f"venn data split --devices {count}")
        for own, file in zip(dealt, files, strict=False):
            own[name] = file
    return dealt


def drawn(seed: int, device: str, name: str, distribution: Callable[[np.random.Generator], float]) -> float:
    """A drawn capability of an emulated device, a function of (seed, device, name) alone."""
    digest = hashlib.sha256(f"{seed}/{device}/{name}".encode()).digest()
    return distribution(np.random.default_rng(int.from_bytes(digest[:16], "little")))


def state_folder() -> Path:
    """The folder of what is kept between runs: ``$XDG_STATE_HOME/venn``, else ``~/.local/state/venn``."""
    named = os.environ.get("XDG_STATE_HOME")
    return (Path(named) if named else Path.home() / ".local" / "state") / "venn"


def epoch_or_now(epoch: float | None) -> float:
    return time.time() if epoch is None else epoch


def _pairs(values: Sequence[str] | None, flag: str, example: str) -> list[tuple[str, str]]:
    pairs = []
    for value in values or ():
        key, equals, rest = value.partition("=")
        if not (equals and key and rest):
            raise UsageError("USAGE", f"{value!r} is not NAME=VALUE", where=flag, fix=f"write e.g. {flag} {example}")
        pairs.append((key, rest))
    return pairs
