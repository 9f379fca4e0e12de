"""User IDs for workers: each worker has one that nobody else has, while the agent is root."""

import fcntl
import grp
import os
import pwd
from pathlib import Path

FIRST, LAST = 61184, 65519  # as systemd.exec(5) keeps them for users that come and go
LOCKS = Path("/run/venn/users")  # a locked file for each ID in use; the lock ends with its process


class Users:
    """Hands out user IDs; those that it holds are no other agent's."""

    def __init__(self, folder: Path = LOCKS) -> None:
        self._folder = folder
        self._held: dict[int, int] = {}  # ID -> descriptor of its locked file

    def take(self) -> tuple[int | None, str]:
        """A free ID; or None, and why there is none."""
        if os.geteuid() != 0:
            return None, "only root can change the user"
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for user in range(FIRST, LAST + 1):
                if user not in self._held and not _exists(user) and self._lock(user):
                    return user, ""
        except OSError as error:
            return None, f"no free user ID: {error}"
        return None, f"no user ID from {FIRST} to {LAST} is free"

    def give_back(self, user: int | None) -> None:
        """Let others have an ID again, once no process has it."""
        if user is not None:
            os.close(self._held.pop(user))

    def _lock(self, user: int) -> bool:
        file = os.open(self._folder / str(user), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._held[user] = file
        return True


def _exists(user: int) -> bool:
    for look_up in (pwd.getpwuid, grp.getgrgid):
        try:
            look_up(user)
        except KeyError:
            continue
        return True
    return False
