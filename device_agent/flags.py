"""The flags of `venn agent` and `venn swarm`, and what they mean."""

import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from device_agent.bounds import AgentBounds
from device_agent.confine.settings import (
    DISK_BYTES,
    FILES,
    LEAST_FILES,
    LEAST_PROCESSES,
    PROCESSES,
    Confinement,
    Wanted,
)
from device_agent.hosting import Run
from device_agent.machine import parse_allowed
from device_agent.spec import DeviceSpec
from device_agent.throttle import read_throttle
from venn.wire.bounds import set_bounds
from venn.wire.command import Context, GivenBounds
from venn.wire.errors import UsageError
from venn.wire.notation import format_bytes, parse_bytes, parse_duration, parse_fraction
from venn.wire.places import keys_folder, state_folder

Keys = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the coordinator's keys.")]
Data = Annotated[list[str] | None, typer.Option(metavar="NAME=PATH", help="Local data, by name; repeatable.")]
AllowCode = Annotated[
    list[str] | None, typer.Option(metavar="DIGEST|FILE|any", help="Job code that may run here; repeatable.")
]


TrustOwner = Annotated[
    list[str] | None, typer.Option(metavar="KEY", help="Whose signed job code may run here: id or file; repeatable.")
]


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags that `venn agent` and `venn swarm` share, as they were given."""

    keys: Keys = None
    data: Data = None
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Label; repeatable.")] = None
    session: Annotated[
        str | None, typer.Option(metavar="DIST", help="Length of a session, e.g. exp(8s); default: no end.")
    ] = None
    gap: Annotated[str | None, typer.Option(metavar="DIST", help="Time between two sessions, e.g. exp(4s).")] = None
    crash: Annotated[str, typer.Option(metavar="FRACTION", help="Part of the sessions that end without a goodbye.")] = (
        "0"
    )
    trace: Annotated[Path | None, typer.Option(metavar="CSV", help="File of sessions: device,start_s,end_s.")] = None
    epoch: Annotated[float | None, typer.Option(metavar="UNIX", help="Unix time of time 0; default: now.")] = None
    seed: Annotated[int, typer.Option(min=0, help="Seed of sessions and gaps.")] = 0
    tasks_per_session: Annotated[int, typer.Option(min=0, help="Most tasks in one session; 0: no limit.")] = 0
    tasks_per_day: Annotated[int, typer.Option(min=0, help="Most tasks in one day; 0: no limit.")] = 0
    allow_code: AllowCode = None
    trust_owner: TrustOwner = None
    dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Write receipts, sessions and load here.")] = None
    throttle: Annotated[Path | None, typer.Option(metavar="FILE", help="Limits of devices, from `venn run`.")] = None
    confine: Annotated[
        Wanted,
        typer.Option(help="Confine job code: refuse to start without, as far as possible, or not."),
    ] = Wanted.POSSIBLE
    task_memory: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Data of a task's process; default: half of this machine's.")
    ] = None
    task_disk: Annotated[str, typer.Option(metavar="BYTES", help="Size of a task's temporary folder.")] = format_bytes(
        DISK_BYTES
    )
    task_files: Annotated[int, typer.Option(min=LEAST_FILES, help="Files that a task may have open.")] = FILES
    task_processes: Annotated[
        int, typer.Option(min=LEAST_PROCESSES, help="Processes and threads that a task may have.")
    ] = PROCESSES
    task_reads: Annotated[
        list[Path] | None, typer.Option(metavar="PATH", help="What job code may also read; repeatable.")
    ] = None
    patience: Annotated[str, typer.Option(metavar="T", help="Time to reach the coordinator for the first time.")] = (
        "60s"
    )
    bound: GivenBounds = None

    def device(
        self, name: str, numbers: Mapping[str, float], labels: Mapping[str, tuple[str, ...]], data: Mapping[str, Path]
    ) -> DeviceSpec:
        """The description of a device that comes, goes and works as the flags say. Raises UsageError."""
        return DeviceSpec(
            device=name,
            seed=self.seed,
            numbers=numbers,
            labels={**labels, "data": tuple(data)} if data else labels,
            data=data,
            session=self.session,
            gap=self.gap,
            crash=float(parse_fraction(self.crash)),
            tasks_per_session=self.tasks_per_session,
            tasks_per_day=self.tasks_per_day,
        )

    def confinement(self) -> Confinement:
        """What job code may use. Raises UsageError."""
        for path in self.task_reads or ():
            if not path.exists():
                raise UsageError("NO_FILE", "there is no such file or folder", where=f"--task-reads {path}")
        return Confinement(
            wanted=self.confine,
            memory_bytes=0 if self.task_memory is None else parse_bytes(self.task_memory),
            disk_bytes=parse_bytes(self.task_disk),
            files=self.task_files,
            processes=self.task_processes,
            reads=tuple(path.absolute() for path in self.task_reads or ()),
            secrets=secrets_in(self.keys),
        )

    def run(self, specs: Sequence[DeviceSpec], context: Context, **own: Any) -> Run:
        """These devices, to be run as the flags say. ``own``: further fields of ``Run``. Raises UsageError."""
        return Run(
            specs=specs,
            coordinator=context.coordinator,
            keys=self.keys,
            insecure=context.insecure,
            allowed=parse_allowed(
                self.allow_code or (),
                self.trust_owner or (),
                coordinator=context.coordinator,
                insecure=context.insecure,
            ),
            folder=self.dir,
            epoch=time.time() if self.epoch is None else self.epoch,
            trace=self.trace,
            patience_s=parse_duration(self.patience),
            throttle=read_throttle(self.throttle),
            confinement=self.confinement(),
            bounds=set_bounds(AgentBounds(), self.bound),
            **own,
        )


def secrets_in(keys: Path | None) -> tuple[Path, ...]:
    """What no job code may read. ``keys``: the folder that the user names."""
    return ((keys or keys_folder()).absolute(), state_folder())


def with_flags(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command the shared flags; it receives them as its parameter ``flags``."""
    given, types = inspect.signature(function, eval_str=True), get_type_hints(Flags, include_extras=True)

    @functools.wraps(function)
    def run(context: Context, **settings: Any) -> int:
        return function(context, flags=Flags(**{name: settings.pop(name) for name in types}), **settings)

    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [parameter for name, parameter in given.parameters.items() if name != "flags"]
    shared = [
        inspect.Parameter(each.name, keyword, default=each.default, annotation=types[each.name])
        for each in fields(Flags)
    ]
    run.__signature__ = given.replace(parameters=own + shared)  # type: ignore[attr-defined]
    return run


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


def assign_data(data: Mapping[str, Path], count: int) -> list[dict[str, Path]]:
    """Each device's own data: a file is everybody's, of a folder's files (by name) each gets one. Raises UsageError."""
    assigned: list[dict[str, Path]] = [{} for _ in range(count)]
    for name, path in data.items():
        files = sorted(path.glob("share-*")) if path.is_dir() else [path] * count
        if len(files) < count:
            message = f"{len(files)} shares (share-*) are too few for {count} devices"
            raise UsageError("NO_DATA", message, where=str(path), fix=f"venn data split --devices {count}")
        for own, file in zip(assigned, files, strict=False):
            own[name] = file
    return assigned


def _pairs(values: Sequence[str] | None, flag: str, example: str) -> list[tuple[str, str]]:
    pairs = []
    for value in values or ():
        key, equals, rest = value.partition("=")
        if not (equals and key and rest):
            raise UsageError("USAGE", f"{value!r} is not NAME=VALUE", where=flag, fix=f"write e.g. {flag} {example}")
        pairs.append((key, rest))
    return pairs
