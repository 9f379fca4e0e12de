"""The Docker Engine: whether it is there, with what a run needs of it. One line each for people."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import docker
from docker import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound
from requests.exceptions import RequestException

from venn.wire.errors import CannotEnforceError

IMAGE = "venn-testbed"
TIMEOUT_S = 60  # of one order: a busy engine takes its time
BUILD = "build it: make image; or make image-offline, where no image registry can be reached"


def connect(timeout_s: float = TIMEOUT_S) -> DockerClient:
    """To be closed. Raises CannotEnforceError ENGINE, with what to do."""
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
    """What the engine refuses, or does not answer to in time, becomes one line. Raises CannotEnforceError ENGINE."""
    try:
        yield
    except (DockerException, RequestException) as error:
        said = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
        raise CannotEnforceError("ENGINE", f"{what}: {said}", where="Docker Engine") from error


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


def check_image(client: DockerClient, image: str = IMAGE) -> str:
    """Its id. Raises CannotEnforceError IMAGE: nothing is ever pulled."""
    try:
        return str(client.images.get(image).id)
    except ImageNotFound:
        message = f"there is no image {image}"
        raise CannotEnforceError("IMAGE", message, where="backend: compose", fix=BUILD) from None
