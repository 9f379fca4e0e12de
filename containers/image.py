"""Builds the image ``venn-testbed``: ``make image``, or ``make image-offline`` where no image registry is reachable.

Offline, the base is a Debian with Python that debootstrap makes from Debian's mirrors, once; it is kept as the image
``venn-base``. What pip needs on this host (index, proxy, certificates, local wheels) is handed to the build.
For machines of another kind (``--arch arm64`` on a PC) both images are tagged with it: ``venn-testbed:arm64``.
"""

import argparse
import ast
import hashlib
import json
import os
import re
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
KERNELS = {"amd64": "x86_64", "arm64": "aarch64"}  # what Debian and Docker name so, as Linux does
BINFMT = Path("/proc/sys/fs/binfmt_misc")
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
    bases = parser.add_mutually_exclusive_group()
    bases.add_argument("--offline", action="store_true", help=f"make the base {OFFLINE_BASE} with debootstrap")
    bases.add_argument("--base", help="of the image; default: VENN_BASE, or as the Dockerfile says")
    parser.add_argument("--arch", choices=KERNELS, help="of the machines that it is for; default: the engine's own")
    parser.add_argument("--tag", help=f"of the image; default: {IMAGE}, for another kind of machine {IMAGE}:ARCH")
    asked = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        own = engine_architecture()
        foreign = asked.arch if asked.arch != own else None
        suffix = f":{foreign}" if foreign else ""
        base = asked.base or os.environ.get("VENN_BASE")
        if asked.offline:
            base = OFFLINE_BASE + suffix
            if not image_exists(base):
                make_base(base, asked.arch or own, foreign=foreign is not None)
        build(asked.tag or IMAGE + suffix, base, asked.arch or own)
    except BuildError as error:
        say(str(error))
        return error.code
    except KeyboardInterrupt:
        return 130
    return 0


def engine_architecture() -> str:
    """The architecture, as Docker names it. Raises BuildError: the engine is absent, not running or not ours to use."""
    ask = ["docker", "version", "--format", "{{.Server.Arch}}"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError("docker is not installed; on Debian: apt install docker.io docker-compose") from None
    if done.returncode == 0:
        return done.stdout.strip()
    if "permission denied" in done.stderr.lower():
        raise BuildError("you may not use the Docker Engine; join the group docker, or run this as root")
    raise BuildError("the Docker Engine does not answer; start it: systemctl start docker, or service docker start")


def image_exists(name: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False).returncode == 0


def make_base(name: str, architecture: str, *, foreign: bool) -> None:
    """Make a base image from Debian's mirrors; raises BuildError, and nothing is left then."""
    if os.geteuid() != 0:
        raise BuildError("debootstrap must be run by root: sudo make image-offline")
    if foreign and not runs_here(architecture):
        missing = "apt install qemu-user-static binfmt-support"
        raise BuildError(f"programs for {architecture} do not run here; on Debian: {missing}")
    if shutil.which("debootstrap") is None:
        install_debootstrap()
    say(f"making {name} with debootstrap ({'a quarter of an hour' if foreign else 'a minute or two'}) ...")
    with tempfile.TemporaryDirectory(prefix="venn-base-", dir="/var/tmp") as folder:
        tree, log = Path(folder) / "tree", Path(folder) / "log"
        mirror = [os.environ["DEBIAN_MIRROR"]] if os.environ.get("DEBIAN_MIRROR") else []
        # In a mount namespace of its own, so that its mounts go when it goes.
        command = ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
        command += [f"--arch={architecture}"] if foreign else []
        with log.open("wb") as out:
            done = subprocess.run([*command, SUITE, str(tree), *mirror], stdout=out, stderr=out, check=False)
        if done.returncode != 0:
            raise BuildError(f"debootstrap failed: {last_line(log.read_text(errors='replace'))}", FAILED)
        for leftover in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(tree / leftover, ignore_errors=True)
            (tree / leftover / "partial").mkdir(parents=True)
        load(tree, name, architecture)


def load(tree: Path, name: str, architecture: str) -> None:
    """The tree as an image. (`docker import` of older engines calls every image one of their own architecture.)"""
    folder = tree.parent
    layer, config, manifest = folder / "layer.tar", folder / "config.json", folder / "manifest.json"
    failed = f"{name} cannot be made"
    must(failed, "tar", "--directory", str(tree), "--create", "--file", str(layer), ".")
    with layer.open("rb") as packed:
        digest = hashlib.file_digest(packed, "sha256").hexdigest()
    layers = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    config.write_text(json.dumps({"architecture": architecture, "os": "linux", "config": {}, "rootfs": layers}))
    tagged = name if ":" in name else f"{name}:latest"
    manifest.write_text(json.dumps([{"Config": config.name, "RepoTags": [tagged], "Layers": [layer.name]}]))
    image = folder / "image.tar"
    files = [manifest.name, config.name, layer.name]
    must(failed, "tar", "--directory", str(folder), "--create", "--file", str(image), *files)
    must(failed, "docker", "load", "--input", str(image))


def runs_here(architecture: str) -> bool:
    """The kernel hands such programs to an emulator, in a container too (flag F: it need not be in there)."""
    handler = BINFMT / f"qemu-{KERNELS[architecture]}"
    told = handler.read_text() if handler.exists() else ""
    return told.startswith("enabled") and re.search(r"^flags: \w*F", told, re.MULTILINE) is not None


def install_debootstrap() -> None:
    if shutil.which("apt-get") is None:
        raise BuildError("debootstrap is not installed; install it with this system's package manager")
    say("installing debootstrap ...")
    failed, packages = "debootstrap cannot be installed", ["debootstrap", "debian-archive-keyring"]
    must(failed, "apt-get", "-qq", "update")
    must(failed, "apt-get", "-qq", "install", "--yes", "--no-install-recommends", *packages)


def must(failed: str, *command: str) -> None:
    """Runs it; raises BuildError with its last line."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise BuildError(f"{failed}: {last_line(done.stderr)}", FAILED)


def build(tag: str, base: str | None, architecture: str) -> None:
    """Build the image and remove again what was handed over. Raises BuildError."""
    arguments = {name: os.environ[name] for name in PROXIES if os.environ.get(name)}
    if base is not None:
        arguments["BASE"] = base
    try:
        arguments |= hand_over(pip_settings())
        flags = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        # Said each time: else an older engine takes what it pulled last under the name of the base, of whatever kind.
        flags += ["--platform", f"linux/{architecture}"]
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
