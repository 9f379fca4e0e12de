"""What the shell keeps of a job is bounded, and a follower finds its place in it."""

from coordinator.engine.ids import JobId
from coordinator.service import jobs
from coordinator.service.jobs import History, Job
from venn.v1 import job_pb2


def history(frames: int, most: int = 10) -> History:
    made = History(most)
    for _ in range(frames):
        made.append(job_pb2.FollowJobResponse())
    return made


def test_frames_are_numbered_from_one_and_read_after_any() -> None:
    made = history(5)
    assert (made.first, made.last) == (1, 5)
    assert [frame.seq for frame in made.after(0, 100)] == [1, 2, 3, 4, 5]
    assert [frame.seq for frame in made.after(3, 100)] == [4, 5]
    assert [frame.seq for frame in made.after(1, 2)] == [2, 3]
    assert made.after(5, 100) == []


def test_an_empty_history_has_nothing() -> None:
    made = history(0)
    assert (made.first, made.last) == (1, 0)
    assert made.after(0, 100) == []


def test_the_oldest_frames_go() -> None:
    made = history(25, most=10)
    assert (made.first, made.last) == (16, 25)
    assert [frame.seq for frame in made.after(made.first - 1, 3)] == [16, 17, 18]


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
