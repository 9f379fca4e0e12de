"""Responses on their way: what is kept of them, and when it goes."""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from job_driver.aggregation import Aggregation
from job_driver.bundle import JobFile
from job_driver.client import Recorder
from job_driver.counting import AttemptNo, Collector, Outcome, Receipts, Status
from job_driver.form import ResponseForm
from job_driver.job import Arrays, Job, Result
from job_driver.responses import Responses
from job_driver.spool import MANIFEST, Mapped, Refused, ResponseHeader, Spool
from job_driver.upload import Upload, Uploads
from venn.wire import tensors
from venn.wire.bounds import Refusals
from venn.wire.chunks import SMALL_BYTES, digest_of
from venn.wire.files import read_json_lines
from venn.wire.tensors import ALIGNMENT

SIZE = 1000


class Anything:
    """An aggregator that takes responses of any form."""

    same_as_model = False

    def __init__(self, model: Arrays) -> None:
        pass

    def add(self, result: Result) -> None:
        pass

    def close(self) -> Arrays:
        return {}


ANY_FORM = Job(initial=dict, on_device=dict, aggregate=Anything)  # type: ignore[arg-type]
FORM = ResponseForm({}, 0, ANY_FORM, responses=2, most_bytes=SIZE)

FREE_DISK = 1_000_000


class NoSum:
    """Nothing is summed."""

    def add(self, header: object, path: object) -> None:
        pass


class NoLink:
    """Nobody is told: the recorder does not run."""


class Side:
    """The uploads of a folder."""

    def __init__(self, folder: Path, threads: ThreadPoolExecutor, *, asynchronous: bool = False) -> None:
        self.folder, self._threads = folder / "spool", threads
        self.spool = Spool(folder)
        self.receipts = Receipts(Collector(2, asynchronous=asynchronous), keep_s=1.0)
        self.responses = Responses(self.receipts, self.spool, Recorder(NoLink()))  # type: ignore[arg-type]
        self.uploads = Uploads(self.responses, self.spool, threads, free_disk=FREE_DISK, refusals=Refusals())

    def open(self, no: AttemptNo) -> None:
        self.responses.open(no, FORM, NoSum(), incarnation=1)  # type: ignore[arg-type]

    async def submit(self, no: AttemptNo, lease: int) -> Outcome:
        """A small response, whole."""
        body = tensors.encode({"w": np.zeros(3)})
        header = ResponseHeader(no, lease, f"d{lease}", len(body), digest_of(body), 1.0)
        upload, _ = self.uploads.begin(header, 60.0)
        await upload.append(0, memoryview(body))
        decision, _ = await self.uploads.acknowledge(header)
        return decision.outcome

    async def begin(self, no: AttemptNo, lease: int, *, size: int = SIZE) -> Upload:
        """An upload, and its first 100 bytes if there are none."""
        upload, _ = self.uploads.begin(ResponseHeader(no, lease, f"d{lease}", size, bytes(32), 1.0), 60.0)
        if upload.offset == 0:
            await upload.append(0, memoryview(bytes(100)))
        return upload

    def hang_up(self, upload: Upload) -> None:
        assert upload.writer is not None
        self.uploads.leave(upload, upload.writer)

    def parts(self) -> int:
        """Files of uploads, once what the one thread was told to do is done."""
        self._threads.submit(lambda: None).result()
        return len(list(self.folder.glob("*.part")))


@pytest.fixture
async def side(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Side]:
    with ThreadPoolExecutor(1) as threads:
        side = Side(tmp_path, threads, asynchronous=getattr(request, "param", "") == "asynchronous")
        yield side
        side.uploads.close()
        side.spool.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("first", ["the device", "the attempt"])
async def test_uploads_of_an_attempt_that_ended_are_forgotten_though_no_lease_is_told_over(
    side: Side, first: str
) -> None:
    """A coordinator that started again tells nothing about the leases of the one before."""
    before = descriptors()
    for number in range(1, 6):
        no = AttemptNo(1, number)
        side.open(no)
        uploads = [await side.begin(no, lease) for lease in range(1, 11)]
        assert side.parts() == 10
        if first == "the device":
            for upload in uploads:
                side.hang_up(upload)
            assert side.parts() == 10
        side.receipts.end(no, Status.ABORTED, 0.0)
        side.uploads.review()
        if first == "the attempt":
            assert side.parts() == 10
            for upload in uploads:
                side.hang_up(upload)
        assert (side.parts(), descriptors()) == (0, before)


async def test_an_upload_ends_as_soon_as_its_round_has_enough(side: Side) -> None:
    """Before the coordinator has said so."""
    no = AttemptNo(1, 1)
    side.open(no)
    side.hang_up(await side.begin(no, 3))
    assert await side.submit(no, 1) is Outcome.COUNTED
    assert side.parts() == 1
    assert await side.submit(no, 2) is Outcome.COUNTED
    assert side.parts() == 0


async def test_an_upload_waits_for_its_device_while_it_can_count(side: Side) -> None:
    no = AttemptNo(1, 1)
    side.open(no)
    upload = await side.begin(no, 1)
    side.hang_up(upload)
    side.uploads.review()
    assert await side.begin(no, 1) is upload


@pytest.mark.parametrize("side", ["asynchronous"], indirect=True)
async def test_an_asynchronous_upload_outlives_its_round_but_not_its_request(side: Side) -> None:
    receipts = side.receipts
    side.open(AttemptNo(1, 1))
    side.hang_up(await side.begin(AttemptNo(1, 1), 1))
    receipts.end(AttemptNo(1, 1), Status.CLOSED, 0.0)
    side.uploads.review()
    side.open(AttemptNo(2, 1))
    side.uploads.review()
    assert side.parts() == 1
    receipts.end(AttemptNo(2, 1), Status.ABORTED, 0.0)
    side.uploads.review()
    assert side.parts() == 0


@pytest.mark.parametrize("side", ["asynchronous"], indirect=True)
async def test_what_could_not_count_but_may_when_it_is_decided_is_asked_for_its_bytes(side: Side) -> None:
    """Its device counts in the buffer, so they were not taken; but the buffer is full before the word on it is said."""
    uploads, receipts, no = side.uploads, side.receipts, AttemptNo(1, 1)
    second = ResponseHeader(no, 2, "d1", SIZE, bytes(32), 1.0)
    side.open(no)
    receipts.decide(no, 1, "d1", bytes(32))
    assert not side.responses.wants(second)
    receipts.decide(no, 3, "d3", bytes(32))
    deciding = asyncio.create_task(uploads.acknowledge(second))
    await asyncio.wait([deciding], timeout=0.01)
    receipts.end(no, Status.CLOSED, 0.0)
    side.open(AttemptNo(2, 1))
    side.uploads.review()
    with pytest.raises(Refused) as caught:
        await deciding
    assert caught.value.reason == "BYTES_NEEDED"
    assert side.responses.wants(second)


async def test_a_used_file_is_taken_again_but_never_cut_short(side: Side) -> None:
    """A process that still reads it in place would be killed: reading past the end of a mapped file is SIGBUS."""
    one, two = AttemptNo(1, 1), AttemptNo(1, 2)
    side.open(one)
    for lease in (1, 2):
        side.spool.path(one, lease).write_bytes(bytes(SIZE))
    used = [os.open(side.spool.path(one, lease), os.O_RDONLY) for lease in (1, 2)]
    side.receipts.end(one, Status.ABORTED, 0.0)
    side.spool.discard(one)
    side.open(two)
    smaller, same = await side.begin(two, 3, size=SIZE - 1), await side.begin(two, 4)
    assert [os.fstat(each).st_size for each in used] == [SIZE, SIZE]
    assert smaller.path.stat().st_size == 100
    assert os.path.samestat(same.path.stat(), os.fstat(used[0]))
    for each in used:
        os.close(each)


class Disk:
    """The first write waits until it is told to go on; where the test stands is the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on, self.met = threading.Event(), threading.Event()
        self.loop_waited = False
        self._write, self._loop = os.pwrite, threading.get_ident()
        monkeypatch.setattr(os, "pwrite", self._pwrite)

    def _pwrite(self, descriptor: int, data: memoryview, offset: int) -> int:
        self.loop_waited |= threading.get_ident() == self._loop
        self.met.set()
        if not self.loop_waited:
            self.go_on.wait()
        return self._write(descriptor, data, offset)


async def test_the_loop_goes_on_while_a_slow_disk_writes(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, no = Disk(monkeypatch), AttemptNo(1, 1)
    side.open(no)
    beginning = asyncio.create_task(side.begin(no, 1))
    await asyncio.to_thread(disk.met.wait)
    done = beginning.done()
    disk.go_on.set()
    upload = await beginning
    assert (done, disk.loop_waited, upload.offset) == (False, False, 100)


async def test_a_newer_writer_begins_behind_what_an_older_one_still_writes(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, no = Disk(monkeypatch), AttemptNo(1, 1)
    side.open(no)
    older = asyncio.create_task(side.begin(no, 1))
    await asyncio.to_thread(disk.met.wait)
    older.cancel()
    upload, _ = side.uploads.begin(ResponseHeader(no, 1, "d1", SIZE, bytes(32), 1.0), 60.0)
    waiting = asyncio.create_task(upload.settled())
    await asyncio.sleep(0)
    waits = not waiting.done()
    disk.go_on.set()
    await waiting
    assert (waits, upload.offset) == (True, 100)
    await upload.append(100, memoryview(bytes(100)))
    assert upload.path.stat().st_size == 200


async def test_what_is_forgotten_while_it_is_written_leaves_nothing(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, no, before = Disk(monkeypatch), AttemptNo(1, 1), descriptors()
    side.open(no)
    beginning = asyncio.create_task(side.begin(no, 1))
    await asyncio.to_thread(disk.met.wait)
    [upload] = side.uploads._uploads.values()
    assert upload.writer is not None
    side.uploads.leave(upload, upload.writer)
    side.receipts.lease_ended(no, 1, "expired")
    side.uploads.review()
    disk.go_on.set()
    await beginning
    assert (side.parts(), descriptors()) == (0, before)


class Threads(ThreadPoolExecutor):
    """Counts what it is given."""

    given = 0

    def submit(self, *arguments: Any, **more: Any) -> Any:
        self.given += 1
        return super().submit(*arguments, **more)


@pytest.mark.parametrize(
    ("size", "fsync", "on_threads", "kept_on_loop"),
    [(SMALL_BYTES, False, 0, True), (SMALL_BYTES, True, 0, False), (SMALL_BYTES + 8, False, 2, False)],
)
async def test_a_small_response_is_handed_to_a_thread_only_where_a_disk_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, fsync: bool, on_threads: int, kept_on_loop: bool
) -> None:
    """A large one is written, looked at, kept and let go of there. Either is on disk when it is acknowledged."""
    no, threads = AttemptNo(1, 1), Threads(1)
    keep, kept = Spool.keep, list[int]()

    def tell(self: Spool, *arguments: Any) -> None:
        kept.append(threading.get_ident())
        keep(self, *arguments)

    monkeypatch.setattr(Spool, "keep", tell)
    body = tensors.encode({"w": np.zeros(size - ALIGNMENT, np.uint8)})
    assert len(body) == size
    model = {"w": np.zeros(size - ALIGNMENT, np.uint8)}
    spool = Spool(tmp_path, fsync=fsync)
    recorder = Recorder(NoLink())  # type: ignore[arg-type]
    responses = Responses(Receipts(Collector(3)), spool, recorder)
    uploads = Uploads(responses, spool, threads, free_disk=FREE_DISK, refusals=Refusals())
    file = JobFile(Job(initial=dict, on_device=dict), Path("job.py"), b"")  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as thread:
        form = ResponseForm(model, size, file.job, responses=3, most_bytes=size)
        responses.open(no, form, Aggregation(file, model, thread, in_lease_order=True), incarnation=1)
        header = ResponseHeader(no, 1, "d1", size, digest_of(body), 1.0)
        upload, _ = uploads.begin(header, 60.0)
        await upload.append(0, memoryview(body))
        decision, new = await uploads.acknowledge(header)
    assert (decision.outcome, decision.reason, new, threads.given) == (Outcome.COUNTED, "", True, on_threads)
    assert [ident == threading.get_ident() for ident in kept] == [kept_on_loop]
    assert spool.path(no, 1).read_bytes() == body
    assert [line["lease"] for line in read_json_lines(tmp_path / MANIFEST)] == [1]
    threads.shutdown()
    assert list((tmp_path / "spool").glob("*.part")) == []
    uploads.close()
    spool.close()


async def test_a_transfer_that_finds_no_file_free_is_tried_again(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large response as it begins, of a small one as it is decided. It ended the job."""
    no, real = AttemptNo(1, 1), os.open
    side.open(no)
    body = tensors.encode({"w": np.zeros(3)})
    header = ResponseHeader(no, 1, "d1", len(body), digest_of(body), 1.0)
    left = 1

    def scarce(*arguments: Any, **more: Any) -> int:
        nonlocal left
        if ".part" in str(arguments[0]) and left:
            left -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(*arguments, **more)

    monkeypatch.setattr(os, "open", scarce)
    upload, _ = side.uploads.begin(header, 60.0)
    await upload.append(0, memoryview(body))
    with pytest.raises(Refused, match="files open") as refused:
        await side.uploads.acknowledge(header)
    assert refused.value.reason == "OPEN_FILES"
    assert await side.submit(no, 1) is Outcome.COUNTED

    left = 1
    second = ResponseHeader(no, 2, "d2", len(body), digest_of(body), 1.0)
    upload, _ = side.uploads.begin(second, 60.0)
    for _ in range(2):
        with suppress(Refused):
            await upload.append(0, memoryview(body)[:50])
    assert (left, upload.offset) == (0, 50)
    failing = asyncio.ensure_future(side.responses.disk.fail())
    await asyncio.sleep(0)
    assert not failing.done()
    failing.cancel()


def test_a_sum_waits_for_a_file_that_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real, tries = tmp_path / "response", open, 0
    path.write_bytes(tensors.encode({"w": np.ones(3)}))

    def scarce(*arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
        return real(*arguments)

    monkeypatch.setattr("builtins.open", scarce)
    monkeypatch.setattr("job_driver.spool.FILES_EVERY_S", 0.0)
    assert Mapped(path)["w"].sum() == 3.0
    monkeypatch.setattr("job_driver.spool.FILES_WITHIN_S", -1.0)
    tries = 0
    with pytest.raises(OSError, match="Too many open files"):
        Mapped(path)


async def test_a_response_is_refused_before_its_bytes_where_the_disk_has_no_room_and_taken_once_it_has(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    no = AttemptNo(1, 1)
    side.open(no)
    free = [FREE_DISK + SIZE - 1]
    monkeypatch.setattr(side.spool, "free_bytes", lambda: free[0])
    with pytest.raises(Refused) as caught:
        await side.begin(no, 1)
    assert caught.value.reason == "OUT_OF_SPACE"
    assert side.parts() == 0
    free[0] += 1
    upload = await side.begin(no, 1)
    free[0] = 0
    assert await side.begin(no, 1) is upload  # it has its room already
