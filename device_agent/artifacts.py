"""Models and job code by SHA-256, in memory, one copy for all devices of a process."""

import asyncio
from collections import OrderedDict

MOST_BYTES = 256 * 2**20


class ArtifactStore:
    """Keeps what was used last; beyond ``most_bytes`` the rest is dropped, but never the newest."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self.checking = asyncio.Lock()  # held by who hashes what it brought

    def get(self, sha256: bytes) -> bytes | None:
        data = self._kept.get(sha256)
        if data is not None:
            self._kept.move_to_end(sha256)
        return data

    def put(self, sha256: bytes, data: bytes) -> bytes:
        """Keep it; returns the one copy that is kept."""
        known = self.get(sha256)
        if known is not None:
            return known
        self._kept[sha256] = data
        self._bytes += len(data)
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)
        return data
