"""Devices of one process that fetch the same artifact: each goes its own way, and it is put together once."""

import hashlib
import zlib

import pytest

from device_agent.artifacts import MOST_BROUGHT, ArtifactStore, Brought
from device_agent.download import Damaged, Download
from venn.v1.common_pb2 import Artifact
from venn.wire import frames

BODY = bytes(range(256)) * 4
NAMED = Artifact(sha256=hashlib.sha256(BODY).digest(), size=len(BODY))


def message(start: int, stop: int, body: bytes = BODY, *, damage: int = 0) -> bytes:
    data = body[start:stop]
    return frames.fetch_response(len(body), start, data, zlib.crc32(data) ^ damage)


def test_what_one_has_brought_the_others_let_go_of() -> None:
    store = ArtifactStore()
    ahead, behind = Download(NAMED, store, "a:1"), Download(NAMED, store, "a:1")
    assert ahead.take(message(0, 600)) == 600
    assert behind.take(message(0, 100, damage=1)) == 100  # nobody uses these bytes: they are not looked at
    assert behind.take(message(100, 900)) == 800  # the last 300 are new
    assert ahead.take(message(600, 1024)) == 424  # the last 124 are new
    whole = ahead.close()
    assert whole == BODY
    assert behind.take(message(900, 1024)) == 124
    assert behind.close() is whole


def test_new_bytes_are_checked_and_what_came_before_stays() -> None:
    download = Download(NAMED, ArtifactStore(), "a:1")
    download.take(message(0, 500))
    with pytest.raises(Damaged, match="damaged on its way"):
        download.take(message(500, 1024, damage=1))
    with pytest.raises(Damaged, match="after 500 of 1024"):
        download.close()
    assert download.offset == 500
    download.take(message(500, 1024))
    assert download.close() == BODY


def test_bytes_that_are_not_those_named_are_given_up_by_all() -> None:
    store, other = ArtifactStore(), bytes(1024)
    first, second = Download(NAMED, store, "a:1"), Download(NAMED, store, "a:1")
    first.take(message(0, 1024, other))
    second.take(message(0, 700, other))
    with pytest.raises(Damaged, match="not those that the offer names"):
        first.close()
    with pytest.raises(Damaged, match="not those that the offer names"):
        second.take(message(700, 1024, other))
    assert (first.offset, second.offset, store.get(NAMED.sha256)) == (0, 0, None)
    second.take(message(0, 1024))
    assert second.close() == BODY


def test_a_driver_with_wrong_bytes_spoils_nothing_of_another() -> None:
    store = ArtifactStore()
    liar, honest = Download(NAMED, store, "a:1"), Download(NAMED, store, "b:1")
    liar.take(message(0, 800, bytes(1024)))
    honest.take(message(0, 1024))
    assert honest.close() == BODY


def test_what_nobody_fetches_any_more_is_forgotten() -> None:
    store = ArtifactStore()
    download = Download(NAMED, store, "a:1")
    download.take(message(0, 800))
    del download
    assert store.assembly("a:1", NAMED.sha256, NAMED.size).offset == 0


def test_a_device_remembers_the_artifacts_that_it_used_last_and_no_more() -> None:
    brought = Brought()
    code = bytes(32)
    for number in range(10_000):
        brought.add(number.to_bytes(32, "big"))
        brought.add(code)  # of the same job, round after round
    assert len(brought) == MOST_BROUGHT
    assert code in brought
    assert (9_999).to_bytes(32, "big") in brought
    assert (1).to_bytes(32, "big") not in brought
