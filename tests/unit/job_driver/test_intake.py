"""Responses on their way: what is kept of them, and when it goes."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from job_driver.intake import Announcement, Intake, Upload
from job_driver.rounds import AttemptNo, Rounds, Status
from job_driver.spool import Spool

SIZE = 1000


class Desk:
    """An intake on a folder."""

    def __init__(self, folder: Path, inspectors: ThreadPoolExecutor, *, asynchronous: bool = False) -> None:
        self.folder = folder / "spool"
        self.spool = Spool(folder)
        rounds = Rounds(keep_s=1.0, asynchronous=asynchronous)
        self.intake = Intake(rounds, self.spool, inspectors, decided=lambda _: None, failed=pytest.fail)

    def begin(self, no: AttemptNo, lease: int, *, size: int = SIZE) -> Upload:
        return self.intake.begin(Announcement(no, lease, f"d{lease}", size, bytes(32), 1.0), 60.0)

    def hang_up(self, upload: Upload) -> None:
        assert upload.writer is not None
        self.intake.leave(upload, upload.writer)

    def parts(self) -> int:
        return len(list(self.folder.glob("*.part")))


@pytest.fixture
def desk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    with ThreadPoolExecutor(1) as inspectors:
        desk = Desk(tmp_path, inspectors, asynchronous=getattr(request, "param", "") == "asynchronous")
        yield desk
        desk.intake.close()
        desk.spool.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("first", ["the device", "the attempt"])
async def test_uploads_of_an_attempt_that_ended_are_forgotten_though_no_lease_is_told_over(
    desk: Desk, first: str
) -> None:
    """A coordinator that started again tells nothing about the leases of the one before."""
    before = descriptors()
    for number in range(1, 6):
        no = AttemptNo(1, number)
        desk.intake.rounds.open(no, 3)
        uploads = [desk.begin(no, lease) for lease in range(1, 11)]
        assert desk.parts() == 10
        if first == "the device":
            for upload in uploads:
                desk.hang_up(upload)
            assert desk.parts() == 10
        desk.intake.rounds.end(no, Status.ABORTED, 0.0)
        desk.intake.sweep()
        if first == "the attempt":
            assert desk.parts() == 10
            for upload in uploads:
                desk.hang_up(upload)
        assert (desk.parts(), descriptors()) == (0, before)


async def test_an_upload_waits_for_its_device_while_it_can_count(desk: Desk) -> None:
    no = AttemptNo(1, 1)
    desk.intake.rounds.open(no, 3)
    upload = desk.begin(no, 1)
    desk.hang_up(upload)
    desk.intake.sweep()
    assert desk.begin(no, 1) is upload


@pytest.mark.parametrize("desk", ["asynchronous"], indirect=True)
async def test_an_asynchronous_upload_outlives_its_round_but_not_its_request(desk: Desk) -> None:
    rounds = desk.intake.rounds
    rounds.open(AttemptNo(1, 1), 3)
    desk.hang_up(desk.begin(AttemptNo(1, 1), 1))
    rounds.end(AttemptNo(1, 1), Status.CLOSED, 0.0)
    desk.intake.sweep()
    rounds.open(AttemptNo(2, 1), 3)
    desk.intake.sweep()
    assert desk.parts() == 1
    rounds.end(AttemptNo(2, 1), Status.ABORTED, 0.0)
    desk.intake.sweep()
    assert desk.parts() == 0


async def test_a_used_file_is_taken_again_but_never_cut_short(desk: Desk) -> None:
    """A process that still reads it in place would be killed: reading past the end of a mapped file is SIGBUS."""
    one, two = AttemptNo(1, 1), AttemptNo(1, 2)
    desk.intake.rounds.open(one, 3)
    for lease in (1, 2):
        desk.spool.path(one, lease).write_bytes(bytes(SIZE))
    used = [os.open(desk.spool.path(one, lease), os.O_RDONLY) for lease in (1, 2)]
    desk.intake.rounds.end(one, Status.ABORTED, 0.0)
    desk.spool.discard(one)
    desk.intake.rounds.open(two, 3)
    smaller, same = desk.begin(two, 3, size=SIZE - 1), desk.begin(two, 4)
    assert [os.fstat(each).st_size for each in used] == [SIZE, SIZE]
    assert smaller.path.stat().st_size == 0
    assert os.path.samestat(same.path.stat(), os.fstat(used[0]))
    for each in used:
        os.close(each)
