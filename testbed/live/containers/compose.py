"""The Compose file of a run, and what goes into each container and comes back.

No folder of this machine is mounted: a container sees its own files alone, and the engine may be on another machine.
The file holds to what docker-compose 1.29 and Compose v2 both take: no top-level name, limits by ``cpus`` and
``mem_limit``. How many containers a service has stands on the command line (``scale``).
"""

import io
import json
import secrets
import shlex
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

import yaml

from coordinator.policies.registry import in_file, split
from device_agent.spec import DeviceSpec
from job_driver.bundle import pack
from testbed.live.backend import broker, commands
from testbed.live.backend.prepare import Prepared, changes_of
from testbed.live.throttle.container import USER
from testbed.live.throttle.entrypoint import ALLOW_DEGRADED, CHANGED, CHANGES, variable
from testbed.live.throttle.means import FleetPlan
from testbed.runfolder.paths import RunFolder
from testbed.scenario.model import Scenario
from testbed.world.limits import LINK, Limits
from venn.wire.chunks import digest_of
from venn.wire.errors import PeerError
from venn.wire.files import writing
from venn.wire.keys import ROLES, Key, Role, ensure_keys, key_file
from venn.wire.process import LABEL
from venn.wire.requirements import Whom
from venn.wire.text import printable

INSIDE = "/venn"  # where a container has its part of the run folder
PORT = 9700  # of the coordinator
DRIVER_PORT = 9701  # of every driver
COORDINATOR = "coordinator"
STOP_GRACE = "10s"
HEAD = """\
# The containers of one run, as `venn run` made them; what of them is left goes with `venn down`.
# {command}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service of the Compose file: containers of one kind."""

    command: Sequence[str]
    count: int = 1
    cores: float | None = None
    memory_bytes: int | None = None
    port: int | None = None  # of this machine, on its loopback, that leads to PORT
    link: bool = False  # its entrypoint shapes its link
    environment: Mapping[str, str] = field(default_factory=dict)  # by which the entrypoint is told the limits

    def to_yaml(self, image: str, mark: str) -> dict[str, object]:
        limits: dict[str, object] = {}
        if self.cores is not None:
            limits["cpus"] = self.cores
        if self.memory_bytes is not None:
            limits |= {"mem_limit": self.memory_bytes, "memswap_limit": self.memory_bytes}
        rights = {"user": "root", "cap_add": ["NET_ADMIN"]} if self.link else {"cap_drop": ["ALL"]}
        environment = {"environment": dict(self.environment)} if self.environment else {}
        ports = {"ports": [f"127.0.0.1:{self.port}:{PORT}"]} if self.port is not None else {}
        return {
            "image": image,
            "command": shlex.join(self.command).replace("$", "$$"),  # compose would fill in its own variables
            "working_dir": INSIDE,
            "init": True,
            "stop_grace_period": STOP_GRACE,
            **limits,
            **rights,
            "security_opt": ["no-new-privileges:true"],
            **environment,
            **ports,
            "labels": {LABEL: mark},
        }


def driver_service(job: str) -> str:
    return f"job-{job}"


def fleet_service(fleet: str) -> str:
    return f"fleet-{fleet}"


def limit_variables(limits: Limits) -> dict[str, str]:
    """The environment by which a device's entrypoint knows its limits; see ``testbed.live.throttle.entrypoint``."""
    return {variable(key): text for key, text, _ in FleetPlan("", 1, limits).asked()}


def changed_variables(limits: Limits) -> dict[str, str]:
    """The same for a link that has changed, where an empty variable ends a limit."""
    return {variable(key): "" for key in LINK} | limit_variables(limits)


def scale_flags(services: Mapping[str, Service]) -> list[str]:
    return [word for name, each in services.items() if each.count > 1 for word in ("--scale", f"{name}={each.count}")]


def write_project(services: Mapping[str, Service], image: str, mark: str, command: Sequence[str]) -> str:
    """The text of the Compose file; ``command`` makes its containers."""
    document = {
        "services": {name: service.to_yaml(image, mark) for name, service in services.items()},
        "networks": {"default": {"labels": {LABEL: mark}}},
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return HEAD.format(command=" ".join(command)) + text


SHARED = (PurePosixPath("/tmp"), PurePosixPath("/var/tmp"))  # folders of everybody, in any image
SECRET, OPEN, FOLDER = 0o600, 0o644, 0o755
KEYS, DATA, CODE, POPULATION, SETTINGS = "keys", "data", "code", "population.jsonl", "venn.toml"
OURS = frozenset((KEYS, DATA, CODE, POPULATION, SETTINGS, CHANGED))  # what was put in, and does not come back

Files = Mapping[str, bytes]  # absolute path in the container -> content


def packed(files: Files) -> bytes:
    """A tar of the files, with the folders that they lie in; nobody but the user reads keys."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as tar:
        for folder in sorted({parent for path in files for parent in PurePosixPath(path).parents[:-1]}):
            entry = _entry(str(folder), 0o1777 if folder in SHARED else 0o700 if folder.name == KEYS else FOLDER)
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
        for path, content in files.items():
            entry = _entry(path, SECRET if path.startswith(f"{INSIDE}/{KEYS}/") else OPEN)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return text.getvalue()


def _entry(path: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.mode, entry.uid, entry.gid = mode, USER, USER
    return entry


def unpack(archive: Iterable[bytes], root: Path) -> None:
    """Write the files of ``INSIDE`` below ``root``, from the tar of an engine, but for those that were put in.

    Raises PeerError OUT_OF_SPACE, and ARCHIVE for what is no tar or cannot be written: a container says what is in it.
    """
    try:
        with tarfile.open(fileobj=cast(BinaryIO, _Stream(iter(archive))), mode="r|") as tar:
            for entry in tar:
                parts = PurePosixPath(entry.name).parts[1:]  # the first is that of INSIDE
                if entry.isfile() and not entry.issparse() and parts and ".." not in parts and parts[0] not in OURS:
                    _extract(tar, entry, root.joinpath(*parts))
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        message = f"what a container wrote cannot be taken out of it: {printable(str(error), 120)}"
        raise PeerError("ARCHIVE", message, where=str(root)) from error


def _extract(tar: tarfile.TarFile, entry: tarfile.TarInfo, target: Path) -> None:
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        content = tar.extractfile(entry)
        assert content is not None
        with target.open("wb") as file:
            while piece := content.read(2**20):
                file.write(piece)


class _Stream(io.RawIOBase):
    """A file that is read from pieces of bytes."""

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
        """The services by name. ``port`` of this machine leads to the coordinator."""
        listen = commands.coordinator(self.scenario, HERE, validate=validate, listen=f"{EVERYWHERE}:{PORT}")
        services = {COORDINATOR: Service(command=[*listen, "--insecure"], port=port)}
        for job in self.scenario.jobs:
            services[driver_service(job)] = Service(command=self._driver(job))
        if broker.is_broken(self.scenario):
            everywhere = ["--listen", f"{EVERYWHERE}:{broker.PORT}", "--insecure"]
            services[broker.NAME] = Service(command=["broker", str(HERE.keys / broker.NAME), *everywhere])
        for name, fleet in self.scenario.fleets.items():
            modelled, limits = [] if fleet.cores else ["--model-time"], fleet.limits
            changes = list(dict.fromkeys(changes_of(self.scenario, name)))
            environment = limit_variables(limits)
            if environment or changes:
                environment["VENN_LIMITS"] = INSIDE
                environment |= {CHANGES: json.dumps([limit_variables(each) for each in changes])} if changes else {}
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
        """The service of each part, and the part's number in it."""
        places = {str(Whom.COORDINATOR): (COORDINATOR, 1)}
        places |= {broker.NAME: (broker.NAME, 1)} if broker.is_broken(self.scenario) else {}
        places |= {driver(job): (driver_service(job), 1) for job in self.scenario.jobs}
        for fleet in self.scenario.fleets:
            own = [device.device for device in self.prepared.devices if device.fleet == fleet]
            places |= {device: (fleet_service(fleet), number) for number, device in enumerate(own, start=1)}
        return places

    def files(self, part: str) -> Files:
        """The files that a part is given before it starts."""
        word, _, job = part.partition(" ")
        match word:
            case Whom.COORDINATOR:
                return {name: text for role in ROLES for name, text in self._key(role).items()} | self._policy()
            case Whom.BROKER:
                return {str(HERE.keys / broker.NAME): secrets.token_hex(32).encode()}
            case Whom.DRIVER:
                files = {str(self._code(job)): Path(str(self.scenario.jobs[job].file))}
                if (held_out := self._held_out(job)) is not None:
                    files[str(self._seen(held_out))] = held_out
                return self._key("job") | {inside: path.read_bytes() for inside, path in files.items()}
            case _:  # the id of a device
                device = self.devices[part]
                shares = {str(self._seen(share)): share.read_bytes() for share in device.data.values()}
                return self._key("device") | shares | self._population(device)

    @cached_property
    def devices(self) -> Mapping[str, DeviceSpec]:
        return {device.device: device for device in self.prepared.devices}

    @cached_property
    def _agent(self) -> list[str]:
        """The flags that all devices have."""
        hashes = sorted({digest_of(pack(Path(str(job.file)))).hex() for job in self.scenario.jobs.values()})
        allowed = [word for each in hashes for word in ("--allow-code", each)]
        where = ["--coordinator", ADDRESS, "--keys", str(HERE.keys), "--dir", INSIDE]
        return [*where, *commands.confinement(self.scenario), *allowed, "--crash-kills", "--insecure"]

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

    def _key(self, role: Role) -> dict[str, bytes]:
        key: Key = getattr(ensure_keys(self.folder.keys), role)
        return {str(key_file(role, HERE.keys)): key.pem()}

    def _policy(self) -> dict[str, bytes]:
        """The file of a policy that is not installed, at the same path, which its name holds."""
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
