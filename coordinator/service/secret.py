"""The coordinator's secret: 32 random bytes in a 0600 file of its folder, from which every other key is derived.

So the journal holds no key, and a coordinator that comes back has the keys that it had.
"""

import hmac
import os
import secrets
import stat
from pathlib import Path

from venn.wire.errors import UsageError
from venn.wire.files import file_error, write_atomic

SECRET = "coordinator.secret"
SECRET_BYTES = 32


class Secret:
    """A secret that is never shown; keys for one purpose and one subject are derived from it."""

    def __init__(self, secret: bytes | None = None) -> None:
        """``secret``: None for a random one, which nothing outlives."""
        self._secret = secrets.token_bytes(SECRET_BYTES) if secret is None else secret

    def derive(self, purpose: str, *subject: str) -> bytes:
        """A key of 32 bytes: HMAC-SHA256 over the purpose and the subject, each with its length before it."""
        parts = [part.encode() for part in (purpose, *subject)]
        said = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._secret, said, "sha256")


def kept_secret(folder: Path) -> Secret:
    """The secret in a coordinator's folder, made if there is none. Raises UsageError SECRET_UNSAFE, SECRET_DAMAGED."""
    path = folder / SECRET
    try:
        if not path.exists():
            write_atomic(path, secrets.token_bytes(SECRET_BYTES), fsync=True, mode=0o600)
        with open(path, "rb") as file:
            mode, secret = stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read(SECRET_BYTES + 1)
    except OSError as error:
        raise file_error(error, path) from error
    if mode & 0o077:
        raise UsageError("SECRET_UNSAFE", "other users can read this secret", where=str(path), fix=f"chmod 600 {path}")
    if len(secret) != SECRET_BYTES:
        message = f"has {len(secret)} bytes, a coordinator's secret has {SECRET_BYTES}"
        fix = "restore it from a backup; or delete it, and the drivers of all jobs have to submit them again"
        raise UsageError("SECRET_DAMAGED", message, where=str(path), fix=fix)
    return Secret(secret)
