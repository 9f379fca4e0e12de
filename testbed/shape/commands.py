"""Programs of the system that make and remove things: ``ip`` and ``tc``, with what they say when they refuse."""

import subprocess
from collections.abc import Sequence

TIMEOUT_S = 20.0


class RefusedError(Exception):
    """A command did not do what it was told: its first line of error."""


def run(*command: str) -> str:
    """Its standard output. Raises RefusedError."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise RefusedError(f"there is no {command[0]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise RefusedError(f"{' '.join(_short(command))}: {said[0] if said else f'exit code {done.returncode}'}")
    return done.stdout


def _short(command: Sequence[str]) -> Sequence[str]:
    return command if len(command) <= 6 else [*command[:6], "..."]
