"""Models and job code by digest, in memory, one copy for all devices of a process.

Devices that fetch the same artifact from one driver at once put it together once. To each of them travel all of its
bytes; those that another device has brought before are let go of, neither checked nor kept again.
"""

import asyncio
from collections import OrderedDict
from weakref import WeakValueDictionary

from venn.wire.chunks import SMALL_BYTES
from venn.wire.digest import Hasher

MOST_BYTES = 256 * 2**20
MOST_BROUGHT = 64  # artifacts that a device remembers; a job has two at a time


class Assembly:
    """An artifact on its way; it goes with the last device that fetches it. A thread hashes it while it comes, unless
    it is small.
    """

    def __init__(self, digest: bytes, size: int) -> None:
        self.digest, self.size = digest, size  # bytes
        self.offset = 0  # everything before it is here
        self._pieces: list[memoryview] = []
        self._hasher, self._hashed = Hasher(), 0  # of how many pieces
        self._hashing: asyncio.Future[None] | None = None
        self._closing: asyncio.Task[bytes | None] | None = None

    def add(self, data: memoryview) -> None:
        """What follows at ``offset``."""
        self._pieces.append(data)
        self.offset += len(data)
        if self.size > SMALL_BYTES and (self._hashing is None or self._hashing.done()):
            self._hashing = asyncio.get_running_loop().run_in_executor(None, self._hash)

    async def close(self) -> bytes | None:
        """All of it, the same for all who ask; None, and it begins anew, if it is not what was named."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        return await asyncio.shield(self._closing)

    async def _close(self) -> bytes | None:
        if self._hashing is not None:
            await self._hashing
        data = await asyncio.to_thread(self._whole) if self.size > SMALL_BYTES else self._whole()
        good = self._hasher.digest() == self.digest
        self._pieces.clear()
        if not good:
            self.offset = self._hashed = 0
            self._hasher, self._closing = Hasher(), None
        return data if good else None

    def _whole(self) -> bytes:
        self._hash()
        return b"".join(self._pieces)

    def _hash(self) -> None:
        """What was added since. On one thread at a time."""
        while self._hashed < len(self._pieces):
            self._hasher.update(self._pieces[self._hashed])
            self._hashed += 1


class Brought:
    """What one device has fetched: the digests that it used last, at most ``most``. What is in it, and in the store of
    its process, it does not fetch again.
    """

    def __init__(self, most: int = MOST_BROUGHT) -> None:
        self._most = most
        self._latest: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._latest)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._latest

    def add(self, digest: bytes) -> None:
        """It is used now."""
        self._latest[digest] = None
        self._latest.move_to_end(digest)
        if len(self._latest) > self._most:
            self._latest.popitem(last=False)


class ArtifactStore:
    """Keeps what was used last; beyond ``most_bytes`` the rest is dropped, but never the newest."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._assemblies: WeakValueDictionary[tuple[str, bytes, int], Assembly] = WeakValueDictionary()

    def get(self, digest: bytes) -> bytes | None:
        data = self._kept.get(digest)
        if data is not None:
            self._kept.move_to_end(digest)
        return data

    def assembly(self, driver: str, digest: bytes, size: int) -> Assembly:
        """To which all add who fetch this artifact now from the driver at this address, and nobody else: what another
        driver calls by the same name may be wrong.
        """
        key = driver, digest, size
        assembly = self._assemblies.get(key)
        if assembly is None:
            assembly = self._assemblies[key] = Assembly(digest, size)
        return assembly

    def put(self, digest: bytes, data: bytes) -> bytes:
        """Keep it; returns the one copy that is kept."""
        known = self.get(digest)
        if known is not None:
            return known
        self._kept[digest] = data
        self._bytes += len(data)
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)
        return data
