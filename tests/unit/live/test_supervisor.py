"""What a run makes of programs that die, fail, or take too long; the programs only pretend to be ours."""

import asyncio
import signal

import pytest

from testbed.live import supervisor as worlds
from testbed.live.backend.prepare import prepare
from testbed.live.backend.protocol import Run
from testbed.live.injector import Faults
from testbed.live.processes.backend import Processes
from testbed.live.processes.programs import Program
from testbed.live.supervisor import Supervisor
from testbed.runfolder.paths import RunFolder
from testbed.scenario import Scenario
from testbed.world.timeline import Action, Verb
from tests.unit.live.conftest import Stage, lives, until
from venn.wire.errors import PeerError, UsageError, VennError

ERROR = '{"error": {"reason": "R", "message": "no good", "where": "w", "fix": "f"}}'
READY = ["announce", "wait"]


class Played:
    """A supervisor, and what it said."""

    def __init__(self, scenario: Scenario, folder: RunFolder) -> None:
        self.said: list[str] = []
        self.warned: list[str] = []
        prepared = prepare(scenario, folder)
        self.supervisor = Supervisor(
            scenario,
            folder,
            prepared,
            backend=Processes(Run(scenario, folder, prepared, False, False, self.warned.append)),
            say=self.said.append,
            warn=self.warned.append,
        )

    async def play(self) -> VennError | None:
        """To its end; nothing of it is left. What ended it, if it was an error."""
        try:
            await self.supervisor.start()
            await self.supervisor.until_done()
        except VennError as error:
            return error
        finally:
            programs = [
                self.supervisor._coordinator,
                *self.supervisor._drivers.values(),
                *self.supervisor._hosts.values(),
            ]
            groups = [one.pid for one in programs if isinstance(one, Program) and one._process is not None]
            await self.supervisor.stop()
            assert not [group for group in groups if lives(group)]
        return None


@pytest.fixture
def played(scenario: Scenario, folder: RunFolder) -> Played:
    return Played(scenario, folder)


def names(stage: Stage, command: str) -> list[str]:
    """Who was started as a ``command``: the values of its --name, or of its --from."""
    flag = "--name" if command == "job" else "--from"
    words = [words for words in stage.started() if words[0] == command]
    return [one[one.index(flag) + 1].rpartition(":")[2].rpartition("/")[2] for one in words]


async def test_all_parts_start_and_the_run_ends_with_its_jobs(stage: Stage, played: Played) -> None:
    waiting = ["until", "all are there"]
    stage.plan(coordinator=READY, wide=[waiting, ["exit", 0]], narrow=[waiting, ["exit", 1]])  # 1: not finished
    playing = asyncio.create_task(played.play())
    await until(lambda: len(stage.started()) == 6)
    stage.signal("all are there")
    assert await playing is None
    assert stage.started()[0][0] == "coordinator"
    assert sorted(names(stage, "job")) == ["narrow", "wide"]
    assert sorted(names(stage, "agent")) == ["bench-01", "bench-02"]
    assert names(stage, "swarm") == ["population.jsonl"]
    assert (played.supervisor.ending.failures, played.said, played.warned) == ([], [], [])


async def test_a_coordinator_that_cannot_start_is_the_error(stage: Stage, played: Played) -> None:
    stage.plan(coordinator=[["say", ERROR], ["exit", 2]])
    error = await played.play()
    assert isinstance(error, UsageError)
    assert str(error) == "w: coordinator: no good; f"
    assert [words[0] for words in stage.started()] == ["coordinator"]
    assert not played.supervisor.recording


async def test_a_dead_coordinator_ends_the_run(stage: Stage, played: Played) -> None:
    stage.plan(coordinator=["announce", ["die", signal.SIGKILL]])
    error = await played.play()
    assert isinstance(error, PeerError)
    assert str(error).startswith("coordinator: was killed by SIGKILL; see ")


async def test_a_dead_swarm_ends_the_run(stage: Stage, played: Played) -> None:
    stage.plan(coordinator=READY, swarm=[["die", signal.SIGKILL]])
    error = await played.play()
    assert str(error).startswith("swarm: was killed by SIGKILL; see ")


async def test_a_device_whose_crash_killed_its_process_starts_again(stage: Stage, played: Played) -> None:
    stage.plan(coordinator=READY, agent=[["die", signal.SIGKILL]], wide=[["until", "enough"]], narrow=[["exit", 0]])
    playing = asyncio.create_task(played.play())
    await until(lambda: len(names(stage, "agent")) >= 6)
    stage.signal("enough")
    assert await playing is None
    assert set(names(stage, "agent")) == {"bench-01", "bench-02"}


async def test_a_device_that_fails_ends_the_run(stage: Stage, played: Played) -> None:
    stage.plan(coordinator=READY, agent=[["log", "venn agent: no such file"], ["exit", 2]])
    error = await played.play()
    assert "ended with exit code 2 (venn agent: no such file)" in str(error)


async def test_hosts_whose_sessions_are_over_do_not_end_the_run(stage: Stage, played: Played) -> None:
    stage.plan(coordinator=READY, agent=[["exit", 0]], swarm=[["exit", 0]], wide=[["exit", 0]], narrow=[["exit", 0]])
    assert await played.play() is None


async def test_a_driver_that_was_killed_takes_its_job_up_again(stage: Stage, played: Played) -> None:
    killed: dict[str, object] = {"do": [["die", signal.SIGKILL]], "resumed": {"do": [["exit", 0]]}}
    stage.plan(coordinator=READY, wide=killed, narrow=[["exit", 0]])
    assert await played.play() is None
    drivers = [words for words in stage.started() if words[0] == "job" and "wide" in words]
    assert drivers[1] == [*drivers[0], "--resume"]
    assert played.said == ["the driver of wide was killed by SIGKILL: another one continues its job"]


async def killed(faults: Faults, target: str) -> None:
    """By the timeline, which lets it come back at once. It may have said that it runs before we know that it does."""
    part = faults._find(target)
    assert part is not None
    await until(lambda: part.running and target not in faults._down)
    action = Action(1.0, Verb.CRASH, target, 0)
    await faults.crash(action)
    await faults.restart(action)


async def test_kills_by_the_timeline_do_not_count_against_a_driver(
    stage: Stage, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds, "MOST_RESUMES", 0)
    stage.plan(coordinator=READY, wide=[["until", "enough"], ["exit", 0]], narrow=[["exit", 0]])
    playing = asyncio.create_task(played.play())
    for times in (1, 2):
        await until(lambda times=times: names(stage, "job").count("wide") == times)  # type: ignore[misc]
        await killed(played.supervisor._faults, "driver wide")
    await until(lambda: names(stage, "job").count("wide") == 3)
    stage.signal("enough")
    assert await playing is None
    assert played.supervisor.ending.failures == []


async def test_a_coordinator_that_the_timeline_has_killed_is_started_again_where_it_was(
    stage: Stage, played: Played
) -> None:
    stage.plan(coordinator=READY, wide=[["until", "enough"], ["exit", 0]], narrow=[["exit", 0]])
    playing = asyncio.create_task(played.play())
    await until(lambda: names(stage, "job") and played.supervisor.running)
    assert not await played.supervisor.coordinator_returned()  # it never left
    await killed(played.supervisor._faults, "coordinator")
    assert await played.supervisor.coordinator_returned()
    stage.signal("enough")
    assert await playing is None
    first, again = [words for words in stage.started() if words[0] == "coordinator"]
    assert again == ["127.0.0.1:1" if word == "127.0.0.1:0" else word for word in first]


async def test_a_coordinator_that_the_timeline_kills_again_as_it_starts_is_started_once_more(
    stage: Stage, played: Played
) -> None:
    acts = [["until", "ready"], *READY]
    stage.plan(coordinator=acts, wide=[["until", "enough"], ["exit", 0]], narrow=[["exit", 0]])
    stage.signal("ready")
    playing = asyncio.create_task(played.play())
    await until(lambda: names(stage, "job") and played.supervisor.running)
    (stage.place / "ready").unlink()
    faults, action = played.supervisor._faults, Action(1.0, Verb.CRASH, "coordinator", 0)
    for times in (2, 3):  # it is killed, and then the one that waits to be ready
        await faults.crash(action)
        await faults.restart(action)
        await until(lambda times=times: [words[0] for words in stage.started()].count("coordinator") == times)  # type: ignore[misc]
    stage.signal("ready")
    assert await played.supervisor.coordinator_returned()
    stage.signal("enough")
    assert await playing is None


async def test_a_process_is_stopped_and_killed_where_a_target_has_one(scenario: Scenario, folder: RunFolder) -> None:
    supervisor = Played(scenario, folder).supervisor
    agent, driver = Program("bench-01", [], log=folder.root), Program("job wide", [], log=folder.root)
    supervisor._hosts["bench-01"], supervisor._drivers["wide"] = agent, driver
    assert supervisor._component("bench-01") is agent
    assert supervisor._component("phones-01") is None  # it shares its process
    assert supervisor._component("driver wide") is driver
    assert supervisor._component("coordinator") is supervisor._coordinator


async def test_a_driver_that_dies_again_and_again_is_given_up(stage: Stage, played: Played) -> None:
    stage.plan(coordinator=READY, wide=[["die", signal.SIGSEGV]], narrow=[["exit", 0]])
    assert await played.play() is None
    assert names(stage, "job").count("wide") == 1 + worlds.MOST_RESUMES
    [failure] = played.supervisor.ending.failures
    assert str(failure).startswith("job wide: was killed by SIGSEGV; see ")
    assert played.warned == [str(failure)]


async def test_a_driver_that_fails_in_mid_run_lets_the_others_go_on(stage: Stage, played: Played) -> None:
    stage.plan(coordinator=READY, wide=[["say", ERROR], ["exit", 4]], narrow=[["until", "later"]])
    playing = asyncio.create_task(played.play())
    await until(lambda: played.supervisor.ending.failures)
    assert not playing.done()
    stage.signal("later")
    assert await playing is None
    assert str(played.supervisor.ending.failures[0]) == "w: job wide: no good; f"


async def test_a_driver_that_fails_before_the_start_ends_the_run(
    stage: Stage, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds, "FIRST_START_S", 600.0)
    stage.plan(coordinator=READY, wide=[["say", ERROR], ["exit", 2]])
    error = await played.play()
    assert isinstance(error, UsageError)
    assert not played.supervisor.running
    assert played.supervisor.recording


async def test_it_gives_up_after_the_duration(stage: Stage, scenario: Scenario, folder: RunFolder) -> None:
    played = Played(scenario.model_copy(update={"duration": 0.05}), folder)
    assert await played.play() is None
    assert played.supervisor.ending.gave_up
    assert played.said == ["gave up after 0.05 s: jobs are unfinished"]


async def test_those_who_do_not_listen_are_killed_and_keys_do_not_stay(
    stage: Stage, played: Played, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.live.processes.programs.STOP_GRACE_S", 0.1)
    stage.plan(coordinator=READY, swarm=["deaf", "wait"], wide=[["exit", 0]], narrow=[["exit", 0]])
    folder.keys.mkdir()
    assert await played.play() is None
    assert not folder.keys.exists()


async def test_being_cancelled_does_not_keep_it_from_stopping(stage: Stage, played: Played) -> None:
    playing = asyncio.create_task(played.play())
    await until(lambda: len(stage.started()) == 6)
    playing.cancel()
    await asyncio.sleep(0)
    playing.cancel()  # while it stops
    with pytest.raises(asyncio.CancelledError):
        await playing
