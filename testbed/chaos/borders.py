"""The borders of the simulated programs: what they meet outside of themselves, and what stands for it here.

The programs are the product's own, unchanged. While a world runs, names in their modules that lead outside stand for
something else: the clock (``time``), chance (``secrets``, ``random.Random()``), the disk (``open``, ``os``), threads,
channels and servers. What stands there is asked for the machine whose process runs now.
"""

import asyncio
import builtins
import io
import os
import random
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from coordinator.service.host import Host
from coordinator.service.view import Machine
from job_driver import driver
from testbed.chaos.channel import Channel
from testbed.chaos.disk import Disk
from testbed.chaos.loop import Scheduler, Threads
from testbed.chaos.server import Server
from venn.wire import channel as wire_channel
from venn.wire.process import LagMonitor

if TYPE_CHECKING:
    from testbed.chaos.process import Process

PROGRAMS = ("coordinator", "device_agent", "job_driver", "venn")
WRITES = frozenset("wxa+")


class _Through:
    """A module, but for what stands here in its place."""

    def __init__(self, module: ModuleType, scheduler: Scheduler) -> None:
        self._module, self._scheduler = module, scheduler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    @property
    def _process(self) -> "Process":
        loop = self._scheduler.loop
        assert loop is not None, "a program runs in a process"
        process: Process = loop.owner
        return process


class _Time(_Through):
    """Stands for ``time``."""

    def time(self) -> float:
        return self._process.wall_s()

    def monotonic(self) -> float:
        return self._scheduler.now

    perf_counter = monotonic

    def clock_gettime(self, _: int) -> float:
        return self._scheduler.now


class _Secrets(_Through):
    """Stands for ``secrets``."""

    def token_bytes(self, size: int = 32) -> bytes:
        return self._process.rng.randbytes(size)

    def token_hex(self, size: int = 32) -> str:
        return self.token_bytes(size).hex()

    def randbits(self, bits: int) -> int:
        return self._process.rng.getrandbits(bits)


class _Random(_Through):
    """Stands for ``random``: a generator without a seed takes one of the process."""

    def Random(self, seed: Any = None) -> random.Random:
        return random.Random(self._process.rng.getrandbits(64) if seed is None else seed)


class _Os(_Through):
    """Stands for ``os``: what writes goes by the machine's disk, and it is known whose file is open."""

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        descriptor = os.open(path, flags, mode)
        self._process.files.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Close a file; whoever has opened it may be dead."""
        if self._scheduler.loop is not None:
            self._process.files.discard(descriptor)
        os.close(descriptor)

    def fsync(self, descriptor: int) -> None:
        self._process.disk_sync(descriptor)

    fdatasync = fsync

    def write(self, descriptor: int, data: Any) -> int:
        return self._process.disk_write(data, lambda part: os.write(descriptor, part))

    def pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        return self._process.disk_write(data, lambda part: os.pwrite(descriptor, part, offset))


class _File(io.FileIO):
    """A file that is written to on a machine's disk."""

    process: "Process"

    def write(self, data: Any) -> int:
        return self.process.disk_write(data, super().write)

    def close(self) -> None:
        if not self.closed:
            self.process.files.discard(self.fileno())
        super().close()


class Borders:
    """What stands at the borders, for one world."""

    def __init__(self, scheduler: Scheduler, activity_every_s: float) -> None:
        """``activity_every_s``: how often a driver looks whether bytes have moved; the product's second is short."""
        self._scheduler, self._activity_every_s = scheduler, activity_every_s
        self.host: Callable[..., Host] = Host  # what makes the coordinator's host

    def _process(self) -> "Process":
        loop = self._scheduler.loop
        assert loop is not None, "a program runs in a process"
        process: Process = loop.owner
        return process

    def open_channel(self, address: str, **_: Any) -> Channel:
        """Stands for ``venn.wire.channel.open_channel``."""
        wire_channel.parse_address(address)
        process = self._process()
        return Channel(process.network, process.machine, address)

    def make_server(self, *, interceptors: Any = (), **_: Any) -> Server:
        """Stands for ``venn.wire.channel.make_server``."""
        process = self._process()
        return Server(process.network, process.loop, tuple(interceptors), process.handler_failed)

    def bind(self, server: Server, address: str, **_: Any) -> str:
        """Stands for ``venn.wire.channel.bind``."""
        host, port = wire_channel.parse_address(address)
        return self._process().network.listen(server, host, port)

    def open(self, file: Any, mode: str = "r", buffering: int = -1, **named: Any) -> Any:
        """Stands for ``open``."""
        if not WRITES & set(mode):
            return builtins.open(file, mode, buffering, **named)
        raw = _File(file, mode.replace("b", "").replace("t", ""))
        raw.process = self._process()
        raw.process.files.add(raw.fileno())
        if buffering == 0:
            return raw
        writer: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return writer if "b" in mode else io.TextIOWrapper(writer, **named)

    def threads(self, size: int = 4, *_: Any, **__: Any) -> Threads:
        """Stands for ``ThreadPoolExecutor``."""
        return Threads(self._process().loop, size)

    @contextmanager
    def stand(self) -> Iterator[None]:
        """Let all of this stand in the modules of the programs, until the block is left."""
        through: dict[int, Any] = {
            id(time): _Time(time, self._scheduler),
            id(secrets): _Secrets(secrets, self._scheduler),
            id(random): _Random(random, self._scheduler),
            id(os): _Os(os, self._scheduler),
            id(wire_channel.open_channel): self.open_channel,
            id(wire_channel.make_server): self.make_server,
            id(wire_channel.bind): self.bind,
            id(ThreadPoolExecutor): self.threads,
            id(LagMonitor): _NoLag,
            id(Machine): _NoMachine,
            id(Host): self.host,
        }
        undo: list[Callable[[], None]] = []
        try:
            undo.append(_set(driver, "ACTIVITY_EVERY_S", self._activity_every_s))
            for name, module in list(sys.modules.items()):
                if name.partition(".")[0] in PROGRAMS and module is not None:
                    undo.extend(_replace(module, through, self.open))
            yield
        finally:
            for each in reversed(undo):
                each()


class _NoLag(LagMonitor):
    """A monitor that sees no lag: a loop in virtual time has none, and would be probed 72,000 times an hour."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(None)

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


class _NoMachine(Machine):
    """A machine whose processor nobody asks about."""

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


def _set(module: ModuleType, name: str, value: Any) -> Callable[[], None]:
    """Let a name of a module stand for something else; returns what undoes that."""
    before = vars(module).get(name, ...)
    setattr(module, name, value)
    return partial(delattr, module, name) if before is ... else partial(setattr, module, name, before)


def _replace(module: ModuleType, through: dict[int, Any], opener: Any) -> Iterator[Callable[[], None]]:
    for name, value in list(vars(module).items()):
        if id(value) in through:
            yield _set(module, name, through[id(value)])
    if "open" not in vars(module):
        yield _set(module, "open", opener)


def disk_of(folder: Path, seed: str) -> Disk:
    """A disk below a folder, with a chance of its own."""
    return Disk(folder, random.Random(seed))
