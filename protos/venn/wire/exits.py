"""Exits of a process that failed: one line for people or one JSON object for programs, and an exit code."""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

from venn.wire.errors import ExitCode, PeerError, UsageError, VennError

TYPE_CHECKING = False  # what only a failure needs is imported when one comes, so that `venn --help` starts at once
if TYPE_CHECKING:
    from typing import TextIO

OURS = ("venn", "coordinator", "device_agent", "job_driver", "testbed")
BUG = "BUG"
ISSUES = "please report it with that file"


def guard(run: Callable[[], int | None], argv: list[str], name: str) -> int:
    """Run a command, and turn whatever it raises into words and an exit code; no traceback reaches the user.

    Standard output and errors are blocking meanwhile: a program before us may have left the terminal non-blocking, and
    Python loses what such a file does not take at once, without an error where it does not buffer (PYTHONUNBUFFERED).
    """
    changed = [stream for stream in (sys.stdout, sys.stderr) if _is_blocking(stream) is False]
    for stream in changed:
        os.set_blocking(stream.fileno(), True)
    try:
        return _guarded(run, argv, name)
    finally:
        for stream in changed:
            with suppress(OSError, ValueError):
                stream.flush()
                os.set_blocking(stream.fileno(), False)


def _is_blocking(stream: "TextIO") -> bool | None:
    """Whether a stream waits until all is written; None if it is no file."""
    try:
        return os.get_blocking(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None


def _guarded(run: Callable[[], int | None], argv: list[str], name: str) -> int:
    try:
        return int(run() or 0)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except KeyboardInterrupt:
        tell_stopped(argv)
        return ExitCode.INTERRUPTED
    except BaseException as error:
        if _reader_left(error):
            return ExitCode.FAILED
        return tell(expected(error) or _crash(error, argv, name), name, as_json=wants_json(argv))


def tell(error: VennError, name: str, *, as_json: bool) -> int:
    """Print what went wrong: on stderr for people, on stdout for programs."""
    if as_json:
        _write_error(error)
    else:
        from venn.wire.text import printable

        write_line(sys.stderr, f"{name}: {printable(str(error), 2000)}")
    return int(error.exit_code)


def tell_stopped(argv: list[str]) -> None:
    """Report a Ctrl-C before anything began: people know that they did it, programs get their object."""
    if wants_json(argv):
        _write_error(VennError("STOPPED", "stopped before the run began"))


def _write_error(error: VennError) -> None:
    import json

    write_line(sys.stdout, json.dumps({"error": as_object(error)}))


def as_object(error: VennError) -> dict[str, str]:
    """An error as an object for programs."""
    return {"reason": error.reason, "message": error.message, "where": error.where, "fix": error.fix}


def write_line(stream: "TextIO", line: str) -> None:
    """Print a line at once: whoever waits for the line may be a program behind a pipe."""
    stream.write(line + "\n")
    stream.flush()


def expected(error: BaseException) -> VennError | None:
    """The error for people inside what was raised; None if it is our bug."""
    from venn.wire.files import out_of_space

    for leaf in leaves(error):
        if isinstance(leaf, VennError) and (leaf.exit_code != ExitCode.BUG or leaf.reason == BUG):
            return leaf  # a bug of a program that we started has its crash file already
        if full := out_of_space(leaf, os.getcwd()):
            return full
        if isinstance(leaf, ModuleNotFoundError) and (leaf.name or "").partition(".")[0] not in OURS:
            return missing_package(leaf)
        if found := _rpc_error(leaf):
            return found
    return None


def missing_package(error: ModuleNotFoundError, command: str = "this", extra: str = "all") -> UsageError:
    """The error of a Python package that is not installed."""
    package = (error.name or str(error)).partition(".")[0]
    return UsageError(
        "MISSING_PACKAGE",
        f"{command} needs the Python package {package}, which is not installed",
        fix=f"pip install 'venn-testbed[{extra}]'",
    )


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside groups of errors, as task groups raise them."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def wants_json(argv: list[str]) -> bool:
    """Whether a command is to print JSON."""
    options = argv[: argv.index("--")] if "--" in argv else argv
    return "--json" in options or os.environ.get("VENN_JSON", "").lower() in ("1", "true", "yes", "on", "t", "y")


def _rpc_error(error: BaseException) -> PeerError | None:
    """The error of a failed call that nobody explained; gRPC is not imported for this."""
    grpc = sys.modules.get("grpc")
    if grpc is None or not isinstance(error, grpc.RpcError):
        return None
    from venn.wire.status import peer_error

    return peer_error(error, where="the other side")


def _reader_left(error: BaseException) -> bool:
    """Whether our own output was closed (``venn status | head``, a terminal); then nobody is there to be told."""
    if isinstance(error, OSError) and error.errno == errno.EIO and _is_device(sys.stdout):
        _nobody_reads(sys.stdout, sys.stderr)
        return True
    if not isinstance(error, BrokenPipeError):
        return False
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _nobody_reads(sys.stdout)
        return True
    return False


def _is_device(stream: "TextIO") -> bool:
    """Whether a stream is a character device: a terminal, as a rule, which need not be there any more."""
    try:
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _nobody_reads(*streams: "TextIO") -> None:
    """Discard what is still in the buffers, without an error."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _crash(error: BaseException, argv: list[str], name: str) -> VennError:
    import platform
    import tempfile
    import traceback

    from venn.wire.text import printable

    about = f"{name} {' '.join(argv)}\nPython {platform.python_version()} on {platform.platform()}\n\n"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="venn-crash-", suffix=".txt", delete=False) as file:
            file.write(about + "".join(traceback.format_exception(error)))
        place = file.name
    except OSError:  # not even that can be written: then everything goes to stderr
        place = "stderr"
        traceback.print_exception(error)
    summary = f"{type(error).__name__}: {printable(str(error), 200)}"
    return VennError(BUG, f"a bug in venn: {summary}", where=place, fix=ISSUES)
