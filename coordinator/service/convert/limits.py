"""Bounds of what a peer may send, and the error for a message that breaks them or the protocol."""

import math
import re

from venn.wire.errors import PeerError
from venn.wire.text import printable

MOST_FRAME_BYTES = 64 * 1024  # of a device's frame
MOST_HELD_LEASES = 16
MOST_CAPABILITIES = 64  # numbers, and as many labels
MOST_LABEL_VALUES = 64
MOST_NAME_BYTES = 128  # of a capability, a label's value, a metric, a parameter
MOST_TEXT = 512  # characters of a message for people
MOST_OUTPUT = 4096  # characters of a task's output
MOST_TASK_BYTES = 64 * 1024  # a task is carried by every offer
MOST_REQUIREMENT_NODES = 256
MOST_REQUIREMENT_DEPTH = 16
MOST_REQUIREMENT_IDS = 4096
MOST_DEMAND = 1_000_000
MOST_ROUNDS = 1_000_000
MOST_RESPONSES = 16_384  # of one call
MOST_METRICS = 64
MOST_SECONDS = 366 * 86_400.0
MOST_COUNT = 2**63 - 1  # of numbers that a peer makes up

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class MalformedError(PeerError):
    """A peer's message breaks the protocol. ``where`` names the field."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__("MALFORMED", printable(message, limit=MOST_TEXT), where=where)


def name(text: str, where: str) -> str:
    """Check a device's id, or a part of a job's key. Raises MalformedError."""
    if not NAME.fullmatch(text):
        raise MalformedError(where, f"{text[:64]!r} is not 1 to 64 of letters, digits, '.', '_' and '-'")
    return text


def short(text: str, where: str) -> str:
    """Check the length of a name that a peer made up. Raises MalformedError."""
    if not text or len(text.encode()) > MOST_NAME_BYTES:
        raise MalformedError(where, f"a name has 1 to {MOST_NAME_BYTES} bytes, this one has {len(text.encode())}")
    return text


def number(value: float, where: str) -> float:
    """Check that a number is finite. Raises MalformedError."""
    if not math.isfinite(value):
        raise MalformedError(where, f"{value} is not a finite number")
    return value


def at_most(value: int, most: int, where: str) -> int:
    """Check that a count is within its bound. Raises MalformedError."""
    if value > most:
        raise MalformedError(where, f"{value} is more than {most}")
    return value
