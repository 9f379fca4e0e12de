"""The disk of one simulated machine: a real folder, which can be full, lose its power, or stop in the middle.

What a process wrote survives its SIGKILL. A power cut keeps what fsync made last, and of the rest a part: an unsynced
tail is cut somewhere, and a name that its folder's fsync did not cover may be gone, as on ext4 (where the fsync of a
new file covers its name too).
"""

import errno
import os
import shutil
import stat
from pathlib import Path
from random import Random


class Disk:
    """One machine's disk, below ``folder``."""

    def __init__(self, folder: Path, rng: Random) -> None:
        self.folder = folder
        self.full = False
        self.dies_after: int | None = None  # so many more writes and syncs; then the process is to be killed
        self.died = False  # nothing that the process does from here on happened
        self._rng = rng
        self._shadow = folder.with_name(f"{folder.name}.shadow")  # keeps the inodes of what was synced
        self._sizes: dict[int, int] = {}  # by inode: bytes that were synced
        self._names: dict[Path, dict[str, int]] = {}  # by folder: the names that were synced
        self._dead: Path | None = None  # the folder as it was when the process died in the middle of a write
        folder.mkdir(parents=True)
        self._shadow.mkdir()

    # -- what the process does

    def before_write(self, size: int) -> int:
        """How many bytes of a write get through. Raises OSError where the disk is full."""
        if self._step():
            return self._rng.randrange(size + 1) if size else 0
        if self.full and size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return size

    def sync(self, descriptor: int) -> None:
        """Note that a file, or the names in a folder, are to survive a power cut."""
        if self._step() or self.died:
            return
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            names = {each.name: each for each in path.iterdir() if each.is_file()}
            self._names[path] = {name: self._keep(each) for name, each in names.items()}
            return
        if not path.exists():  # it was deleted meanwhile
            return
        inode = self._keep(path)
        self._sizes[inode] = path.stat().st_size
        self._names.setdefault(path.parent, {}).setdefault(path.name, inode)

    def _keep(self, path: Path) -> int:
        inode = path.stat().st_ino
        kept = self._shadow / str(inode)
        if not kept.exists():
            os.link(path, kept)
        return inode

    def _step(self) -> bool:
        """Count a write or a sync; True for the one in whose middle the process dies."""
        if self.dies_after is None or self.died:
            return False
        self.dies_after -= 1
        if self.dies_after >= 0:
            return False
        self.died, self.dies_after = True, None
        return True

    def freeze(self) -> None:
        """Keep the folder as it is now: the process has died, though its callback still runs."""
        self._dead = self.folder.with_name(f"{self.folder.name}.dead")
        shutil.copytree(self.folder, self._dead)

    # -- what happens to it

    def process_ended(self) -> None:
        """Undo what a process did after it had died."""
        self.dies_after = None
        if self._dead is not None:
            shutil.rmtree(self.folder)
            self._dead.rename(self.folder)
            self._dead, self.died = None, False
            self._forget()

    def cut_power(self) -> None:
        """Lose what was not synced, or a part of it."""
        self.process_ended()
        for folder in sorted({*self._names, *(each for each in self.folder.rglob("*") if each.is_dir())}):
            if folder.is_dir():
                self._cut_power_of(folder)
        self._cut_power_of(self.folder)
        self._forget()

    def wipe(self) -> None:
        """Lose everything: the machine was replaced."""
        self.process_ended()
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        self._forget()

    def _cut_power_of(self, folder: Path) -> None:
        synced = self._names.get(folder, {})
        present = {each.name: each for each in sorted(folder.iterdir()) if each.is_file() and not each.is_symlink()}
        after: dict[str, tuple[bytes, int]] = {}  # content and mode
        for name, path in present.items():
            inode = path.stat().st_ino
            if synced.get(name) != inode and (name in synced or self._rng.random() < 0.5):
                continue  # the name, or what it stands for now, was not synced
            after[name] = self._surviving(path)
        for name, inode in synced.items():
            if name not in after:
                after[name] = self._surviving(self._shadow / str(inode))
        for name, path in present.items():
            if name not in after:
                path.unlink()
        for name, (data, mode) in after.items():  # as a new file: one that is no more may have mapped the old one
            fresh = folder / f".{name}.power"
            fresh.write_bytes(data)
            fresh.chmod(mode)
            fresh.replace(folder / name)

    def _surviving(self, path: Path) -> tuple[bytes, int]:
        """What is left of a file: what was synced, and a part of the rest; and its mode."""
        data, found = path.read_bytes(), path.stat()
        synced = min(self._sizes.get(found.st_ino, 0), len(data))
        return data[: synced + self._rng.randrange(len(data) - synced + 1)], stat.S_IMODE(found.st_mode)

    def _forget(self) -> None:
        """Take what is there now for synced."""
        shutil.rmtree(self._shadow)
        self._shadow.mkdir()
        self._sizes.clear()
        self._names.clear()
        for path in (self.folder, *sorted(self.folder.rglob("*"))):
            if path.is_dir():
                files = {each.name: each for each in path.iterdir() if each.is_file()}
                self._names[path] = {name: self._keep(each) for name, each in files.items()}
            elif path.is_file():
                self._sizes[path.stat().st_ino] = path.stat().st_size
