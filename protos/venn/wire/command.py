"""The frame of a command: how it reads its options, runs, fails and stops.

A setting comes from its flag, else from ``VENN_<FLAG>``, else from venn.toml in the current folder, else it has its
default: ``--rounds-scale`` is ``VENN_ROUNDS_SCALE``, and ``--set`` is ``VENN_SET``. venn.toml holds flags by name;
those of one command stand in a table of its name, as ``[agent]`` or ``[job.run]``. It cannot hold flags that decide
whom a command calls or whose code it runs: a folder may come from somebody else.
"""

import asyncio
import functools
import inspect
import os
import re
import signal
import sys
import tomllib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from venn.wire.errors import ExitCode, UsageError
from venn.wire.exits import guard, tell, wants_json
from venn.wire.places import joined_coordinator
from venn.wire.process import allow_many_files
from venn.wire.text import did_you_mean

DEFAULT_COORDINATOR = "127.0.0.1:9700"
SETTINGS = "venn.toml"
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, kill, the terminal was closed

COORDINATOR_HELP = f"host:port of the coordinator; default: the one that was joined, else {DEFAULT_COORDINATOR}."
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Print more; twice: everything.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="Use no colours.")]
Coordinator = Annotated[str, typer.Option("--coordinator", metavar="ADDR", help=COORDINATOR_HELP)]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow connections beyond loopback that are not encrypted.")]
COMMON: Mapping[str, tuple[Any, Any]] = {
    "json": (False, Json),
    "quiet": (False, Quiet),
    "verbose": (0, Verbose),
    "no_color": (False, NoColor),
}


GivenBounds = Annotated[
    list[str] | None,
    typer.Option("--bound", metavar="NAME=VALUE", help="Bound of docs/security.md; repeatable."),
]


CLIENT = ("coordinator", "insecure")
NOT_IN_SETTINGS = frozenset(
    {"coordinator", "keys", "insecure", "policy", "allow-code", "trust-owner", "confine", "task-reads"}
)


@dataclass(frozen=True, slots=True)
class Context:
    """The options that all commands share."""

    json: bool = False
    quiet: bool = False
    verbose: int = 0
    color: bool = True
    coordinator: str = DEFAULT_COORDINATOR
    insecure: bool = False


def application(about: str | None = None, *, several: bool = False) -> typer.Typer:
    """The Typer app of a command: its help is plain text, with Rich and without. ``several``: it has commands below it,
    which ``about`` introduces.
    """
    return typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=several, help=about)


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the common options; it receives them as its first parameter, ``context``.

    @app.command()
    @command
    def status(context: Context, interval: Annotated[str, typer.Option()] = "1s") -> int: ...
    """
    return _with_options(function, COMMON, ())


def client_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the common options, ``--coordinator`` and ``--insecure``, since it calls a coordinator."""
    own = {"coordinator": ("", Coordinator), "insecure": (False, Insecure)}
    return _with_options(function, {**own, **COMMON}, CLIENT)


def _with_options(
    function: Callable[..., Any], options: Mapping[str, tuple[Any, Any]], client: tuple[str, ...]
) -> Callable[..., Any]:
    """Add ``options`` to a command: by name, the default and the type. ``client``: those that only a client has."""

    @functools.wraps(function)
    def run(
        *,
        json: bool,
        quiet: bool,
        verbose: int,
        no_color: bool,
        **settings: Any,
    ) -> Any:
        own = {name: settings.pop(name) for name in client}
        if client and not own["coordinator"]:
            own["coordinator"] = joined_coordinator(settings.get("keys")) or DEFAULT_COORDINATOR
        color = not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return function(Context(json, quiet, verbose, color, **own), **settings)

    keyword = inspect.Parameter.KEYWORD_ONLY
    common = [
        inspect.Parameter(name, keyword, default=default, annotation=kind) for name, (default, kind) in options.items()
    ]
    signature = inspect.signature(function, eval_str=True)
    own = [parameter.replace(kind=keyword) for name, parameter in signature.parameters.items() if name != "context"]
    run.__signature__ = signature.replace(parameters=own + common)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in own + common}
    return run


def execute(app: typer.Typer, argv: list[str], name: str) -> int:
    """Run the command ``name`` (``venn agent``) of a Typer app; returns its exit code and never raises."""
    return guard(lambda: _invoke(app, argv, name), argv, name)


def find_command(app: typer.Typer, name: str) -> Any:
    """The command of an app that has this name, or else the app as a whole."""
    whole = typer.main.get_command(app)
    return getattr(whole, "commands", {}).get(name, whole)


def run_async(main: Coroutine[Any, Any, int | None], *, at_once: Callable[[], None] = lambda: None) -> int:
    """Run a coroutine to its end, or until SIGINT, SIGTERM or SIGHUP: then it is cancelled once, may clean up, and the
    exit code is 130, 143 or 129. A second signal calls ``at_once`` and ends the process. What it raises is raised.
    """
    allow_many_files()
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        return runner.run(_until_stopped(main, at_once))


async def _until_stopped(main: Coroutine[Any, Any, int | None], at_once: Callable[[], None]) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(main)
    received: list[int] = []

    def stop(number: int) -> None:
        if not received:
            received.append(number)
            task.cancel()
        elif number != signal.SIGHUP:  # a closing terminal says it twice, the shell once more
            at_once()
            os._exit(128 + number)

    stopping = [number for number in STOPPING if not _ignored(number)]
    for number in stopping:
        loop.add_signal_handler(number, stop, number)
    try:
        with suppress(asyncio.CancelledError):
            code = await task
            return 128 + received[0] if received else int(code or 0)
        return 128 + received[0] if received else ExitCode.INTERRUPTED
    finally:
        for number in stopping:
            loop.remove_signal_handler(number)


def _ignored(number: int) -> bool:
    """Whether a signal is ignored already: ``nohup venn ...`` goes on when its terminal is closed; a shell
    that ignores Ctrl-C for us does not mean kill.
    """
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # an extra; not on every device
        return None
    return uvloop.new_event_loop


def _invoke(app: typer.Typer, argv: list[str], name: str) -> int:
    root = find_command(app, name.rsplit(maxsplit=1)[-1])
    settings = _read_settings(Path(SETTINGS))
    _prepare(root, settings, tuple(name.split()[1:]))
    try:
        result = root.main(args=argv, prog_name=name, standalone_mode=False)
    except typer.Exit as leaving:
        return int(leaving.exit_code)
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's own, or the click that newer Typers carry inside
            raise
        return _tell_usage(error, argv, name)
    return int(result or 0)


_PYDANTIC = (  # what newer Typers say of a value, and what we say
    (r"Input should be a valid integer.*", "it is not a whole number"),
    (r"Input should be a valid number.*", "it is not a number"),
    (r"Input should be a valid boolean.*", "it is neither true nor false"),
    (r"Input should be greater than or equal to (\S+)", r"it is at least \1"),
    (r"Input should be less than or equal to (\S+)", r"it is at most \1"),
)


def _tell_usage(error: Any, argv: list[str], name: str) -> int:
    """An error of wrong flags, in the one shape of errors."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show(file=sys.stderr)
        return ExitCode.USAGE
    path = context.command_path if context else name
    message = error.format_message().rstrip(".")
    for theirs, ours in _PYDANTIC:
        message = re.sub(theirs, ours, message)
    return tell(UsageError("USAGE", message, fix=f"see: {path} --help"), name, as_json=wants_json(argv))


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise UsageError("SETTINGS", f"cannot be read: {error}", where=str(path), fix="correct or remove it") from error


def _prepare(command: Any, settings: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """Let each flag of the command and of those below it come from the environment or the settings, and print the
    example below its help in one line, so that it can be copied.
    """
    below = getattr(command, "commands", None)
    if below:
        for name, child in below.items():
            _prepare(child, settings, (*path, name))
        return
    command.epilog = f"\b\n{command.epilog}" if command.epilog else None
    for option in command.params:
        long = next((flag for flag in option.opts if flag.startswith("--")), "")
        if long and option.allow_from_autoenv:
            option.envvar = "VENN_" + long.removeprefix("--").replace("-", "_").upper()
    command.context_settings["default_map"] = _defaults(command, settings, path)


def _defaults(command: Any, settings: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    flags = {flag.lstrip("-"): parameter.name for parameter in command.params for flag in parameter.opts}
    found = {flags[key]: value for key, value in settings.items() if key in flags and not isinstance(value, dict)}
    _check_settings([key for key in settings if key in flags])
    table: Any = settings
    for name in path:
        table = table.get(name) if isinstance(table, dict) else None
    own = table.items() if path and isinstance(table, dict) else ()
    _check_settings([key for key, _ in own])
    for key, value in own:
        if key not in flags and not isinstance(value, dict):
            raise UsageError(
                "SETTINGS", f"[{'.'.join(path)}] has no {key}", where=SETTINGS, fix=did_you_mean(key, flags)
            )
        found[flags[key]] = value
    return found


def _check_settings(keys: Iterable[str]) -> None:
    """Refuse what would let the folder where somebody stands decide whom to call, or whose code to run."""
    for key in keys:
        if key in NOT_IN_SETTINGS:
            variable = "VENN_" + key.upper().replace("-", "_")
            fix = f"give --{key}, or set {variable}"
            raise UsageError("SETTINGS", f"{key} cannot be set here", where=SETTINGS, fix=fix)
