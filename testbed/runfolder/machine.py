"""The machine: what a figure depends on beside the code (without its host name), and a free port of it."""

import json
import os
import platform
import socket
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from venn.wire.files import write_atomic

LIBRARIES = ("venn-testbed", "grpcio", "protobuf", "numpy", "uvloop")


def machine() -> dict[str, str | int | float]:
    """The machine: cores, memory in GiB, system."""
    return {
        "cores": os.cpu_count() or 1,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that matter; ``absent`` where one is not installed."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "absent"
    return found


def commit() -> str:
    """The commit of the checkout that this code runs from; empty if it is none."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def write_manifest(path: Path, about: Mapping[str, object]) -> None:
    """Write the manifest of a run: ``about``, and the versions, the machine and the commit that it depends on."""
    facts = {**about, "versions": versions(), "machine": machine(), "commit": commit()}
    write_atomic(path, json.dumps(facts, indent=2) + "\n")


def free_port() -> int:
    """A free port of the loopback of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
