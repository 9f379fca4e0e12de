"""The user that root of a container becomes, for good or for a while."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

USER = 1000
HOME = Path("/home/venn")
_DROP = (
    *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
    *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"),
)


def dropped(command: Sequence[str]) -> list[str]:
    """What runs a command as the user, without capabilities."""
    return [*_DROP, *command] if os.getuid() == 0 else list(command)


@contextmanager
def as_user() -> Iterator[None]:
    """What root makes in here belongs to the user."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(USER)
    os.seteuid(USER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
