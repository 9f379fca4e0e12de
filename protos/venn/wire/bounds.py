"""Bounds on what others can make a program hold or do: settings with safe defaults, and how often each was met.

A program's bounds are the fields of a frozen dataclass, made with ``bound``. ``--bound NAME=VALUE`` sets one, and
docs/security.md lists all of them (``table``).
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

from venn.wire.errors import UsageError
from venn.wire.logs import log
from venn.wire.notation import format_bytes, format_duration, parse_bytes, parse_duration, parse_number
from venn.wire.text import did_you_mean

Unit = Literal["count", "bytes", "bytes per second", "seconds", "per second"]
T = TypeVar("T")

LOG_EVERY_S = 60.0  # one line for each bound and identity
MOST_LINES = 20  # in that time, of all identities: more are only counted
logger = logging.getLogger(__name__)


def bound(default: float, unit: Unit, what: str, beyond: str) -> Any:
    """A field of a class of bounds: ``what`` is bounded, and what happens ``beyond`` it. All are above 0."""
    return field(default=default, metadata={"unit": unit, "what": what, "beyond": beyond})


@dataclass(frozen=True, slots=True)
class ServerBounds:
    """The bounds of every program that listens. gRPC itself holds the first four."""

    connections: int = bound(
        60_000,
        "count",
        "connections; a tenth of the open files, at least 64, are left for other uses",
        "closed at once",
    )
    handshake: float = bound(10.0, "seconds", "time from a connection to the end of its handshake", "closed")
    streams: int = bound(32, "count", "calls under way on one connection", "they wait, or are reset")
    request_bytes: int = bound(2 * 2**20, "bytes", "a message, of which a chunk is the largest", "refused")
    open_calls: int = bound(
        256, "count", "calls open to anybody that wait for their request", "the longest one is ended; it may try again"
    )
    open_call: float = bound(10.0, "seconds", "time that the request of such a call may take", "the call is ended")
    open_bytes: int = bound(64 * 1024, "bytes", "the request of such a call", "the call is refused")
    watches: int = bound(64, "count", "watches of health", "refused")


def connections_within(files: int) -> int:
    """The number of connections that leaves enough of the files for journals, calls to others and the program."""
    return max(1, files - max(64, files // 10))


def set_bounds(bounds: T, given: Sequence[str] | None) -> T:
    """The bounds with those that were given as ``NAME=VALUE``. Raises UsageError."""
    known = {each.name: each for each in fields(bounds)}  # type: ignore[arg-type]  # a dataclass
    changed: dict[str, float] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            fix = did_you_mean(name, known) or f"one of: {', '.join(known)}"
            raise UsageError("BOUND", f"{name!r} is no bound", where="--bound", fix=fix)
        changed[name] = _read(known[name].metadata["unit"], value)
        if not changed[name] > 0:
            raise UsageError("BOUND", f"{value} is not above 0", where=f"--bound {name}", fix="give more")
    return replace(bounds, **changed)  # type: ignore[type-var]  # a dataclass


def table(kind: type) -> list[str]:
    """The lines of docs/security.md about a class of bounds, sorted as its fields are."""
    rows = ["| bound | default | what | beyond it |", "| --- | --- | --- | --- |"]
    for each in fields(kind):
        told = each.metadata
        rows.append(f"| `{each.name}` | {_shown(told['unit'], each.default)} | {told['what']} | {told['beyond']} |")
    return rows


def _read(unit: Unit, text: str) -> float:
    match unit:
        case "bytes" | "bytes per second":
            return parse_bytes(text.removesuffix("/s"))
        case "seconds":
            return parse_duration(text)
        case "per second":
            return parse_number(text)
        case "count":
            return int(parse_number(text))


def _shown(unit: Unit, value: Any) -> str:
    match unit:
        case "bytes":
            return format_bytes(value)
        case "bytes per second":
            return f"{format_bytes(value)}/s"
        case "seconds":
            return format_duration(value)
        case "per second":
            return f"{value:,g}/s"
        case "count":
            return f"{value:,}"


class Refusals:
    """Counts how often each bound was met, and logs it: once in a minute for a bound and an identity."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.times: dict[str, int] = {}  # by bound
        self._clock = clock
        self._said: set[tuple[str, str]] = set()  # since ...
        self._since = clock()

    def met(self, name: str, who: str, why: str) -> None:
        """Note that somebody met a bound: ``who`` is an identity, else an address without its port."""
        self.times[name] = self.times.get(name, 0) + 1
        now = self._clock()
        if now - self._since >= LOG_EVERY_S:
            self._said.clear()
            self._since = now
        if (name, who) not in self._said and len(self._said) < MOST_LINES:
            self._said.add((name, who))
            log(logger, logging.WARNING, f"refused: {why}", bound=name, who=who, times=self.times[name])


def host_of(peer: str) -> str:
    """The host in what gRPC calls a peer, which is ``ipv4:HOST:PORT``, or ``ipv6:`` with brackets as in a URL."""
    return unquote(peer.partition(":")[2]).rpartition(":")[0] or peer
