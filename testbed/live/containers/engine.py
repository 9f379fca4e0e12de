"""The Docker Engine: whether it is there, with what a run needs of it. One line each for people."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import docker
from docker import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound
from requests.exceptions import RequestException

from venn.wire.errors import CannotEnforceError, PeerError, VennError

IMAGE, CHOOSE_IMAGE = "venn-testbed", "VENN_IMAGE"  # the variable names one of one's own, with more packages
TIMEOUT_S = 60  # of one order: a busy engine takes its time
PROBE_S = 10.0
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
    """What the engine refuses, or does not answer to in time, becomes one line. Raises PeerError ENGINE."""
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
    """Its id. Raises CannotEnforceError IMAGE: nothing is ever pulled."""
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


def checks() -> Iterator[tuple[str, str, str]]:
    """For `venn doctor`: what containers need, what is there of it, and else what is wrong and how to fix it."""
    try:
        client = connect(PROBE_S)
    except VennError as error:
        yield "engine", "", _told(error)
        return
    try:
        version = client.version()
        yield "engine", f"Docker Engine {version['Version']}, cgroup v{client.info().get('CgroupVersion', '1')}", ""
        yield "image", *_tried(lambda: f"{image_name()} {check_image(client)[7:19]}")
    except (DockerException, RequestException) as error:
        yield "engine", "", str(error)
    finally:
        client.close()
    yield "program", *_tried(lambda: " ".join(compose_program()))


def _tried(find: Callable[[], str]) -> tuple[str, str]:
    try:
        return find(), ""
    except VennError as error:
        return "", _told(error)


def _told(error: VennError) -> str:
    return f"{error.message}; {error.fix}"
