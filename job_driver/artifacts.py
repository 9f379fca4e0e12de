"""What devices fetch: files named by their SHA-256, read in place and served to any number of devices at once."""

import asyncio
import os
from collections.abc import Collection
from pathlib import Path

from venn.wire import frames


class Artifact:
    """An open file that never changes. It may be renamed or deleted; it is closed when its last reader lets go."""

    def __init__(self, descriptor: int, sha256: bytes, size: int) -> None:
        self.sha256, self.size = sha256, size  # 32 bytes; bytes
        self._descriptor = descriptor
        self._latest: tuple[int, int, asyncio.Future[bytes]] | None = None  # from, to; the message

    @staticmethod
    def of_file(path: Path, sha256: bytes) -> "Artifact":
        descriptor = os.open(path, os.O_RDONLY)
        return Artifact(descriptor, sha256, os.fstat(descriptor).st_size)

    def read(self, offset: int, stop: int) -> bytes:
        """The bytes in between."""
        return os.pread(self._descriptor, stop - offset, offset)

    async def message(self, offset: int, stop: int) -> bytes:
        """The same as a serialised FetchResponse, read on a thread. Devices that fetch together share it:
        the latest is kept.
        """
        latest = self._latest
        if latest is None or latest[:2] != (offset, stop):
            reading = asyncio.get_running_loop().run_in_executor(None, self._message, offset, stop)
            latest = self._latest = (offset, stop, reading)
        message = latest[2]
        return message.result() if message.done() else await asyncio.shield(message)

    def _message(self, offset: int, stop: int) -> bytes:
        return frames.fetch_response(self.size, offset, self.read(offset, stop))

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
