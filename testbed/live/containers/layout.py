"""Which containers a scenario comes to, with which commands, and what each of them is given to start with."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from coordinator.policies.registry import in_file, split
from job_driver.bundle import pack
from testbed.live import broker, commands
from testbed.live.containers.luggage import CODE, POPULATION, Luggage
from testbed.live.containers.project import (
    COORDINATOR,
    DRIVER_PORT,
    INSIDE,
    PORT,
    Service,
    driver_service,
    fleet_service,
    told,
)
from testbed.live.folder import RunFolder
from testbed.live.prepare import Prepared
from testbed.population.device import DeviceSpec
from testbed.scenario.model import Scenario
from testbed.shape.changes import changes_of
from testbed.shape.entrypoint import ALLOW_DEGRADED, CHANGES
from venn.wire.digest import digest_of
from venn.wire.notation import Whom
from venn.wire.tokens import ROLES, Role, ensure_tokens

EVERYWHERE = "0.0.0.0"
HERE = RunFolder(Path(INSIDE))  # the run folder as a container sees it
ADDRESS = f"{COORDINATOR}:{PORT}"


@dataclass(frozen=True)
class Layout:
    """Of one run. Parts go by the names that they have in a timeline: ``coordinator``, ``driver JOB``, a device's."""

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

    def luggage(self, part: str) -> Luggage:
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
            case _:
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
