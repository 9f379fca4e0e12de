"""An artifact on its way to a device, piece by piece."""

from google.protobuf.message import DecodeError

from device_agent.artifacts import ArtifactStore
from venn.v1 import common_pb2, task_pb2
from venn.wire import chunks, frames


class Damaged(Exception):
    """The bytes that came are not those that were named."""


class Download:
    """One device's way through an artifact, which it puts together with others of its process."""

    def __init__(self, artifact: common_pb2.Artifact, store: ArtifactStore, driver: str) -> None:
        """``driver``: its address."""
        self.digest, self.offset = artifact.digest, 0
        self.small = artifact.size <= chunks.SMALL_BYTES
        self._size, self._store = artifact.size, store
        self._assembly = store.assembly(driver, artifact.digest, artifact.size)

    @property
    def whole(self) -> bool:
        """No bytes are missing; whether they are the right ones is for ``close`` to say."""
        return self.offset == self._size

    def take(self, message: bytes) -> int:
        """One FetchResponse; returns how many bytes it brought. Raises Damaged; what came before stays."""
        try:
            piece = frames.read_fetch_response(message)
            return self._take(piece) if piece else self.take_parsed(task_pb2.FetchResponse.FromString(message))
        except (chunks.ChunkError, DecodeError) as error:
            raise Damaged(str(error)) from error

    def take_parsed(self, answer: task_pb2.FetchResponse) -> int:
        """The same of one that was parsed."""
        data = answer.chunk.data
        try:
            chunks.check_size(answer.chunk.offset, len(data))
        except chunks.ChunkError as error:
            raise Damaged(str(error)) from error
        return self._take(frames.Piece(answer.chunk.offset, memoryview(data), answer.total_bytes))

    def _take(self, piece: frames.Piece) -> int:
        whole = self._store.get(self.digest) is not None
        held = self._size if whole else self._assembly.offset
        if piece.total != self._size:
            raise Damaged(f"the driver has {piece.total} bytes where the offer says {self._size}")
        end = piece.offset + len(piece.data)
        if piece.offset != self.offset or end > self._size:
            raise Damaged(f"bytes from {piece.offset} came where those from {self.offset} were due")
        if held < self.offset:  # what was put together so far was wrong, and is given up
            raise self._wrong()
        if end > held:
            self._assembly.add(piece.data[held - piece.offset :])
        self.offset = end
        return len(piece.data)

    async def close(self) -> bytes:
        """All of it. Raises Damaged if it is not whole (go on), or not what was named (begin again)."""
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
        return Damaged("the bytes are not those that the offer names")
