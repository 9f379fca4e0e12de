"""What goes into a container before it starts, and what comes back: a part of the run folder, at ``INSIDE``.

No folder of this machine is mounted: a container sees its own files alone, and the engine may be on another machine.
"""

import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from testbed.live.containers.project import INSIDE
from testbed.shape.entrypoint import CHANGED
from testbed.shape.user import USER
from venn.wire.files import writing

SHARED = (PurePosixPath("/tmp"), PurePosixPath("/var/tmp"))  # folders of everybody, in any image
SECRET, OPEN, FOLDER = 0o600, 0o644, 0o755
TOKENS, DATA, CODE, POPULATION, SETTINGS = "tokens", "data", "code", "population.jsonl", "venn.toml"
OURS = frozenset((TOKENS, DATA, CODE, POPULATION, SETTINGS, CHANGED))  # what was put in, and does not come back

Luggage = Mapping[str, bytes]  # absolute path in the container -> content


def packed(luggage: Luggage) -> bytes:
    """A tar of the files, with the folders that they lie in; nobody but the user reads tokens."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as tar:
        for folder in sorted({parent for path in luggage for parent in PurePosixPath(path).parents[:-1]}):
            entry = _entry(str(folder), 0o1777 if folder in SHARED else FOLDER)
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
        for path, content in luggage.items():
            entry = _entry(path, SECRET if path.startswith(f"{INSIDE}/{TOKENS}/") else OPEN)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return text.getvalue()


def _entry(path: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.mode, entry.uid, entry.gid = mode, USER, USER
    return entry


def unpack(archive: Iterable[bytes], root: Path) -> None:
    """Writes the files of ``INSIDE`` below ``root``, as the engine hands it out; not those that were put in.

    Raises PeerError OUT_OF_SPACE.
    """
    with tarfile.open(fileobj=cast(BinaryIO, _Stream(iter(archive))), mode="r|") as tar:
        for entry in tar:
            parts = PurePosixPath(entry.name).parts[1:]  # the first is that of INSIDE
            if not entry.isfile() or not parts or ".." in parts or parts[0] in OURS:
                continue
            target = root.joinpath(*parts)
            with writing(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(entry)
                assert content is not None
                with target.open("wb") as file:
                    while piece := content.read(2**20):
                        file.write(piece)


class _Stream(io.RawIOBase):
    """Pieces of bytes as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest += piece
        cut = len(self._rest) if size < 0 else size
        head, self._rest = self._rest[:cut], self._rest[cut:]
        return head
