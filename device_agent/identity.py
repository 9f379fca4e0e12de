"""A device's name: made once on the machine, and kept."""

import secrets
from pathlib import Path

from venn.wire.errors import UsageError
from venn.wire.files import file_error, write_atomic

FILE = "identity"


def kept_identity(folder: Path) -> str:
    """The name in ``folder``/identity; made at the first call. Raises UsageError or PeerError."""
    path = folder / FILE
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
