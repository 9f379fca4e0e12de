"""Serves the files that devices fetch, named by their digest, read in place, to any number of devices at once."""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from venn.wire import chunks
from venn.wire.chunks import SMALL_BYTES

MOST_LATEST = 8  # messages of an artifact: 4 MiB


class Artifact:
    """An open file that never changes. It may be renamed or deleted; it is closed when its last reader lets go."""

    def __init__(self, descriptor: int, digest: bytes, size: int) -> None:
        self.digest, self.size = digest, size  # bytes
        self._descriptor = descriptor
        self._fetches = 0  # under way
        self._latest: OrderedDict[tuple[int, int], asyncio.Future[bytes]] = OrderedDict()  # messages, by from and to

    @staticmethod
    def of_file(path: Path, digest: bytes) -> "Artifact":
        descriptor = os.open(path, os.O_RDONLY)
        return Artifact(descriptor, digest, os.fstat(descriptor).st_size)

    def read(self, offset: int, stop: int) -> bytes:
        """Read the bytes in between."""
        return os.pread(self._descriptor, stop - offset, offset)

    @contextmanager
    def fetched(self) -> Iterator[None]:
        """Fetch it inside. Devices that fetch together are seldom at the same byte: the latest messages are
        kept for those behind, until none is left.
        """
        self._fetches += 1
        try:
            yield
        finally:
            self._fetches -= 1
            if self._fetches == 0:
                self._latest.clear()

    async def message(self, offset: int, stop: int) -> bytes:
        """Read the same as a serialised FetchResponse, once for all who fetch together; if large, on a thread."""
        message = self._latest.get((offset, stop))
        if message is None:
            loop = asyncio.get_running_loop()
            if self.size <= SMALL_BYTES:
                message = loop.create_future()
                message.set_result(self._message(offset, stop))
            else:
                message = loop.run_in_executor(None, self._message, offset, stop)
            self._latest[offset, stop] = message
            if len(self._latest) > MOST_LATEST:
                self._latest.popitem(last=False)
        return message.result() if message.done() else await asyncio.shield(message)

    def _message(self, offset: int, stop: int) -> bytes:
        return chunks.fetch_response(self.size, offset, self.read(offset, stop))

    def __del__(self) -> None:
        os.close(self._descriptor)


class Artifacts:
    """The artifacts that may be fetched now."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, Artifact] = {}

    def add(self, artifact: Artifact) -> None:
        self._by_digest[artifact.digest] = artifact

    def find(self, digest: bytes) -> Artifact | None:
        return self._by_digest.get(digest)

    def keep_only(self, digests: Collection[bytes]) -> None:
        """Serve these and no others any more; fetches that are under way end well."""
        self._by_digest = {digest: artifact for digest, artifact in self._by_digest.items() if digest in digests}
