"""What the shell keeps of a job is bounded, and a follower finds its place in it."""

import asyncio
from collections.abc import Callable

import pytest

from coordinator.engine.ids import JobId
from coordinator.engine.model import EngineSettings
from coordinator.service import jobs
from coordinator.service.convert import jobs as convert
from coordinator.service.jobs import History, Job
from venn.v1 import common_pb2, job_pb2

FRAME_BYTES = len(job_pb2.FollowJobResponse(seq=99).SerializeToString()) + jobs.FRAME_OVERHEAD_BYTES


def history(frames: int, *, kept: int = 1_000, most: int = 10_000) -> History:
    """``kept`` and ``most`` are frames."""
    made = History(kept * FRAME_BYTES, most * FRAME_BYTES)
    for _ in range(frames):
        made.append(job_pb2.FollowJobResponse())
    return made


def seqs(made: History, after: int, most: int = 100) -> list[int]:
    return [job_pb2.FollowJobResponse.FromString(raw).seq for raw in made.after(after, most)]


def test_frames_are_numbered_from_one_and_read_after_any() -> None:
    made = history(5)
    assert (made.first, made.last) == (1, 5)
    assert seqs(made, 0) == [1, 2, 3, 4, 5]
    assert seqs(made, 3) == [4, 5]
    assert seqs(made, 1, most=2) == [2, 3]
    assert seqs(made, 5) == []


def test_an_empty_history_has_nothing() -> None:
    made = history(0)
    assert (made.first, made.last) == (1, 0)
    assert seqs(made, 0) == []


def test_what_was_sent_goes_at_a_bound_and_what_was_not_at_a_higher_one() -> None:
    made = history(25, kept=10, most=30)
    assert (made.first, made.last) == (1, 25)
    made.told(20)
    assert (made.first, made.bytes) == (16, 10 * FRAME_BYTES)
    for _ in range(50):
        made.append(job_pb2.FollowJobResponse())
    assert (made.first, made.last, made.bytes) == (46, 75, 30 * FRAME_BYTES)


def test_of_a_job_that_has_ended_only_what_its_follower_lacks_is_kept() -> None:
    made = history(25)
    made.told(20)
    made.end()
    assert seqs(made, made.first - 1) == [21, 22, 23, 24, 25]
    made.told(25)
    assert (made.first, made.last, made.bytes) == (26, 25, 0)


def test_the_end_of_an_attempt_is_kept_beside_the_end_of_every_lease_that_there_can_be() -> None:
    made, key = History(), convert.attempt_key(JobId("ann/digits/1"), 12_345, 6)
    device = "d" * 64  # the longest name
    made.append(job_pb2.FollowJobResponse(attempt_ended=job_pb2.AttemptEnded(attempt=key)))
    for lease in range(EngineSettings(seed=1, policy="").most_sessions):
        end = job_pb2.LeaseEnded(lease=2**40 + lease, attempt=key, device=device, reason=common_pb2.LEASE_END_REVOKED)
        made.append(job_pb2.FollowJobResponse(ended=end))
    assert made.first == 1


def job() -> Job:
    return Job(JobId("ann/digits/1"), "127.0.0.1:1", 1)


def test_an_attempt_keeps_its_body() -> None:
    made = job()
    assert made.same_body(1, 1, b"task")
    assert made.same_body(1, 1, b"task")
    assert not made.same_body(1, 1, b"another")
    assert made.same_body(1, 2, b"another")
    made.forget(1, 1)
    assert made.same_body(1, 1, b"another")


def test_bodies_and_metrics_are_bounded() -> None:
    made = job()
    for round_ in range(jobs.MOST_ATTEMPTS + 10):
        made.same_body(round_, 1, b"task")
    assert len(made.bodies) == jobs.MOST_ATTEMPTS
    for round_ in range(100):
        made.report(round_, {"accuracy": round_ / 100})
    made.report(99, {"accuracy": 1.0})
    assert [entry[0] for entry in made.metrics] == list(range(36, 100))
    assert made.metrics[-1][1] == {"accuracy": 1.0}


def test_keys_are_per_job() -> None:
    assert job().ticket_key != job().ticket_key
    assert len(job().ticket_key) == 32


async def test_frames_that_can_wait_leave_together_and_with_the_first_that_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers = []

    class Timer:
        cancelled = False

        def __init__(self, delay: float, fire: Callable[[], None]) -> None:
            self.delay, self.fire = delay, fire
            timers.append(self)

        def cancel(self) -> None:
            self.cancelled = True

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", Timer)
    job, frame = Job(JobId("ann/digits/1"), "127.0.0.1:1", 1), job_pb2.FollowJobResponse
    changed = job.changed()
    for _ in range(3):
        job.tell(frame(), can_wait=True)
    assert ([timer.delay for timer in timers], changed.is_set()) == ([jobs.GATHER_S], False)
    timers[0].fire()
    assert (changed.is_set(), job.history.last) == (True, 3)
    changed = job.changed()
    job.tell(frame(), can_wait=True)
    job.tell(frame())
    assert ([timer.cancelled for timer in timers], changed.is_set()) == ([True, True], True)
