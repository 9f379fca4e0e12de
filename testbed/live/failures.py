"""What to tell the user when a part of a run failed: its own error if it printed one, else how it ended."""

import json
import signal
from collections.abc import Sequence
from pathlib import Path

from venn.wire.errors import CannotEnforceError, ExitCode, PeerError, UsageError, VennError

FAILURES = frozenset(ExitCode) - {ExitCode.OK, ExitCode.INTERRUPTED, ExitCode.TERMINATED}


def failure_of(
    name: str, code: int | None, lines: Sequence[str], what: str, log: Path, *, said: dict[str, object] | None = None
) -> VennError:
    """``code``: its exit code, minus a signal's number, None while it runs. ``lines``: the last that it wrote.
    ``said``: what it announced.
    """
    said = said or next(filter(None, (told(line) for line in reversed(lines))), None)
    error = said.get("error") if said else None
    if isinstance(error, dict):
        reason, message, where, fix = (str(error.get(key, "")) for key in ("reason", "message", "where", "fix"))
        kind = UsageError if code == ExitCode.USAGE else PeerError
        failure = kind(reason, f"{name}: {message}", where=where, fix=fix)
        if code in FAILURES:
            failure.exit_code = ExitCode(code)
        return failure
    if code == ExitCode.CANNOT_ENFORCE and lines:
        return CannotEnforceError("CANNOT_ENFORCE", lines[-1], where=name)
    last = f" ({lines[-1]})" if lines else ""
    if code is not None and code < 0:
        what, last = f"was killed by {signal.Signals(-code).name}", ""
    elif code is not None and not what:
        what = f"ended with exit code {code}"
    return PeerError("PROGRAM_FAILED", what + last, where=name, fix=f"see {log}")


def told(line: str | bytes) -> dict[str, object] | None:
    """The JSON object of a line; None if it is none."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
