"""The Docker Engine: whether it is there with all that a run needs, what it can limit, and what is left in it."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import docker
from docker import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container as Made
from requests.exceptions import RequestException

from testbed.live.throttle import cgroup
from testbed.live.throttle.entrypoint import CPUS, MEM_LIMIT
from testbed.live.throttle.means import NETEM, RELAY, STALL, Check, Machine
from testbed.scenario.backends import Leftover, Need
from venn.wire.errors import CannotEnforceError, PeerError, VennError
from venn.wire.process import LABEL, MARK

IMAGE, CHOOSE_IMAGE = "venn-testbed", "VENN_IMAGE"  # the variable names one of one's own, with more packages
TIMEOUT_S = 60  # of one order: a busy engine takes its time
PROBE_S = 10.0
BUILD = "build it: make image; or make image-offline, where no image registry can be reached"


def connect(timeout_s: float = TIMEOUT_S) -> DockerClient:
    """Connect to the engine; the client must be closed. Raises CannotEnforceError ENGINE, with what to do."""
    try:
        return docker.from_env(timeout=int(timeout_s))
    except (DockerException, RequestException) as error:
        raise _unreachable(str(error)) from error


def _unreachable(said: str) -> CannotEnforceError:
    if "Permission denied" in said:
        message, fix = "this user may not use the Docker Engine", "join the group docker, or run as root"
    else:
        message, fix = "the Docker Engine does not answer", "start it (systemctl start docker), or set DOCKER_HOST"
    return CannotEnforceError("ENGINE", message, where="backend: compose", fix=fix)


@contextmanager
def obeyed(what: str) -> Iterator[None]:
    """Turn what the engine refuses, or does not answer in time, into one line. Raises PeerError ENGINE."""
    try:
        yield
    except (DockerException, RequestException) as error:
        said = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
        raise PeerError("ENGINE", f"{what}: {said}", where="Docker Engine") from error


def compose_program() -> tuple[str, ...]:
    """``docker compose`` where there is the plugin, else ``docker-compose``. Raises CannotEnforceError COMPOSE."""
    if shutil.which("docker") and _runs("docker", "compose", "version"):
        return ("docker", "compose")
    if shutil.which("docker-compose") and _runs("docker-compose", "version"):
        return ("docker-compose",)
    message = "there is neither `docker compose` nor `docker-compose`"
    fix = "install one (Debian: docker-compose; Docker's own packages: docker-compose-plugin)"
    raise CannotEnforceError("COMPOSE", message, where="backend: compose", fix=fix)


def _runs(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def image_name() -> str:
    return os.environ.get(CHOOSE_IMAGE) or IMAGE


def check_image(client: DockerClient) -> str:
    """Return the id of the image. Raises CannotEnforceError IMAGE: it is not there, and nothing is ever pulled."""
    image = image_name()
    try:
        return str(client.images.get(image).id)
    except ImageNotFound:
        message = f"there is no image {image}"
        raise CannotEnforceError("IMAGE", message, where="backend: compose", fix=BUILD) from None
    except APIError as error:
        message = f"the Docker Engine does not know the image {image}: {error.explanation}"
        fix = "name one that `docker images` lists"
        raise CannotEnforceError("IMAGE", message, where=CHOOSE_IMAGE, fix=fix) from error


def checks() -> Iterator[Need]:
    """The lines of `venn doctor` about containers."""
    try:
        client = connect(PROBE_S)
    except VennError as error:
        yield Need("engine", missing=_told(error))
        return
    try:
        version = client.version()
        cgroups = client.info().get("CgroupVersion", "1")
        yield Need("engine", found=f"Docker Engine {version['Version']}, cgroup v{cgroups}")
        yield _tried("image", lambda: f"{image_name()} {check_image(client)[7:19]}")
    except (DockerException, RequestException) as error:
        yield Need("engine", missing=str(error) or type(error).__name__)
    finally:
        client.close()
    yield _tried("program", lambda: " ".join(compose_program()))


def _tried(name: str, find: Callable[[], str]) -> Need:
    try:
        return Need(name, found=find())
    except VennError as error:
        return Need(name, missing=_told(error))


def _told(error: VennError) -> str:
    return f"{error.message}; {error.fix}"


PATIENCE_S = 20.0  # for one order


def find_made() -> Iterator[Leftover]:
    """Find what testbeds left in the engine, containers before their networks. Nothing if no engine answers."""
    try:
        client = connect(PATIENCE_S)
    except CannotEnforceError:
        return
    filters: dict[str, str | list[str] | bool] = {"label": LABEL}
    with obeyed("what it has was not found"):
        made: dict[str, list[Any]] = {
            "container": client.containers.list(all=True, filters=filters, ignore_removed=True),
            "network": client.networks.list(filters=filters),
            "volume": client.volumes.list(filters=filters),
        }
    for kind, each in ((kind, each) for kind, several in made.items() for each in several):
        labels = each.labels if kind == "container" else each.attrs["Labels"]
        if MARK.fullmatch(mark := labels[LABEL]):
            yield Leftover(kind, str(each.name), mark, partial(_remove, each, container=kind == "container"))


def _remove(made: Any, *, container: bool) -> None:
    """Remove a container, a network or a volume. Raises OSError."""
    try:
        with obeyed("it refused"), suppress(NotFound):
            if container and made.status == "paused":  # the engine kills no paused container
                made.unpause()
            made.remove(**({"force": True, "v": True} if container else {}))
    except VennError as error:
        raise OSError(error.message) from error


def machine_of(client: DockerClient) -> Machine:
    """The machine that the engine runs on. Raises CannotEnforceError: it does not answer."""
    with obeyed("it does not say what it can do"):
        info = client.info()
    checks = (
        Check("cpu", CPUS, bool(info.get("CpuCfsQuota")), "the kernel of the engine has no processor quota"),
        Check("memory", MEM_LIMIT, bool(info.get("MemoryLimit")), "the kernel of the engine limits no memory"),
        # By which means its link is shaped only a container can find out: its entrypoint says so.
        *(Check(field, means, True, "") for field, means in (("rate", RELAY), ("delay", NETEM), ("loss", NETEM))),
    )
    return Machine(int(info["NCPU"]), int(info["MemTotal"]), cgroup.NONE, checks)


def cores_of(made: Made) -> float | None:
    """The cores that the engine allows a container; None: all."""
    nano = made.attrs["HostConfig"].get("NanoCpus") or 0
    return nano / 1e9 if nano else None


def memory_of(made: Made) -> int | None:
    return made.attrs["HostConfig"].get("Memory") or None


def is_held(text: str) -> bool:
    """Whether an entrypoint says that all of a link is in force; a relay says so itself."""
    try:
        rows = json.loads(text)["limits"]
        return all(row["read_back"] is not None for row in rows if row["means"] in (RELAY, STALL))
    except (ValueError, KeyError, TypeError):
        return False
