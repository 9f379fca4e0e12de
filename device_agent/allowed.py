"""The job code that this agent may run: what its owner named, and nothing else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from venn.wire.channel import is_loopback
from venn.wire.digest import digest_of
from venn.wire.errors import UsageError

DIGEST = re.compile(r"[0-9a-fA-F]{64}")
ANY = "any"


@dataclass(frozen=True, slots=True)
class AllowedCode:
    everything: bool = False
    digests: frozenset[bytes] = frozenset()

    def admits(self, digest: bytes) -> bool:
        return self.everything or digest in self.digests


def parse_allowed(values: Sequence[str], *, coordinator: str, insecure: bool) -> AllowedCode:
    """Read the values of --allow-code: a digest in hex, a job file, a packed bundle (.zip), or ``any``. Raises
    UsageError.
    """
    if ANY in values and not (insecure or is_loopback(coordinator)):
        raise UsageError(
            "ALLOW_ANY",
            "would let anyone who reaches that coordinator run code on this machine",
            where="--allow-code any",
            fix="name the job's file or digest, or give --insecure if you trust the network",
        )
    return AllowedCode(ANY in values, frozenset(_digest(value) for value in values if value != ANY))


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
