"""Devices of one process that fetch the same artifact: each goes its own way, and it is put together once."""

import asyncio
import threading

import pytest

from device_agent.artifacts import MOST_FETCHED, ArtifactStore, Damaged, Download, Fetched
from venn.v1.common_pb2 import Artifact
from venn.wire import chunks
from venn.wire.chunks import SMALL_BYTES, Hasher, digest_of

BODY = bytes(range(256)) * 4
NAMED = Artifact(digest=digest_of(BODY), size=len(BODY))


def message(start: int, stop: int, body: bytes = BODY) -> bytes:
    return chunks.fetch_response(len(body), start, body[start:stop])


async def test_what_one_has_brought_the_others_let_go_of() -> None:
    store = ArtifactStore()
    ahead, behind = Download(NAMED, store, "a:1"), Download(NAMED, store, "a:1")
    assert ahead.take(message(0, 600)) == 600
    assert behind.take(message(0, 100, bytes(1024))) == 100  # nobody uses these bytes: they are not looked at
    assert behind.take(message(100, 900)) == 800  # the last 300 are new
    assert ahead.take(message(600, 1024)) == 424  # the last 124 are new
    whole = await ahead.close()
    assert whole == BODY
    assert behind.take(message(900, 1024)) == 124
    assert await behind.close() is whole


async def test_bytes_that_do_not_follow_are_refused_and_what_came_before_stays() -> None:
    download = Download(NAMED, ArtifactStore(), "a:1")
    download.take(message(0, 500))
    with pytest.raises(Damaged, match="bytes from 600 came in place of those from 500"):
        download.take(message(600, 1024))
    with pytest.raises(Damaged, match="after 500 of 1024"):
        await download.close()
    assert download.offset == 500
    download.take(message(500, 1024))
    assert await download.close() == BODY


async def test_those_who_end_together_get_one_copy() -> None:
    store = ArtifactStore()
    first, second, third = (Download(NAMED, store, "a:1") for _ in range(3))
    for each in (first, second, third):
        each.take(message(0, 600))
    for each in (first, second):
        each.take(message(600, 1024))
    ending = asyncio.gather(first.close(), second.close())
    await asyncio.sleep(0)
    third.take(message(600, 1024))  # while the others' digest is found
    one, other = await ending
    assert one is other is await third.close()


class Hashes:
    """Hashes, and notes on which threads."""

    threads: set[int] = set()  # noqa: RUF012 - looked at by the test

    def __init__(self) -> None:
        self._hash = Hasher()
        self.digest = self._hash.digest

    def update(self, data: memoryview) -> None:
        self.threads.add(threading.get_ident())
        self._hash.update(data)


@pytest.mark.parametrize("size", [SMALL_BYTES, SMALL_BYTES + 1024])
async def test_nothing_large_is_hashed_on_the_loop(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    body = bytes(size)
    named = Artifact(digest=digest_of(body), size=size)
    monkeypatch.setattr("device_agent.artifacts.Hasher", Hashes)
    Hashes.threads.clear()
    download = Download(named, ArtifactStore(), "a:1")
    for start in range(0, size, 1024):
        download.take(message(start, start + 1024, body))
    assert await download.close() == body
    assert Hashes.threads
    assert (threading.get_ident() in Hashes.threads) is (size == SMALL_BYTES)


async def test_bytes_that_are_not_those_named_are_given_up_by_all() -> None:
    store, other = ArtifactStore(), bytes(1024)
    first, second = Download(NAMED, store, "a:1"), Download(NAMED, store, "a:1")
    first.take(message(0, 1024, other))
    second.take(message(0, 700, other))
    with pytest.raises(Damaged, match="do not have the digest of the offer"):
        await first.close()
    with pytest.raises(Damaged, match="do not have the digest of the offer"):
        second.take(message(700, 1024, other))
    assert (first.offset, second.offset, store.get(NAMED.digest)) == (0, 0, None)
    second.take(message(0, 1024))
    assert await second.close() == BODY


async def test_a_driver_with_wrong_bytes_spoils_nothing_of_another() -> None:
    store = ArtifactStore()
    liar, honest = Download(NAMED, store, "a:1"), Download(NAMED, store, "b:1")
    liar.take(message(0, 800, bytes(1024)))
    honest.take(message(0, 1024))
    assert await honest.close() == BODY


async def test_what_nobody_fetches_any_more_is_forgotten() -> None:
    store = ArtifactStore()
    download = Download(NAMED, store, "a:1")
    download.take(message(0, 800))
    del download
    await asyncio.get_running_loop().shutdown_default_executor()  # which hashes it
    assert store.assembly("a:1", NAMED.digest, NAMED.size).offset == 0


def test_a_device_remembers_the_artifacts_that_it_used_last_and_no_more() -> None:
    fetched = Fetched()
    code = bytes(32)
    for number in range(10_000):
        fetched.add(number.to_bytes(32, "big"))
        fetched.add(code)  # of the same job, round after round
    assert len(fetched) == MOST_FETCHED
    assert code in fetched
    assert (9_999).to_bytes(32, "big") in fetched
    assert (1).to_bytes(32, "big") not in fetched
