"""Places in which programs keep what outlives a run."""

import os
from pathlib import Path

from venn.wire.jsontext import parse_json

JOINED = "joined.json"  # in a folder of keys: which coordinator they are for


def state_folder() -> Path:
    """The folder of what is kept between runs: ``$XDG_STATE_HOME/venn``, else ``~/.local/state/venn``."""
    named = os.environ.get("XDG_STATE_HOME")
    return (Path(named) if named else Path.home() / ".local" / "state") / "venn"


def keys_folder() -> Path:
    """The folder of the keys: ``$VENN_KEYS``, else ``keys`` in ``state_folder``."""
    named = os.environ.get("VENN_KEYS")
    return Path(named).expanduser() if named else state_folder() / "keys"


def joined_coordinator(folder: Path | None) -> str:
    """The address of the coordinator that the keys in a folder have joined; empty: none, or it cannot be read."""
    try:
        said = parse_json(((folder or keys_folder()) / JOINED).read_bytes())
        return str(said["coordinator"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
