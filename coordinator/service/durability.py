"""How safe a turn of the coordinator is before its effects leave, and what becomes of it while the disk is full.

A process that is killed loses nothing that it has written: written is enough for that. Only a loss of power takes what
was not synced. So there are three levels: each turn is synced before its effects leave (TURN; one sync for all turns
that wait for it, in a thread), what was written is synced each second (INTERVAL), or never (OFF).

A turn that finds no space waits, and so does all that comes after it: nothing is told that is not recorded.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial
from typing import Generic, Protocol, TypeVar

from venn.wire.errors import PeerError
from venn.wire.logs import log

RETRY_S = 1.0  # between two tries to write while the disk is full
INTERVAL_S = 1.0
GATHER_S = 0.002  # between two syncs, at least: a sync costs a busy processor more than a turn
FULL = "the coordinator's disk is full: it begins nothing new until there is space"
logger = logging.getLogger(__name__)


class Durability(StrEnum):
    """What a turn's effects wait for."""

    TURN = "turn"  # their sync: survives a loss of power
    INTERVAL = "interval"  # nothing, but a sync comes within a second: survives a kill, and power but for a second
    OFF = "off"  # nothing: survives a kill


class Store(Protocol):
    """What turns are written to."""

    def flush(self) -> None:
        """Hand what was recorded to the system. Raises PeerError OUT_OF_SPACE; then it can be tried again."""

    def sync(self) -> None:
        """Make what was handed over survive a loss of power; called in a thread."""


Turn = TypeVar("Turn")
CallLater = Callable[[float, Callable[[], None]], object]  # delay in seconds


class Committer(Generic[Turn]):
    """Writes turns, and lets each leave once it is as safe as wanted, in their order."""

    def __init__(
        self,
        store: Store,
        durability: Durability,
        *,
        leave: Callable[[Turn], None],
        fail: Callable[[BaseException], None],
        call_later: CallLater,
        changed: Callable[[], None],
        gather_s: float = GATHER_S,
    ) -> None:
        """``leave`` is called with each turn, ``fail`` with what cannot be mended, and ``changed`` when the disk has
        become full, or has space again. Between two syncs are ``gather_s`` at least.
        """
        self.full = False  # a turn waits for space; none is to be committed meanwhile
        self._store, self._durability = store, durability
        self._leave, self._fail, self._call_later, self._changed = leave, fail, call_later, changed
        self._turns: deque[Turn] = deque()  # that have not left
        self._thread = ThreadPoolExecutor(1, "journal") if durability is not Durability.OFF else None
        self._gather_s, self._synced_at = gather_s, -math.inf  # monotonic time of the last sync's beginning
        self._closed = False
        self._syncing = False
        self._dirty = False  # INTERVAL: a sync is to come

    def commit(self, turn: Turn) -> None:
        """Write a turn that was recorded in the store."""
        self._turns.append(turn)
        self._write()

    def close(self) -> None:
        """Write and sync what there is, and let it leave; what finds no space is not told."""
        self._closed = True
        try:
            self._store.flush()
            if self._thread is not None:
                self._thread.shutdown()
                self._store.sync()
        except (PeerError, OSError) as error:
            self._fail(error)
            return
        self._go(len(self._turns))

    def _write(self) -> None:
        try:
            self._store.flush()
        except PeerError as error:
            if error.reason != "OUT_OF_SPACE":
                raise
            if not self.full:
                self.full = True
                log(logger, logging.ERROR, "no space is left on the disk", where=error.where)
                self._changed()
            self._call_later(RETRY_S, self._try_again)
            return
        if self.full:
            self.full = False
            self._written()
            self._changed()
        else:
            self._written()

    def _try_again(self) -> None:
        if self.full:
            self._write()

    def _written(self) -> None:
        if self._durability is Durability.TURN:
            self._sync(len(self._turns))
            return
        self._go(len(self._turns))
        if self._durability is Durability.INTERVAL and not self._dirty:
            self._dirty = True
            self._call_later(INTERVAL_S, self._sync_in_time)

    def _sync_in_time(self) -> None:
        self._dirty = False
        self._sync(0)

    def _sync(self, turns: int) -> None:
        """Sync what was written, and let so many turns leave then; those that come meanwhile share the next sync."""
        if self._syncing or self._thread is None:
            return
        self._syncing = True
        wait_s = self._synced_at + self._gather_s - time.monotonic()
        if wait_s > 0:  # a busy coordinator: more turns come, and share this sync
            asyncio.get_running_loop().call_later(wait_s, self._begin_sync, None)
        else:
            self._begin_sync(turns)

    def _begin_sync(self, turns: int | None) -> None:
        """``turns``: that leave then; None: all that have come by now."""
        if self._closed or self._thread is None:
            return
        self._synced_at = time.monotonic()
        if turns is None:
            written = len(self._turns) - self.full  # while the disk is full the last one waits for space
            turns = written if self._durability is Durability.TURN else 0
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._store.sync)
        done.add_done_callback(partial(self._synced, turns))

    def _synced(self, turns: int, done: "asyncio.Future[None]") -> None:
        self._syncing = False
        if (error := done.exception()) is not None:
            self._fail(error)
            return
        self._go(turns)
        if self._durability is Durability.TURN and self._turns and not self.full:
            self._sync(len(self._turns))

    def _go(self, turns: int) -> None:
        for _ in range(min(turns, len(self._turns))):  # all have left if it was closed
            self._leave(self._turns.popleft())
