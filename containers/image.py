"""Builds the image ``venn-testbed``: ``make image``, or ``make image-offline`` where no image registry is reachable.

Offline, the base is a Debian with Python that debootstrap makes from Debian's mirrors, once; it is kept as the image
``venn-base``. What pip needs on this host (index, proxy, certificates, local wheels) is handed to the build.
"""

import argparse
import ast
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

IMAGE, OFFLINE_BASE = "venn-testbed", "venn-base"
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv", "iproute2", "mosquitto", "util-linux")
ROOT = Path(__file__).resolve().parent.parent
HANDED = ROOT / "containers" / "handed"  # to the build; made anew each time, and removed
PIP_SETTINGS = ("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "proxy", "timeout")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
CANNOT, FAILED = 3, 4  # exit codes, as those of venn


class BuildError(Exception):
    """One line for the user, and the exit code."""

    def __init__(self, message: str, code: int = CANNOT) -> None:
        super().__init__(message)
        self.code = code


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="image.py", description="Build the image venn-testbed.")
    parser.add_argument("--offline", action="store_true", help=f"make the base {OFFLINE_BASE} with debootstrap")
    parser.add_argument("--base", help="of the image; default: as the Dockerfile says")
    parser.add_argument("--tag", default=IMAGE, help="of the image")
    asked = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        check_engine()
        base = asked.base or (OFFLINE_BASE if asked.offline else None)
        if base == OFFLINE_BASE and not image_exists(OFFLINE_BASE):
            make_base()
        build(asked.tag, base)
    except BuildError as error:
        say(str(error))
        return error.code
    except KeyboardInterrupt:
        return 130
    return 0


def check_engine() -> None:
    """Raises BuildError: it is not there, not running, or not ours to use."""
    try:
        done = subprocess.run(["docker", "version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError("docker is not installed; on Debian: apt install docker.io docker-compose") from None
    if done.returncode == 0:
        return
    if "permission denied" in done.stderr.lower():
        raise BuildError("you may not use the Docker Engine; join the group docker, or run this as root")
    raise BuildError("the Docker Engine does not answer; start it: systemctl start docker, or service docker start")


def image_exists(name: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False).returncode == 0


def make_base() -> None:
    """From Debian's mirrors; raises BuildError, and nothing is left then."""
    if os.geteuid() != 0:
        raise BuildError("debootstrap must be run by root: sudo make image-offline")
    if shutil.which("debootstrap") is None:
        install_debootstrap()
    say(f"making {OFFLINE_BASE} with debootstrap (a minute or two) ...")
    with tempfile.TemporaryDirectory(prefix="venn-base-", dir="/var/tmp") as folder:
        tree, log = Path(folder) / "tree", Path(folder) / "log"
        mirror = [os.environ["DEBIAN_MIRROR"]] if os.environ.get("DEBIAN_MIRROR") else []
        # In a mount namespace of its own, so that its mounts go when it goes.
        command = ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
        with log.open("wb") as out:
            done = subprocess.run([*command, SUITE, str(tree), *mirror], stdout=out, stderr=out, check=False)
        if done.returncode != 0:
            raise BuildError(f"debootstrap failed: {last_line(log.read_text(errors='replace'))}", FAILED)
        for leftover in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(tree / leftover, ignore_errors=True)
            (tree / leftover / "partial").mkdir(parents=True)
        packed = subprocess.Popen(["tar", "--directory", str(tree), "--create", "."], stdout=subprocess.PIPE)
        done = subprocess.run(
            ["docker", "import", "-", OFFLINE_BASE], stdin=packed.stdout, capture_output=True, check=False
        )
        assert packed.stdout is not None
        packed.stdout.close()
        if packed.wait() != 0 or done.returncode != 0:
            raise BuildError(f"docker import failed: {last_line(done.stderr.decode(errors='replace'))}", FAILED)


def install_debootstrap() -> None:
    if shutil.which("apt-get") is None:
        raise BuildError("debootstrap is not installed; install it with this system's package manager")
    say("installing debootstrap ...")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    packages = ["debootstrap", "debian-archive-keyring"]
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        apt = ["apt-get", "-qq", *command]
        done = subprocess.run(apt, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            raise BuildError(f"debootstrap cannot be installed: {last_line(done.stderr)}", FAILED)


def build(tag: str, base: str | None) -> None:
    """Raises BuildError. What was handed over is removed again."""
    arguments = {name: os.environ[name] for name in PROXIES if os.environ.get(name)}
    if base is not None:
        arguments["BASE"] = base
    try:
        arguments |= hand_over(pip_settings())
        flags = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        say(f"building {tag} ...")
        done = subprocess.run(["docker", "build", "--force-rm", "--tag", tag, *flags, str(ROOT)], check=False)
    finally:
        shutil.rmtree(HANDED, ignore_errors=True)
    if done.returncode != 0:
        hint = "" if base else "; where no image registry can be reached: make image-offline"
        raise BuildError(f"{tag} does not build: docker says above which step failed and why{hint}", FAILED)


def pip_settings() -> dict[str, str]:
    """What pip is set to on this host, by name, as ``index-url``: the environment before its files."""
    settings: dict[str, str] = {}
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        key, equals, value = line.partition("=")
        if equals:
            settings[key.rpartition(".")[2]] = str(ast.literal_eval(value))
    for name, value in os.environ.items():
        if name.startswith("PIP_"):
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    settings["timeout"] = settings.get("timeout") or settings.get("default-timeout", "")
    return settings


def hand_over(settings: Mapping[str, str]) -> dict[str, str]:
    """Puts certificates and local wheels where the build can see them; its arguments."""
    shutil.rmtree(HANDED, ignore_errors=True)
    wheels = HANDED / "wheels"
    wheels.mkdir(parents=True)
    links = []
    for place in settings.get("find-links", "").split():
        folder = Path(place.removeprefix("file://")).expanduser()
        if "://" in place and not place.startswith("file://"):
            links.append(place)
        elif folder.is_dir():
            for wheel in folder.glob("*.whl"):
                shutil.copy(wheel, wheels)
    bundles = (settings.get("cert"), os.environ.get("SSL_CERT_FILE"), *BUNDLES)
    bundle = next((each for each in bundles if each and Path(each).is_file()), None)
    if bundle is not None:
        shutil.copy(bundle, HANDED / "certificates.pem")
    wanted = {**settings, "find-links": " ".join(links)}
    handed = HANDED.relative_to(ROOT)
    return {
        "CERTIFICATES": f"{handed}/certificates.pem",
        "WHEELS": f"{handed}/wheels",
        **{f"PIP_{name.replace('-', '_').upper()}": wanted[name] for name in PIP_SETTINGS if wanted.get(name)},
    }


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it does not say why")


def say(text: str) -> None:
    sys.stderr.write(f"image: {text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
