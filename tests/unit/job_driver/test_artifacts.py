"""What is served: read once for all who fetch together, and not on the loop unless it is small."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from job_driver.artifacts import Artifact
from venn.wire import chunks
from venn.wire.chunks import SMALL_BYTES, digest_of


@pytest.mark.parametrize("size", [SMALL_BYTES, SMALL_BYTES + 1])
async def test_devices_that_fetch_together_share_one_reading_of_what_is_large_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    read, readers = os.pread, []

    def pread(descriptor: int, length: int, offset: int) -> bytes:
        readers.append(threading.get_ident())
        return read(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    path = tmp_path / "model"
    path.write_bytes(body)
    artifact = Artifact.of_file(path, digest_of(body))
    with artifact.fetched():
        with artifact.fetched():
            first, second = await asyncio.gather(artifact.message(0, 600), artifact.message(0, 600))
            ahead = await artifact.message(600, size)
        assert first is second is await artifact.message(0, 600)  # one is behind, and reads nothing again
        assert ahead is await artifact.message(600, size)
        assert len(readers) == 2
    with artifact.fetched():  # later: nothing was kept for it
        assert await artifact.message(0, 600) == first
    assert len(readers) == 3
    assert chunks.read_fetch_response(first) == (0, body[:600], len(body))
    assert (threading.get_ident() in readers) is (size == SMALL_BYTES)
