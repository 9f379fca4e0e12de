"""Which job code this agent may run: what its owner named, and nothing else."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from venn.wire.channel import is_loopback
from venn.wire.errors import UsageError

SHA256 = re.compile(r"[0-9a-fA-F]{64}")
ANY = "any"


@dataclass(frozen=True, slots=True)
class AllowedCode:
    everything: bool = False
    digests: frozenset[bytes] = frozenset()

    def admits(self, sha256: bytes) -> bool:
        return self.everything or sha256 in self.digests


def parse_allowed(values: Sequence[str], *, coordinator: str, insecure: bool) -> AllowedCode:
    """Each is a SHA-256 in hex, a job file, a packed bundle (.zip), or ``any``. Raises UsageError."""
    if ANY in values and not (insecure or is_loopback(coordinator)):
        raise UsageError(
            "ALLOW_ANY",
            "would let whoever reaches that coordinator run code on this machine",
            where="--allow-code any",
            fix="name the job's file or SHA-256, or say --insecure if the network is yours",
        )
    return AllowedCode(ANY in values, frozenset(_digest(value) for value in values if value != ANY))


def _digest(value: str) -> bytes:
    if SHA256.fullmatch(value):
        return bytes.fromhex(value)
    path = Path(value).expanduser()
    if not path.is_file():
        raise UsageError(
            "ALLOW_CODE", "is neither a SHA-256 nor a file", where=value, fix="name a job file, or its digest"
        )
    if path.suffix == ".zip":
        return hashlib.sha256(path.read_bytes()).digest()
    from job_driver.bundle import pack

    return hashlib.sha256(pack(path)).digest()
