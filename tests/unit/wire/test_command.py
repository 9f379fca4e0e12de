import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
import typer

from venn.wire.command import STOPPING, Context, application, client_command, command, execute, run_async
from venn.wire.errors import PeerError

Seen = list[tuple[Context, int, bool, list[str], str]]


@pytest.fixture(autouse=True)
def empty_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("VENN_") or name == "NO_COLOR"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def seen() -> Seen:
    return []


@pytest.fixture
def single(seen: Seen) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @client_command
    def agent(
        context: Context,
        count: Annotated[int, typer.Option()] = 1,
        label: Annotated[list[str] | None, typer.Option("--label")] = None,
        name: Annotated[str, typer.Argument()] = "",
    ) -> int:
        seen.append((context, count, context.insecure, label or [], name))
        return 1 if name == "one" else 0

    return app


@pytest.fixture
def several(seen: Seen) -> typer.Typer:
    app = typer.Typer(no_args_is_help=True)

    @app.command("run")
    @client_command
    def run(context: Context, count: Annotated[int, typer.Option()] = 1) -> None:
        seen.append((context, count, False, [], "run"))

    @app.command("list")
    @client_command
    def list_jobs(context: Context) -> None:
        raise PeerError("UNREACHABLE", "nothing answers", where=context.coordinator)

    return app


def test_flags_of_its_own_and_those_of_all(single: typer.Typer, seen: Seen) -> None:
    flags = ["one", "--count", "3", "--insecure", "--label", "a=b", "--label", "c=d", "--json", "-vv", "--no-color"]
    assert execute(single, [*flags, "--quiet", "--coordinator", "h:1"], "venn agent") == 1
    context = Context(json=True, quiet=True, verbose=2, color=False, coordinator="h:1", insecure=True)
    assert seen == [(context, 3, True, ["a=b", "c=d"], "one")]


def test_defaults(single: typer.Typer, seen: Seen) -> None:
    assert execute(single, [], "venn agent") == 0
    assert seen == [(Context(), 1, False, [], "")]


def test_flag_then_environment_then_settings_then_default(
    single: typer.Typer, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("venn.toml").write_text(
        'count = 2\nno-color = true\ndemand = 5\n[agent]\ncount = 3\nlabel = ["x=y"]\n[swarm]\nz = 1\n'
    )
    execute(single, [], "venn agent")
    monkeypatch.setenv("VENN_COUNT", "4")
    monkeypatch.setenv("VENN_COORDINATOR", "h:2")
    monkeypatch.setenv("VENN_INSECURE", "1")
    execute(single, [], "venn agent")
    execute(single, ["--count", "5"], "venn agent")
    assert [count for _, count, *_ in seen] == [3, 4, 5]
    assert [labels for *_, labels, _ in seen] == [["x=y"]] * 3
    assert [insecure for _, _, insecure, *_ in seen] == [False, True, True]
    assert seen[0][0] == Context(color=False)
    assert seen[1][0].coordinator == "h:2"


@pytest.mark.parametrize("key", ["coordinator", "insecure"])
@pytest.mark.parametrize("text", ["{} = 'h:1'\n", "[agent]\n{} = 'h:1'\n"])
def test_a_folder_does_not_say_whom_to_call(
    text: str, key: str, single: typer.Typer, seen: Seen, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("venn.toml").write_text(text.format(key))
    assert execute(single, [], "venn agent") == 2
    assert f"venn.toml: {key} cannot be set here; give --{key}, or set VENN_{key.upper()}" in capsys.readouterr().err
    assert not seen


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("count = ", "venn.toml: cannot be read"),
        ("[agent]\ncuont = 3", "venn.toml: [agent] has no cuont; did you mean count?"),
        ("[agent]\ncount = 'many'", "--count"),
    ],
)
def test_settings_that_are_wrong(
    text: str, problem: str, single: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("venn.toml").write_text(text)
    assert execute(single, [], "venn agent") == 2
    assert problem in capsys.readouterr().err


def test_commands_below_a_command(
    several: typer.Typer, seen: Seen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("venn.toml").write_text("[job.run]\ncount = 3\n")
    assert execute(several, ["run"], "venn job") == 0
    monkeypatch.setenv("VENN_COUNT", "4")
    assert execute(several, ["run"], "venn job") == 0
    assert [count for _, count, *_ in seen] == [3, 4]
    assert execute(several, ["list", "--coordinator", "h:1"], "venn job") == 4
    assert capsys.readouterr().err == "venn job: h:1: nothing answers\n"


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--count", "many"], "--count"),
        (["--cuont", "3"], "--cuont"),
        (["a", "b"], "b"),
    ],
)
def test_wrong_use_is_one_line_or_one_object(
    argv: list[str], problem: str, single: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(single, argv, "venn agent") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("venn agent: ")
    assert problem in err
    assert err.endswith("; see: venn agent --help\n")
    assert err.count("\n") == 1
    assert execute(single, [*argv, "--json"], "venn agent") == 2
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["error"]["reason"] == "USAGE"


def test_help_names_flags_and_variables(single: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(single, ["--help"], "venn agent") == 0
    out = capsys.readouterr().out
    assert "--coordinator" in out
    assert "VENN_COUNT" in out


def test_a_variable_has_the_name_of_its_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    app, seen = typer.Typer(), list[object]()

    @app.command()
    @command
    def agent(
        context: Context,
        overrides: Annotated[list[str] | None, typer.Option("--set")] = None,
        everything: Annotated[bool, typer.Option("--all", allow_from_autoenv=False)] = False,
    ) -> None:
        seen.append((overrides, everything))

    monkeypatch.setenv("VENN_SET", "a=1 b=2")
    monkeypatch.setenv("VENN_OVERRIDES", "c=3")
    monkeypatch.setenv("VENN_ALL", "1")
    assert execute(app, [], "venn agent") == 0
    assert seen == [(["a=1", "b=2"], False)]


def test_an_example_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    app, example = application(), "Example: " + " ".join(["venn agent"] * 12)
    app.command(epilog=example)(command(lambda context: None))
    assert execute(app, ["--help"], "venn agent") == 0
    assert f"  {example}\n" in capsys.readouterr().out


def test_no_command_shows_the_help(several: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(several, [], "venn job") in (0, 2)
    assert "list" in "".join(capsys.readouterr())


@pytest.fixture
def heeded() -> Iterator[None]:
    """No signal that stops is ignored, whatever started the tests (as nohup ignores SIGHUP)."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_cancels_and_lets_it_clean_up(number: int, code: int) -> None:
    story: list[str] = []

    async def main() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), signal.SIGHUP)  # a terminal that is closed says so more than once
            await asyncio.sleep(0.01)
            story.append("cleaned up")
        return 0

    assert run_async(main()) == code
    assert story == ["cleaned up"]


def test_a_stop_that_ends_normally_still_says_so() -> None:
    async def main() -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 0
        return 1

    assert run_async(main()) == 143


def test_a_second_signal_ends_what_does_not_stop() -> None:
    program = """
import asyncio
from venn.wire.command import run_async

async def main():
    while True:
        print("waiting", flush=True)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

run_async(main(), at_once=lambda: print("at once", flush=True))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            assert process.stdout.readline() == "waiting\n"
            process.send_signal(number)
        assert process.wait(20) == 130
        assert process.stdout.read() == "at once\n"


def test_what_ignores_a_closed_terminal_still_does() -> None:
    """As started by nohup."""

    async def main() -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.01)
        return 0

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_async(main()) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_it_may_have_as_many_connections_as_the_system_allows() -> None:
    program = """
import resource
from venn.wire.command import run_async

async def main():
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, min(hard, 4096)))
run_async(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    soft, hard = done.stdout.split()
    assert soft == hard


@pytest.mark.parametrize(
    ("value", "told"), [("abc", "it is not a whole number"), ("0", "it is at least 1"), ("8", "it is at most 7")]
)
def test_what_is_wrong_with_a_number(value: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()

    @app.command()
    @command
    def plain(context: Context, count: Annotated[int, typer.Option(min=1, max=7)] = 1) -> None:
        raise AssertionError("not reached")

    assert execute(app, ["--count", value], "venn plain") == 2
    err = capsys.readouterr().err
    assert err.startswith("venn plain: Invalid value for '--count'")
    assert "Input should" not in err
    if f"{value!r}" not in err and f" {value} " not in err:  # older Typers have words of their own, with the value
        assert told in err


def test_results_and_errors_pass() -> None:
    async def result(value: int | None) -> int | None:
        return value

    async def error() -> int:
        raise PeerError("R", "gone")

    assert run_async(result(None)) == 0
    assert run_async(result(1)) == 1
    with pytest.raises(PeerError):
        run_async(error())
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
