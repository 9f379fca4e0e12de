"""What is served: read once for all who fetch together, and not on the loop."""

import asyncio
import hashlib
import os
import threading
from pathlib import Path

import pytest

from job_driver.artifacts import Artifact
from venn.wire import frames

BODY = bytes(range(256)) * 4


async def test_devices_that_fetch_together_share_one_reading_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, readers = os.pread, []

    def pread(descriptor: int, length: int, offset: int) -> bytes:
        readers.append(threading.get_ident())
        return read(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    path = tmp_path / "model"
    path.write_bytes(BODY)
    artifact = Artifact.of_file(path, hashlib.sha256(BODY).digest())
    with artifact.fetched():
        with artifact.fetched():
            first, second = await asyncio.gather(artifact.message(0, 600), artifact.message(0, 600))
            ahead = await artifact.message(600, 1024)
        assert first is second is await artifact.message(0, 600)  # one is behind, and reads nothing again
        assert ahead is await artifact.message(600, 1024)
        assert len(readers) == 2
    with artifact.fetched():  # later: nothing was kept for it
        assert await artifact.message(0, 600) == first
    assert len(readers) == 3
    assert frames.read_fetch_response(first) == (0, BODY[:600], len(BODY))
    assert threading.get_ident() not in readers
