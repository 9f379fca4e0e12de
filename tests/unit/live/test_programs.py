"""Programs as child processes: how they start, what is told when they fail, and that nothing of them stays."""

import asyncio
import sys
from pathlib import Path

import pytest

from testbed.live.processes import programs
from testbed.live.processes.programs import Program, kill_all
from tests.unit.live.conftest import Stage, lives, until
from venn.wire.errors import ExitCode, PeerError, UsageError


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are Python scripts: their one argument."""
    monkeypatch.setattr(programs, "VENN", (sys.executable, "-S", "-c"))


def made(code: str, tmp_path: Path, *, announces: bool = False) -> Program:
    return Program("part", [code], log=tmp_path / "logs" / "part.log", announces=announces)


@pytest.mark.usefixtures("script")
async def test_what_it_says_goes_to_its_log(tmp_path: Path) -> None:
    program = made("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    await program.start()
    assert await program.wait() == 3
    assert sorted(program.last_words()) == ["err", "out"]
    assert not program.running


@pytest.mark.usefixtures("script")
async def test_it_gets_our_mark_and_none_of_our_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENN_SEED", "1")
    program = made("import os; print([name for name in os.environ if name.startswith('VENN_')])", tmp_path)
    await program.start()
    await program.wait()
    assert program.last_words() == ["['VENN_TESTBED_RUN']"]


@pytest.mark.usefixtures("script")
async def test_an_announcement(tmp_path: Path) -> None:
    program = made('print(\'{"listening": "here"}\', flush=True); input()', tmp_path, announces=True)
    await program.start()
    assert await program.announced(60.0) == {"listening": "here"}
    assert await program.wait() == 1  # there was nothing to read


ERROR = '{"error": {"reason": "PORT_IN_USE", "message": "taken", "where": "h:1", "fix": "take another"}}'


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize(("code", "kind"), [(2, UsageError), (3, PeerError), (4, PeerError), (70, PeerError)])
async def test_its_own_error_and_exit_code_are_told(tmp_path: Path, code: int, kind: type[Exception]) -> None:
    program = made(f"print('''{ERROR}''', flush=True); raise SystemExit({code})", tmp_path, announces=True)
    await program.start()
    with pytest.raises(kind) as caught:
        await program.announced(60.0)
    error = caught.value
    assert str(error) == "h:1: part: taken; take another"
    assert (error.reason, error.exit_code) == ("PORT_IN_USE", code)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("script")
async def test_an_error_after_its_announcement_is_heard_too(tmp_path: Path) -> None:
    program = made(f"print('{{}}', flush=True); print('''{ERROR}'''); raise SystemExit(4)", tmp_path, announces=True)
    await program.start()
    await program.announced(60.0)
    assert await program.wait() == 4
    assert program.failure().reason == "PORT_IN_USE"


@pytest.mark.usefixtures("script")
async def test_one_that_is_never_ready_is_told_with_its_last_word(tmp_path: Path) -> None:
    code = "import sys; print('thinking', file=sys.stderr, flush=True); import time; time.sleep(600)"
    program = made(code, tmp_path, announces=True)
    await program.start()
    await until(program.last_words)
    with pytest.raises(PeerError) as caught:
        await program.announced(0.01)
    assert str(caught.value) == f"part: was not ready after 0.01 s (thinking); see {program.log}"
    await program.stop()


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("print('first'); print('bad flag'); raise SystemExit(9)", "ended with exit code 9 (bad flag)"),
        ("raise SystemExit(9)", "ended with exit code 9"),
        ("print('so much'); import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
    ],
)
async def test_without_an_error_of_its_own_it_is_one_line(tmp_path: Path, code: str, told: str) -> None:
    program = made(code, tmp_path)
    await program.start()
    await program.wait()
    error = program.failure()
    assert str(error) == f"part: {told}; see {program.log}"
    assert error.exit_code == ExitCode.PEER


async def test_stopping_takes_those_along_whom_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import subprocess, sys, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)']);"
        "print('ready', flush=True); time.sleep(600)"
    )
    monkeypatch.setattr(programs, "VENN", (sys.executable, "-S", "-c"))
    program = made(code, tmp_path)
    await program.start()
    await until(program.last_words)
    group = program.pid
    assert lives(group)
    assert await program.stop(grace_s=0.05) == -9
    await until(lambda: not lives(group))  # the kernel takes its time over those whom nobody waits for


async def test_stopping_twice_or_before_the_start_is_nothing(tmp_path: Path, stage: Stage) -> None:
    program = Program("agent", ["agent"], log=tmp_path / "log")
    assert await program.stop() is None
    await program.start()
    code = await program.stop()
    assert code in (-15, 143)  # before it could listen to signals, or after
    assert await program.stop() == code


async def test_one_that_is_cancelled_while_it_starts_is_known(tmp_path: Path, stage: Stage) -> None:
    program = Program("agent", ["agent"], log=tmp_path / "log")
    starting = asyncio.create_task(program.start())
    await asyncio.sleep(0)  # it has begun
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    group = program.pid
    await program.stop()
    assert not lives(group)


async def test_all_can_be_killed_at_once(tmp_path: Path, stage: Stage) -> None:
    several = [Program(f"agent-{number}", ["agent"], log=tmp_path / f"{number}.log") for number in range(3)]
    for program in several:
        await program.start()
    kill_all()
    assert [await program.wait() for program in several] == [-9, -9, -9]
    for program in several:
        await program.stop()
    kill_all()  # nobody is left
