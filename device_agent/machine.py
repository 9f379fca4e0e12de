"""This machine as a device: its name, its capabilities (measured or looked up), and the job code that it may run."""

import platform
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np
import psutil

from device_agent.spec import MOST_LABEL_VALUES
from venn.wire.channel import is_loopback
from venn.wire.chunks import digest_of
from venn.wire.errors import UsageError
from venn.wire.files import file_error, write_atomic
from venn.wire.keys import read_key

IDENTITY = "identity"  # the file of this machine's name
DIGEST = re.compile(r"[0-9a-fA-F]{64}")
ANY = "any"
REFERENCE_S = 0.030  # processor time that the reference computation takes on a core whose score is 1
REFERENCE_STEPS, REFERENCE_SIZE, REFERENCE_RUNS = 400, 4096, 3


@cache
def measured_numbers() -> dict[str, float]:
    """The known numbers: ``cpu`` (score of one core), ``memory`` (bytes installed), ``os`` (e.g. 6.1 or 14.5)."""
    numbers = {"cpu": cpu_score(), "memory": float(psutil.virtual_memory().total)}
    level = os_level(platform.release())
    return numbers if level is None else {**numbers, "os": level}


def cpu_score() -> float:
    """The speed of one core at the reference computation (square roots over 4,096 floats, 400 times, in NumPy): its
    best of three runs, held against ``REFERENCE_S``. About 10 on a server core of 2020; some 50 ms are spent on it.
    """
    best = min(_reference_run() for _ in range(REFERENCE_RUNS))
    return round(REFERENCE_S / best, 2)


def os_level(release: str) -> float | None:
    """Major and minor number of the system's release; None if it has none."""
    match = re.match(r"(\d+)(?:\.(\d+))?", release)
    return None if match is None else float(f"{match[1]}.{match[2] or 0}")


@cache
def importable_packages() -> tuple[str, ...]:
    """Names that jobs may ask for as ``packages``: what a user asked pip for comes first, at most 64 in all."""
    names: dict[str, bool] = {}
    for name, distributions in metadata.packages_distributions().items():
        if name.isidentifier() and not name.startswith("_") and "__" not in name:
            names[name] = any(_was_requested(distribution) for distribution in distributions)
    ordered = sorted(names, key=lambda name: (not names[name], name))
    return tuple(sorted(ordered[:MOST_LABEL_VALUES]))


@cache
def _was_requested(distribution: str) -> bool:
    """Whether pip installed a distribution because somebody asked for it, and not because something else needs it (PEP
    376).
    """
    return metadata.distribution(distribution).read_text("REQUESTED") is not None


def _reference_run() -> float:
    values = np.linspace(0.1, 1.0, REFERENCE_SIZE)
    started = time.thread_time()
    for _ in range(REFERENCE_STEPS):
        values = np.sqrt(values * values + 1e-9)
    return max(time.thread_time() - started, 1e-6)


def kept_identity(folder: Path) -> str:
    """The device's name, kept in ``folder``/identity; made at the first call. Raises UsageError or PeerError."""
    path = folder / IDENTITY
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "IDENTITY", f"cannot be read: {error}", where=str(path), fix="remove it, or give --name"
        ) from error
    name = f"device-{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, name + "\n")
    except OSError as error:
        raise file_error(error, path) from error
    return name


@dataclass(frozen=True, slots=True)
class AllowedCode:
    """The job code that this agent may run: what its owner named, by itself or by who signed it, and nothing else."""

    everything: bool = False
    digests: frozenset[bytes] = frozenset()
    owners: frozenset[bytes] = frozenset()  # ids of keys

    def admits(self, digest: bytes, owner: bytes | None = None) -> bool:
        """Whether the code with this digest may run. ``owner``: the id of the key that has signed it."""
        return self.everything or digest in self.digests or owner in self.owners


def parse_allowed(
    values: Sequence[str], owners: Sequence[str] = (), *, coordinator: str, insecure: bool
) -> AllowedCode:
    """Read the values of --allow-code: a digest in hex, a job file, a packed bundle (.zip), or ``any``; and those of
    --trust-owner: the id of a key in hex, or a key's file. Raises UsageError.
    """
    if ANY in values and not (insecure or is_loopback(coordinator)):
        raise UsageError(
            "ALLOW_ANY",
            "would let anyone who reaches that coordinator run code on this machine",
            where="--allow-code any",
            fix="name the job's file or digest, or give --insecure if you trust the network",
        )
    digests = frozenset(_digest(value) for value in values if value != ANY)
    return AllowedCode(ANY in values, digests, frozenset(map(_owner, owners)))


def _owner(value: str) -> bytes:
    if DIGEST.fullmatch(value):
        return bytes.fromhex(value)
    try:
        return read_key(Path(value).expanduser()).id
    except OSError as error:
        message = f"is neither the id of a key nor a key's file: {error.strerror}"
        fix = "name the 64 digits that the job's driver logs, or its owner's job.key"
        raise UsageError("TRUST_OWNER", message, where=value, fix=fix) from error


def _digest(value: str) -> bytes:
    if DIGEST.fullmatch(value):
        return bytes.fromhex(value)
    path = Path(value).expanduser()
    if not path.is_file():
        raise UsageError(
            "ALLOW_CODE", "is neither a digest nor a file", where=value, fix="name a job file, or its digest"
        )
    if path.suffix == ".zip":
        return digest_of(path.read_bytes())
    from job_driver.bundle import pack

    return digest_of(pack(path))
