"""The watch on a coordinator, and the books: each finds what it is there for."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from coordinator.engine import effects as done
from coordinator.engine.events import TaskFinished
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.model import AttemptEndReason, AttemptStatus, EngineSettings, LeaseEnd, Outcome
from job_driver.counting import AttemptNo
from job_driver.job import Result
from testbed.chaos.books import Books, JobBook
from testbed.chaos.script import DevicePlan, JobPlan
from testbed.chaos.tally import ROWS, Tally, response
from testbed.chaos.watch import Watch
from venn.v1 import common_pb2
from venn.wire import tensors
from venn.wire.chunks import digest_of

JOB = JobId("me/j0/1")
KEY = common_pb2.JobKey(owner="me", name="j0", run="1")


class Found(list[str]):
    """The names of what was found."""

    def note(self, what: str, text: str) -> None:
        self.append(what)


@pytest.fixture
def found() -> Found:
    return Found()


@pytest.fixture
def watch(found: Found) -> Watch:
    devices = {"d1": DevicePlan("d1", 2.0, 1.0), "d2": DevicePlan("d2", 8.0, 1.0)}
    own = Watch(devices, {"j0": JobPlan("j0", 0, 1, 1, size=1.0)}, EngineSettings(1, "fifo"), found.note)
    own.effect(0.0, accepted(AttemptStatus.OPEN))
    return own


def accepted(status: AttemptStatus) -> done.AcceptAttempt:
    return done.AcceptAttempt(RequestId(1), JOB, 1, 1, status, 1, 1, 60.0)


def offered(lease: int, device: str = "d1", job: JobId = JOB) -> done.OfferLease:
    return done.OfferLease(SessionSeq(1), DeviceId(device), LeaseSeq(lease), RequestId(1), job, 1, 1, 60.0)


def ended(lease: int, reason: LeaseEnd, device: str = "d1") -> done.EndLease:
    return done.EndLease(LeaseSeq(lease), DeviceId(device), RequestId(1), JOB, 1, 1, reason)


def closed(status: AttemptStatus, responses: int) -> done.EndAttempt:
    return done.EndAttempt(RequestId(1), JOB, 1, 1, status, AttemptEndReason.ENOUGH, responses)


WRONG: dict[str, Callable[[Watch], object]] = {
    "OFFERED_TWICE": lambda watch: [watch.effect(1.0, ended(1, LeaseEnd.LOST)), watch.effect(1.0, offered(1, "d2"))],
    "TWO_LEASES": lambda watch: watch.effect(1.0, offered(2)),
    "TOO_MANY": lambda watch: watch.effect(1.0, offered(2, "d2")),
    "ENDED_TWICE": lambda watch: [watch.effect(1.0, ended(1, why)) for why in (LeaseEnd.LOST, LeaseEnd.EXPIRED)],
    "LEASE_LEAKED": lambda watch: watch.overdue(60.0 + 30.0 + 1.5),
    "TWO_OUTCOMES": lambda watch: [
        watch.effect(1.0, closed(status, 1)) for status in (AttemptStatus.CLOSED, AttemptStatus.ABORTED)
    ],
    "CLOSED_EARLY": lambda watch: watch.effect(1.0, closed(AttemptStatus.CLOSED, 0)),
    "DO_NOT_ADD_UP": lambda watch: watch.add_up(0),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_watch_finds_what_must_not_be(watch: Watch, found: Found, what: str) -> None:
    watch.effect(1.0, offered(1))
    assert not found
    WRONG[what](watch)
    assert found[0] == what


def test_the_watch_finds_a_lease_of_a_device_that_is_not_eligible(watch: Watch, found: Found) -> None:
    watch.jobs["j0"] = JobPlan("j0", 0, 1, 1, size=4.0)
    watch.effect(1.0, offered(1))
    assert found == ["INELIGIBLE"]


def test_the_watch_is_content_with_an_ordinary_life(watch: Watch, found: Found) -> None:
    watch.effect(1.0, offered(1))
    watch.effect(2.0, done.MissLease(LeaseSeq(1), DeviceId("d1")))
    watch.effect(3.0, done.ResumeLease(LeaseSeq(1), DeviceId("d1"), SessionSeq(2)))
    watch.finished(TaskFinished(SessionSeq(2), LeaseSeq(1), Outcome.COUNTED))
    watch.effect(4.0, ended(1, LeaseEnd.COUNTED))
    watch.effect(4.0, closed(AttemptStatus.CLOSED, 1))
    watch.overdue(1e6)
    watch.add_up(0)
    assert not found


# -- the books


class Folder:
    """A driver's folder, and the books about it."""

    def __init__(self, folder: Path, found: Found) -> None:
        self.books = Books(found.note)
        self.books.jobs["j0"] = JobBook(False, folder)
        self._folder = folder
        self.manifest: list[dict[str, object]] = []
        self.made: dict[int, tuple[int, bytes]] = {}

    def respond(self, lease: int, device: str = "d1", *, told: int | None = common_pb2.OUTCOME_COUNTED) -> int:
        token = self.books.new_token()
        _, digest = response(token, 0)
        self.books.made(device, token, digest)
        self.made[lease] = token, digest
        if told is not None:
            self.tell(lease, told, device)
        return token

    def tell(self, lease: int, outcome: int, device: str = "d1") -> None:
        attempt = common_pb2.AttemptKey(job=KEY, round=1, attempt=1)
        receipt = common_pb2.Receipt(lease=lease, attempt=attempt, digest=self.made[lease][1])
        receipt.outcome = outcome  # type: ignore[assignment]
        self.books.receipt(device, 17, receipt)

    def write(self, lease: int, outcome: str = "counted", device: str = "d1") -> None:
        line = {"kind": "response", "lease": lease, "incarnation": 17, "round": 1, "attempt": 1}
        self.manifest.append(line | {"device": device, "outcome": outcome})

    def close(self, *tokens: int, attempt: int = 1) -> None:
        line = {"kind": "attempt", "round": 1, "attempt": attempt, "status": "closed"}
        self.manifest.append(line)
        rows = np.zeros((3, 1), np.int64)
        rows[0, : len(tokens)] = tokens
        data = tensors.encode({ROWS: rows})
        (self._folder / "checkpoint.tensors").write_bytes(data)
        (self._folder / "checkpoint.json").write_text(json.dumps({"model_digest": digest_of(data).hex()}))

    def check(self) -> None:
        (self._folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.manifest))
        self.books.check_folder("j0")


@pytest.fixture
def folder(tmp_path: Path, found: Found) -> Folder:
    return Folder(tmp_path, found)


def test_the_books_are_content_with_a_round(folder: Folder, found: Found) -> None:
    token = folder.respond(1)
    folder.write(1)
    folder.close(token)
    folder.books.counted("j0", 17, 1, "d1")
    folder.check()
    assert not found


def test_a_response_that_counted_and_is_not_in_the_model_is_lost(folder: Folder, found: Found) -> None:
    folder.respond(1)
    folder.write(1)
    other = folder.respond(2, "d2", told=None)
    folder.close(other)
    folder.check()
    assert found == ["LOST"]


def test_what_was_told_and_not_written_down_is_found(folder: Folder, found: Found) -> None:
    folder.respond(1)
    folder.check()
    assert found == ["NOT_WRITTEN_DOWN"]


def test_a_device_that_is_told_two_things_is_found(folder: Folder, found: Found) -> None:
    folder.respond(1, told=common_pb2.OUTCOME_STRAGGLER)
    folder.tell(1, common_pb2.OUTCOME_COUNTED)
    assert found == ["TOLD_TWICE"]


def test_a_receipt_for_anothers_response_is_found(folder: Folder, found: Found) -> None:
    folder.respond(1, told=None)
    folder.tell(1, common_pb2.OUTCOME_COUNTED, "d2")
    assert found == ["FOREIGN_RECEIPT"]


def test_two_decisions_on_a_lease_are_found(folder: Folder, found: Found) -> None:
    folder.write(1, "straggler")
    folder.write(1)
    folder.check()
    assert found == ["DECIDED_TWICE"]


def test_a_device_that_counts_twice_in_a_round_is_found_unless_it_may(folder: Folder, found: Found) -> None:
    folder.write(1)
    folder.write(2)
    folder.books.jobs["j0"].repeat = True
    folder.check()
    assert not found
    folder.books.jobs["j0"].repeat = False
    folder.check()
    assert found == ["DEVICE_TWICE"]


def test_a_coordinator_that_counts_what_its_driver_does_not_is_found(folder: Folder, found: Found) -> None:
    folder.books.counted("j0", 17, 1, "d1")
    folder.check()
    assert found == ["COUNTED_WITHOUT"]


def test_a_model_that_forgets_or_changes_a_round_is_found(folder: Folder, found: Found) -> None:
    token, other = folder.respond(1, told=None), folder.respond(2, "d2", told=None)
    folder.close(token)
    folder.check()
    folder.close(other)
    folder.check()
    assert found == ["ROUND_CHANGED"]
    folder.close()
    folder.check()
    assert found[1] == "ROUND_LOST"


def test_a_round_that_closes_as_two_attempts_is_found(folder: Folder, found: Found) -> None:
    token = folder.respond(1, told=None)
    folder.close(token)
    folder.close(token, attempt=2)
    folder.check()
    assert found == ["CLOSED_TWICE"]
    assert folder.books.jobs["j0"].closed == {1: AttemptNo(1, 1)}


def test_what_no_device_has_made_is_found_in_a_model(folder: Folder, found: Found) -> None:
    folder.close(42)
    folder.check()
    assert found == ["FORGED"]


def test_the_tally_lists_the_responses_of_each_round() -> None:
    model = {ROWS: np.zeros((2, 2), np.int64)}
    for round_ in (1, 2):
        tally = Tally(model)
        for token in (1, 2):
            body, _ = response(10 * round_ + token, 0)
            arrays = tensors.decode(body)
            tally.add(Result(arrays))
        model = dict(tally.close())
    assert model[ROWS].tolist() == [[11, 12], [21, 22]]
