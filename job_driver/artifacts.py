"""What devices fetch: files named by their SHA-256, read in place and served to any number of devices at once."""

import os
import zlib
from collections.abc import Collection
from pathlib import Path

from venn.wire import frames
from venn.wire.chunks import CHUNK_BYTES


class Artifact:
    """An open file that never changes. It may be renamed or deleted; it is closed when its last reader lets go."""

    def __init__(self, descriptor: int, sha256: bytes, size: int) -> None:
        self.sha256, self.size = sha256, size  # 32 bytes; bytes
        self._descriptor = descriptor
        self._latest: tuple[tuple[int, int], bytes] = ((0, 0), b"")  # from, to; the message
        self._crc32: dict[int, int] = {}  # of the chunks that are whole, by their number

    @staticmethod
    def of_file(path: Path, sha256: bytes) -> "Artifact":
        descriptor = os.open(path, os.O_RDONLY)
        return Artifact(descriptor, sha256, os.fstat(descriptor).st_size)

    def read(self, offset: int, stop: int) -> bytes:
        """The bytes in between."""
        return os.pread(self._descriptor, stop - offset, offset)

    def message(self, offset: int, stop: int) -> bytes:
        """The same as a serialised FetchResponse. Devices that fetch together share it: the latest is kept."""
        if (offset, stop) != self._latest[0]:
            data = self.read(offset, stop)
            self._latest = (offset, stop), frames.fetch_response(self.size, offset, data, self._checksum(offset, data))
        return self._latest[1]

    def _checksum(self, offset: int, data: bytes) -> int:
        number, into = divmod(offset, CHUNK_BYTES)
        if into or len(data) < CHUNK_BYTES:
            return zlib.crc32(data)
        if number not in self._crc32:
            self._crc32[number] = zlib.crc32(data)
        return self._crc32[number]

    def __del__(self) -> None:
        os.close(self._descriptor)


class Artifacts:
    """What may be fetched now."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, Artifact] = {}

    def add(self, artifact: Artifact) -> None:
        self._by_digest[artifact.sha256] = artifact

    def find(self, sha256: bytes) -> Artifact | None:
        return self._by_digest.get(sha256)

    def keep_only(self, digests: Collection[bytes]) -> None:
        """Serve no others any more; fetches that are under way end well."""
        self._by_digest = {digest: artifact for digest, artifact in self._by_digest.items() if digest in digests}
