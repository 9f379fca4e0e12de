"""Models and job code by digest, on their way and in memory: one copy for all devices of a process.

Devices that fetch the same artifact from one driver at once put it together once. To each of them travel all of its
bytes; those that another device has brought before are let go of, neither checked nor kept again.
"""

import asyncio
from collections import OrderedDict
from weakref import WeakValueDictionary

from google.protobuf.message import DecodeError

from venn.v1 import common_pb2, task_pb2
from venn.wire import chunks
from venn.wire.chunks import Hasher

MOST_FETCHED = 64  # artifacts that a device remembers; a job has two at a time


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
        """Add the bytes that follow at ``offset``."""
        self._pieces.append(data)
        self.offset += len(data)
        if self.size > chunks.SMALL_BYTES and (self._hashing is None or self._hashing.done()):
            self._hashing = asyncio.get_running_loop().run_in_executor(None, self._hash)

    async def close(self) -> bytes | None:
        """Return the whole artifact, the same for all who ask; None, and it begins anew, if its digest is wrong."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        return await asyncio.shield(self._closing)

    async def _close(self) -> bytes | None:
        if self._hashing is not None:
            await self._hashing
        data = await asyncio.to_thread(self._whole) if self.size > chunks.SMALL_BYTES else self._whole()
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
        """Hash the pieces that were added since. On one thread at a time."""
        while self._hashed < len(self._pieces):
            self._hasher.update(self._pieces[self._hashed])
            self._hashed += 1


class Fetched(dict[bytes, None]):
    """The digests of what one device has fetched, the last used ones at the end. What is here, and in the store of its
    process, it does not fetch again.
    """

    def add(self, digest: bytes) -> None:
        """Note that an artifact is used now; beyond ``MOST_FETCHED`` the one that was used longest ago goes."""
        self.pop(digest, None)
        self[digest] = None
        if len(self) > MOST_FETCHED:
            del self[next(iter(self))]


class ArtifactStore:
    """The artifacts that were used last; beyond ``most_bytes`` the rest is dropped, but never the newest."""

    def __init__(self, most_bytes: int = 256 * 2**20) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._assemblies: WeakValueDictionary[tuple[str, bytes, int], Assembly] = WeakValueDictionary()

    def get(self, digest: bytes) -> bytes | None:
        """The artifact of this digest, which is used now; None if it is not here."""
        data = self._kept.get(digest)
        if data is not None:
            self._kept.move_to_end(digest)
        return data

    def assembly(self, driver: str, digest: bytes, size: int) -> Assembly:
        """The assembly of all who fetch this artifact now from the driver at this address, and of nobody else: what
        another driver calls by the same name may be wrong.
        """
        key = driver, digest, size
        assembly = self._assemblies.get(key)
        if assembly is None:
            assembly = self._assemblies[key] = Assembly(digest, size)
        return assembly

    def put(self, digest: bytes, data: bytes) -> bytes:
        """Keep an artifact; returns the one copy that is kept."""
        known = self.get(digest)
        if known is not None:
            return known
        self._kept[digest] = data
        self._bytes += len(data)
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)
        return data


class Damaged(Exception):
    """The error of bytes that arrived and are not those that were named."""


class Download:
    """One device's fetch of an artifact, which it puts together with others of its process."""

    def __init__(self, artifact: common_pb2.Artifact, store: ArtifactStore, driver: str) -> None:
        """``driver``: its address."""
        self.digest, self.offset = artifact.digest, 0
        self.small = artifact.size <= chunks.SMALL_BYTES
        self._size, self._store = artifact.size, store
        self._assembly = store.assembly(driver, artifact.digest, artifact.size)

    @property
    def whole(self) -> bool:
        """Whether no bytes are missing; ``close`` says whether they are the right ones."""
        return self.offset == self._size

    def take(self, message: bytes) -> int:
        """Take one FetchResponse; returns how many bytes it brought. Raises Damaged; what came before stays."""
        try:
            piece = chunks.read_fetch_response(message)
            return self._take(piece) if piece else self.take_parsed(task_pb2.FetchResponse.FromString(message))
        except (chunks.ChunkError, DecodeError) as error:
            raise Damaged(str(error)) from error

    def take_parsed(self, answer: task_pb2.FetchResponse) -> int:
        """Take a FetchResponse that was parsed already, as ``take`` does."""
        data = answer.chunk.data
        try:
            chunks.check_size(answer.chunk.offset, len(data))
        except chunks.ChunkError as error:
            raise Damaged(str(error)) from error
        return self._take(chunks.Piece(answer.chunk.offset, memoryview(data), answer.total_bytes))

    def _take(self, piece: chunks.Piece) -> int:
        whole = self._store.get(self.digest) is not None
        held = self._size if whole else self._assembly.offset
        if piece.total != self._size:
            raise Damaged(f"the driver has {piece.total} bytes where the offer says {self._size}")
        end = piece.offset + len(piece.data)
        if piece.offset != self.offset or end > self._size:
            raise Damaged(f"bytes from {piece.offset} came in place of those from {self.offset}")
        if held < self.offset:  # what was put together so far was wrong, and is given up
            raise self._wrong()
        if end > held:
            self._assembly.add(piece.data[held - piece.offset :])
        self.offset = end
        return len(piece.data)

    async def close(self) -> bytes:
        """Return the whole artifact. Raises Damaged if it is not whole (go on), or not what was named (begin again)."""
        if self.offset < self._size:
            raise Damaged(f"the stream ended after {self.offset} of {self._size} bytes")
        known = self._store.get(self.digest)
        if known is not None:
            return known
        data = await self._assembly.close() if self._assembly.offset == self._size else None
        if data is None:
            raise self._wrong()
        return self._store.put(self.digest, data)

    def _wrong(self) -> Damaged:
        self.offset = 0
        return Damaged("the bytes do not have the digest of the offer")
