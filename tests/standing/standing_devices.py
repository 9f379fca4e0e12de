"""A backend of another package: devices that run already, and join the coordinator of each run by themselves.

``STANDING_DEVICES`` names a folder. It has a ``keys`` folder, and a folder for each device, which its agent writes
into (``venn agent --name NAME --dir STANDING_DEVICES/NAME --coordinator 127.0.0.1:PORT``); ``port`` holds PORT.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from testbed.scenario.backends import BackendSpec, Leftover, Need

STANDING = BackendSpec(
    name="standing",
    make="standing_devices:make",
    checks="standing_devices:checks",
    leftovers="standing_devices:leftovers",
    requires="standing-devices",
    verbs=frozenset(),
    code_here=True,
    each_device="standing device",
    devices_here=False,
)


def place() -> Path:
    return Path(os.environ["STANDING_DEVICES"])


def names() -> list[str]:
    return sorted(path.parent.name for path in place().glob("*/load.jsonl"))


def checks() -> Iterator[Need]:
    found = names()
    if found:
        yield Need("devices", found=f"{len(found)} run: {' '.join(found)}")
    else:
        yield Need("devices", missing="no device runs; start their agents")


def leftovers() -> Iterator[Leftover]:
    """What a run that was killed has left: its mark."""
    for path in sorted(place().glob("used-by-*")):
        yield Leftover("standing device", path.name, path.name.removeprefix("used-by-"), partial(path.unlink))


def make(run: Any) -> Any:
    from testbed.live.backend import commands
    from testbed.live.processes.backend import Processes
    from venn.wire.errors import PeerError
    from venn.wire.process import own_mark

    class Joined:
        """A device: it runs before the run and after it."""

        def __init__(self, name: str) -> None:
            self.name, self.running, self._ended = name, True, asyncio.Event()

        async def start(self) -> None:
            if self.name not in names():
                raise PeerError("STANDING", "does not run", where=self.name, fix="start its agent")

        async def wait(self) -> int:
            await self._ended.wait()
            return 0

        async def stop(self, grace_s: float | None = None) -> int:
            self._ended.set()
            return 0

    class Standing(Processes):
        async def make(self) -> None:
            shutil.copytree(place() / "keys", run.folder.keys)
            (place() / f"used-by-{own_mark()}").touch()
            await super().make()

        def coordinator(self) -> Any:
            made = super().coordinator()
            made.arguments = commands.listening(made.arguments, f"127.0.0.1:{(place() / 'port').read_text()}")
            return made

        def device_host(self, host: Any, epoch: float) -> Any:
            return Joined(host.name)

        async def remove(self, *, at_once: bool = False) -> None:
            await super().remove(at_once=at_once)
            for name in names():
                shutil.copytree(place() / name, run.folder.device_host(name), dirs_exist_ok=True)
            (place() / f"used-by-{own_mark()}").unlink()

    return Standing(run)
