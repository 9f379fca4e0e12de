"""When a machine is too busy, or too small: told once, of each kind."""

import json
from pathlib import Path

import pytest

from testbed.live.backend.prepare import Capacity, Need, capacity, need, prepare, shortfalls
from testbed.live.host import HostMonitor, Sample
from testbed.report.host import BUSY_FOR_S
from testbed.runfolder.paths import RunFolder
from testbed.scenario import Scenario

Stalled = tuple[float, float]  # Unix time of the end, seconds


def row(*stalls: Stalled) -> dict[str, object]:
    """Of a load.jsonl."""
    return {"at": 0.0, "lag_p99_s": 0.0, "stalls": [list(one) for one in stalls]}


class Watched:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[str] = []
        self.monitor = HostMonitor(folder / "host.jsonl", folder, self.warnings.append)

    def seconds(self, *fractions: float) -> None:
        for fraction in fractions:
            self.monitor.judge(Sample(0.0, fraction, 10**9))

    def own_loop(self, *stalls: Stalled) -> None:
        self.monitor.judge(Sample(0.0, 0.1, 10**9, row(*stalls)))

    def load(self, place: str, *lines: dict[str, object], torn: str = "") -> None:
        path = self.folder / place / "load.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines) + torn)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_processor_is_busy_after_five_busy_seconds(watched: Watched) -> None:
    watched.seconds(*[0.99] * (BUSY_FOR_S - 1), 0.2, *[0.99] * (BUSY_FOR_S - 1))
    assert watched.warnings == []
    watched.seconds(0.99, 0.99)
    assert watched.warnings == ["the processor is over 85% busy: do not trust this run's times"]


def test_a_process_that_stands_still_again_and_again_is_named_and_once(watched: Watched) -> None:
    watched.load(".", row((10.0, 0.2), (12.0, 0.2)))
    watched.load("jobs/wide", row((10.0, 0.2), (11.0, 0.07), (12.0, 0.07)), torn='{"stalls": [[9')
    watched.seconds(0.1, 0.1)
    said = "stalls repeatedly, for {} ms now: this machine is too busy"
    assert watched.warnings == [f"wide {said.format(70)}"]
    watched.load(".", row((14.9, 0.09)))
    watched.seconds(0.1)
    assert watched.warnings[1:] == [f"coordinator {said.format(90)}"]


def test_a_few_stalls_apart_are_no_warning(watched: Watched) -> None:
    for end in (10.0, 13.0, 15.1, 30.0):
        watched.load(".", row((end, 0.3)))
        watched.seconds(0.1)
    assert watched.warnings == []


def test_what_happens_while_parts_are_being_started_is_no_warning(watched: Watched) -> None:
    watched.monitor = HostMonitor(
        watched.folder / "host.jsonl", watched.folder, watched.warnings.append, begins=lambda: 20.0
    )
    for at in range(30):
        watched.monitor.judge(Sample(float(at), 0.99 if at < 24 else 0.1, 10**9, row((19.0, 3.0))))
    assert watched.warnings == []
    for at in range(30, 35):
        watched.monitor.judge(Sample(float(at), 0.99, 10**9))
    assert len(watched.warnings) == 1


def test_our_own_event_loop_is_watched_as_well(watched: Watched) -> None:
    watched.own_loop((10.0, 0.9))
    watched.own_loop((20.0, 1.2))
    assert watched.warnings == ["venn run stalled for 1.2 s: do not trust this run's times"]


@pytest.mark.parametrize(("done", "late", "told"), [(49, 40, 0), (100, 2, 0), (100, 3, 1)])
def test_late_tasks_count_by_their_share(watched: Watched, done: int, late: int, told: int) -> None:
    watched.load("devices/swarm", {**row(), "leases_done": done, "leases_late": late})
    watched.seconds(0.1)
    assert len(watched.warnings) == told


def test_logs_that_are_empty_or_torn_say_nothing(watched: Watched) -> None:
    watched.load("devices/a", torn='{"lag_p')
    watched.load("devices/b", torn="[1]\n")
    watched.load("devices/c")
    watched.seconds(0.1)
    assert watched.warnings == []


LARGE = Capacity(cores=8, memory_bytes=16 * 10**9, files=65536)


def test_a_large_machine_lacks_nothing(scenario: Scenario, folder: RunFolder) -> None:
    assert shortfalls(need(scenario, prepare(scenario, folder), LARGE.cores), LARGE) == []


def test_the_need_counts_programs_workers_and_connections(scenario: Scenario, folder: RunFolder) -> None:
    asked = need(scenario, prepare(scenario, folder), cores=2)
    assert asked.programs == 1 + 2 + 3  # coordinator, drivers, a swarm and two devices
    assert 0.4e9 < asked.memory_bytes < 0.6e9
    assert asked.files == 64 + 5 + 4  # five devices in the swarm, four places in the jobs


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Need(programs=10, memory_bytes=20 * 10**9, files=100), "about 20.0 GB of memory and 16.0 GB are free"),
        (Need(programs=65, memory_bytes=10**9, files=100), "65 programs share 8 cores"),
        (Need(programs=10, memory_bytes=10**9, files=70_000), "about 70000 open files and may have 65536"),
    ],
)
def test_what_a_machine_lacks_is_one_line_with_a_way_out(asked: Need, told: str) -> None:
    [line] = shortfalls(asked, LARGE)
    assert line.startswith("this machine is too small: ")
    assert told in line
    assert ";" in line


def test_this_machine_has_something() -> None:
    have = capacity()
    assert have.cores >= 1
    assert have.memory_bytes > 0
    assert have.files > 0


def test_what_stands_still_on_purpose_is_not_told(watched: Watched) -> None:
    watched.monitor = HostMonitor(
        watched.folder / "host.jsonl", watched.folder, watched.warnings.append, {"coordinator", "bench-01"}
    )
    for place in (".", "devices/bench-01", "jobs/wide"):
        watched.load(place, row((10.0, 2.0)))
    watched.seconds(0.1)
    assert watched.warnings == ["wide stalled for 2.0 s: do not trust this run's times"]
