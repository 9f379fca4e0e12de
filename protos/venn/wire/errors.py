"""Errors for people: what went wrong, where, and what to do; with the exit code that says whose fault it is.

Each package has one root below ``VennError``, split by fault. Over the wire an error is a status code with
``google.rpc.ErrorInfo`` (domain ``venn``; reason; metadata ``where``, ``fix`` and any details); nobody parses a text.
"""

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """The exit code of a command: whose fault it is."""

    OK = 0
    FAILED = 1  # ran, but an expectation failed or a job did not finish
    USAGE = 2  # wrong use or bad input; nothing was started
    CANNOT_ENFORCE = 3  # this machine cannot do what was asked; nothing was started
    PEER = 4  # another part failed: unreachable, other version, refused, died
    BUG = 70  # ours
    INTERRUPTED = 130
    TERMINATED = 143


def with_fix(message: str, fix: str) -> str:
    """The problem and what to do, as one text; after a question the second begins a sentence."""
    if not fix:
        return message
    return f"{message} {fix[0].upper()}{fix[1:]}" if message.endswith("?") else f"{message}; {fix}"


class VennError(Exception):
    """An error for people. ``reason`` is an UPPER_SNAKE name that programs match on."""

    exit_code: ExitCode = ExitCode.BUG

    def __init__(
        self, reason: str, message: str, *, where: str = "", fix: str = "", details: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.reason, self.message, self.where, self.fix = reason, message, where, fix
        self.details = dict(details or {})

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        return where + with_fix(self.message, self.fix)


class UsageError(VennError):
    """An error of the caller: wrong use or bad input."""

    exit_code = ExitCode.USAGE


class CannotEnforceError(VennError):
    """An error of this machine: it cannot do what was asked."""

    exit_code = ExitCode.CANNOT_ENFORCE


class PeerError(VennError):
    """An error of the other side: unreachable, another version, refused, died."""

    exit_code = ExitCode.PEER
