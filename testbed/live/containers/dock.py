"""The containers of one run in the engine: made, told what to do, listened to, and taken away again."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from docker import DockerClient
from docker.models.containers import Container as Made
from docker.models.networks import Network
from docker.types import CancellableStream

from testbed.live.containers.engine import obeyed
from venn.wire.errors import CannotEnforceError
from venn.wire.marks import LABEL

P = ParamSpec("P")
T = TypeVar("T")
Heard = Callable[[str, int], None]  # a container's id, and the exit code that it ended with

SERVICE, NUMBER = "com.docker.compose.service", "com.docker.compose.container-number"  # labels of both generations
AT_ONCE = 6  # orders: an engine starts containers no faster for being asked for more


class Dock:
    """``up``, then ``down`` always."""

    def __init__(self, client: DockerClient, program: Sequence[str], project: str, file: Path, mark: str) -> None:
        self.client, self._project = client, project
        self._own: dict[str, str | list[str] | bool] = {"label": f"{LABEL}={mark}"}
        self._command = [*program, "--project-name", project, "--file", str(file)]
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.network: Network
        self._events: CancellableStream[Any] | None = None
        self._listener: threading.Thread | None = None

    def up_command(self, scale: Sequence[str]) -> list[str]:
        return [*self._command, "up", "--no-start", *scale]

    async def up(self, scale: Sequence[str], heard: Heard) -> Mapping[tuple[str, int], Made]:
        """Makes all containers, none of which runs yet: by service and number. ``heard`` is told in the event loop
        when one ends. Raises CannotEnforceError COMPOSE or ENGINE."""
        await self._compose(self.up_command(scale))
        self._listen(heard)
        self.network = await self.order(
            "its network was not found", self.client.networks.get, f"{self._project}_default"
        )
        made = await self.order("the containers were not found", self._find)
        return {(each.labels[SERVICE], int(each.labels[NUMBER])): each for each in made}

    async def down(self) -> None:
        """Containers and network. Raises CannotEnforceError: something is left, which `venn down` finds."""
        if self._events is not None:
            self._events.close()
        if self._listener is not None:
            await asyncio.to_thread(self._listener.join)
        for each in await self.order("what is left was not found", self._find):
            if each.status == "paused":
                await self.order("it does not go on", each.unpause)
        await self._compose([*self._command, "down", "--timeout", "0", "--volumes", "--remove-orphans"])
        self.client.close()

    async def order(self, what: str, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Something of the SDK, in a thread. Raises CannotEnforceError ENGINE: ``what``, and why."""
        async with self._slots:
            with obeyed(what):
                return await asyncio.to_thread(do, *args, **kwargs)

    def _find(self) -> list[Made]:
        return list(self.client.containers.list(all=True, filters=self._own, ignore_removed=True))

    def _listen(self, heard: Heard) -> None:
        loop = asyncio.get_running_loop()
        filters = {"type": "container", "event": "die", **self._own}
        self._events = events = self.client.events(decode=True, filters=filters)

        def listen() -> None:
            for event in events:
                actor = event["Actor"]
                loop.call_soon_threadsafe(heard, actor["ID"], int(actor["Attributes"]["exitCode"]))

        self._listener = threading.Thread(target=listen, daemon=True)
        self._listener.start()

    async def _compose(self, command: Sequence[str]) -> None:
        """To its end, even if we are cancelled: what is half made could not be removed."""
        running = asyncio.ensure_future(self._run(command))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            await running
            raise

    async def _run(self, command: Sequence[str]) -> None:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        _, said = await process.communicate()
        if process.returncode != 0:
            lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
            message = f"it failed: {lines[-1] if lines else f'exit code {process.returncode}'}"
            raise CannotEnforceError("COMPOSE", message, where=" ".join(command))
