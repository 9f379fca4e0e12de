"""The containers of a scenario: their commands, and the files that each is given.

What goes into a container before it starts, and what comes back: a part of the run folder, at ``INSIDE``.

No folder of this machine is mounted: a container sees its own files alone, and the engine may be on another machine.

Which containers a scenario comes to, with which commands, and what each of them is given to start with.
"""

import io
import json
import secrets
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from coordinator.policies.registry import in_file, split
from device_agent.spec import DeviceSpec
from job_driver.bundle import pack
from testbed.live import broker, commands
from testbed.live.containers.compose import (
    COORDINATOR,
    DRIVER_PORT,
    INSIDE,
    PORT,
    Service,
    driver_service,
    fleet_service,
    told,
)
from testbed.live.prepare import Prepared
from testbed.live.throttle.container_user import USER
from testbed.live.throttle.entrypoint import ALLOW_DEGRADED, CHANGED, CHANGES
from testbed.live.throttle.plan import changes_of
from testbed.runfolder.paths import RunFolder
from testbed.scenario.model import Scenario
from venn.wire.admission import ROLES, Role, ensure_tokens
from venn.wire.chunks import digest_of
from venn.wire.files import writing
from venn.wire.requirements import Whom

SHARED = (PurePosixPath("/tmp"), PurePosixPath("/var/tmp"))  # folders of everybody, in any image
SECRET, OPEN, FOLDER = 0o600, 0o644, 0o755
TOKENS, DATA, CODE, POPULATION, SETTINGS = "tokens", "data", "code", "population.jsonl", "venn.toml"
OURS = frozenset((TOKENS, DATA, CODE, POPULATION, SETTINGS, CHANGED))  # what was put in, and does not come back

Files = Mapping[str, bytes]  # absolute path in the container -> content


def packed(luggage: Files) -> bytes:
    """A tar of the files, with the folders that they lie in; nobody but the user reads tokens."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as tar:
        for folder in sorted({parent for path in luggage for parent in PurePosixPath(path).parents[:-1]}):
            entry = _entry(str(folder), 0o1777 if folder in SHARED else FOLDER)
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
        for path, content in luggage.items():
            entry = _entry(path, SECRET if path.startswith(f"{INSIDE}/{TOKENS}/") else OPEN)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return text.getvalue()


def _entry(path: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.mode, entry.uid, entry.gid = mode, USER, USER
    return entry


def unpack(archive: Iterable[bytes], root: Path) -> None:
    """Writes the files of ``INSIDE`` below ``root``, as the engine hands it out; not those that were put in.

    Raises PeerError OUT_OF_SPACE.
    """
    with tarfile.open(fileobj=cast(BinaryIO, _Stream(iter(archive))), mode="r|") as tar:
        for entry in tar:
            parts = PurePosixPath(entry.name).parts[1:]  # the first is that of INSIDE
            if not entry.isfile() or not parts or ".." in parts or parts[0] in OURS:
                continue
            target = root.joinpath(*parts)
            with writing(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(entry)
                assert content is not None
                with target.open("wb") as file:
                    while piece := content.read(2**20):
                        file.write(piece)


class _Stream(io.RawIOBase):
    """Pieces of bytes as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest += piece
        cut = len(self._rest) if size < 0 else size
        head, self._rest = self._rest[:cut], self._rest[cut:]
        return head


EVERYWHERE = "0.0.0.0"
HERE = RunFolder(Path(INSIDE))  # the run folder as a container sees it
ADDRESS = f"{COORDINATOR}:{PORT}"


@dataclass(frozen=True)
class Layout:
    """The containers of one run, by their names in a timeline: ``coordinator``, ``driver JOB``, a device's."""

    scenario: Scenario
    folder: RunFolder
    prepared: Prepared
    allow_degraded: bool

    def services(self, *, port: int, validate: bool) -> dict[str, Service]:
        """``port``: of this machine, that leads to the coordinator."""
        listen = commands.coordinator(self.scenario, HERE, validate=validate, listen=f"{EVERYWHERE}:{PORT}")
        services = {COORDINATOR: Service(command=[*listen, "--insecure"], port=port)}
        for job in self.scenario.jobs:
            services[driver_service(job)] = Service(command=self._driver(job))
        if broker.is_broken(self.scenario):
            everywhere = ["--listen", f"{EVERYWHERE}:{broker.PORT}", "--insecure"]
            services[broker.NAME] = Service(command=["broker", str(HERE.tokens / broker.NAME), *everywhere])
        for name, fleet in self.scenario.fleets.items():
            modelled, limits = [] if fleet.cores else ["--model-time"], fleet.limits
            changes = list(dict.fromkeys(changes_of(self.scenario, name)))
            environment = told(limits)
            if environment or changes:
                environment["VENN_LIMITS"] = INSIDE
                environment |= {CHANGES: json.dumps([told(each) for each in changes])} if changes else {}
                environment |= {ALLOW_DEGRADED: "true"} if self.allow_degraded else {}
            services[fleet_service(name)] = Service(
                command=["agent", *self._agent, *modelled],
                count=fleet.count,
                cores=fleet.cores,
                memory_bytes=fleet.memory_limit,
                link=limits.link or bool(changes),
                environment=environment,
            )
        return services

    def places(self) -> dict[str, tuple[str, int]]:
        """Each part's service, and its number there."""
        places = {str(Whom.COORDINATOR): (COORDINATOR, 1)}
        places |= {broker.NAME: (broker.NAME, 1)} if broker.is_broken(self.scenario) else {}
        places |= {driver(job): (driver_service(job), 1) for job in self.scenario.jobs}
        for fleet in self.scenario.fleets:
            own = [device.device for device in self.prepared.devices if device.fleet == fleet]
            places |= {device: (fleet_service(fleet), number) for number, device in enumerate(own, start=1)}
        return places

    def luggage(self, part: str) -> Files:
        """What a part is given before it starts."""
        word, _, job = part.partition(" ")
        match word:
            case Whom.COORDINATOR:
                return {name: text for role in ROLES for name, text in self._token(role).items()} | self._policy()
            case Whom.BROKER:
                return {str(HERE.tokens / broker.NAME): secrets.token_hex(32).encode()}
            case Whom.DRIVER:
                files = {str(self._code(job)): Path(str(self.scenario.jobs[job].file))}
                if (held_out := self._held_out(job)) is not None:
                    files[str(self._seen(held_out))] = held_out
                return self._token("job") | {inside: path.read_bytes() for inside, path in files.items()}
            case _:  # the id of a device
                device = self.devices[part]
                shares = {str(self._seen(share)): share.read_bytes() for share in device.data.values()}
                return self._token("device") | shares | self._population(device)

    @cached_property
    def devices(self) -> Mapping[str, DeviceSpec]:
        return {device.device: device for device in self.prepared.devices}

    @cached_property
    def _agent(self) -> list[str]:
        """The flags that all devices have."""
        hashes = sorted({digest_of(pack(Path(str(job.file)))).hex() for job in self.scenario.jobs.values()})
        allowed = [word for each in hashes for word in ("--allow-code", each)]
        where = ["--coordinator", ADDRESS, "--tokens", str(HERE.tokens), "--dir", INSIDE]
        return [*where, *allowed, "--crash-kills", "--insecure"]

    def _driver(self, job: str) -> list[str]:
        moved = self.scenario.jobs[job].model_copy(update={"file": self._code(job)})
        held_out = self._held_out(job)
        command = commands.job(
            job,
            self.scenario.model_copy(update={"jobs": {**self.scenario.jobs, job: moved}}),
            HERE,
            to=ADDRESS,
            run=self.folder.root.name,
            held_out=None if held_out is None else self._seen(held_out),
            epoch=None,
        )
        bind = ["--bind", f"{EVERYWHERE}:{DRIVER_PORT}", "--advertise", f"{driver_service(job)}:{DRIVER_PORT}"]
        return [*command, *bind, "--insecure"]

    def _code(self, job: str) -> Path:
        return HERE.root / CODE / job / Path(str(self.scenario.jobs[job].file)).name

    def _held_out(self, job: str) -> Path | None:
        return self.prepared.held_out.get(self.scenario.jobs[job].data or "")

    def _token(self, role: Role) -> dict[str, bytes]:
        return {str(HERE.tokens / role): getattr(ensure_tokens(self.folder.tokens), role).encode()}

    def _policy(self) -> dict[str, bytes]:
        """A policy of one's own, at the same place: its name holds its path."""
        file, _ = in_file(split(self.scenario.policy)[0])
        return {} if file is None else {str(file): file.read_bytes()}

    def _population(self, device: DeviceSpec) -> dict[str, bytes]:
        moved = replace(device, data={name: self._seen(share) for name, share in device.data.items()})
        return {f"{INSIDE}/{POPULATION}": json.dumps(moved.to_json()).encode() + b"\n"}

    def _seen(self, path: Path) -> Path:
        """A file of the run folder, as a container sees it."""
        return HERE.root / path.relative_to(self.folder.root)


def driver(job: str) -> str:
    """What a timeline calls the driver of a job."""
    return f"{Whom.DRIVER} {job}"
