"""The containers of one run in the engine (``ComposeProject``), and each as a component (``Container``)."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from docker import DockerClient
from docker.errors import APIError
from docker.models.containers import Container as Made
from docker.models.networks import Network
from docker.types import CancellableStream

from testbed.live.backend.protocol import STOP_GRACE_S, TAIL_LINES, failure_of, json_object, to_its_end
from testbed.live.containers.compose import INSIDE, SETTINGS, packed, unpack
from testbed.live.containers.engine import BUILD, is_held, obeyed
from testbed.live.throttle.entrypoint import AGAIN, CHANGED
from venn.wire.errors import CannotEnforceError, PeerError, VennError
from venn.wire.files import write_atomic
from venn.wire.process import LABEL

LIST = ["cat", "/proc/net/tcp", "/proc/net/tcp6"]  # the second is not there where there is no IPv6
_ESTABLISHED = "01"  # at this end: the other has not said that it is over, or nothing of that has come


def connected(listed: str, peer: str) -> bool:
    """Whether a connection with an IPv4 address is open; one from it to an IPv6 socket is listed as ::ffff:a.b.c.d."""
    written = socket.inet_aton(peer)[::-1].hex().upper()  # the kernel writes words as they lie in its memory
    rows = (line.split() for line in listed.splitlines())
    return any(len(row) > 3 and row[2].partition(":")[0][-8:] == written and row[3] == _ESTABLISHED for row in rows)


P = ParamSpec("P")
T = TypeVar("T")
Heard = Callable[[str, int], None]  # a container's id, and the exit code that it ended with

SERVICE, NUMBER = "com.docker.compose.service", "com.docker.compose.container-number"  # labels of both generations
AT_ONCE = 6  # orders: an engine starts containers no faster for being asked for more


class ComposeProject:
    """The containers of one run: ``up``, then ``down`` always."""

    def __init__(self, client: DockerClient, program: Sequence[str], project: str, file: Path, mark: str) -> None:
        self.client, self._name = client, project
        self._own: dict[str, str | list[str] | bool] = {"label": f"{LABEL}={mark}"}
        self._command = [*program, "--project-name", project, "--file", str(file)]
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.network: Network
        self._events: CancellableStream[Any] | None = None
        self._listener: threading.Thread | None = None

    def up_command(self, scale: Sequence[str]) -> list[str]:
        return [*self._command, "up", "--no-start", *scale]

    async def up(self, scale: Sequence[str], heard: Heard) -> Mapping[tuple[str, int], Made]:
        """Make all containers, without starting them: by service and number. ``heard`` is told in the event loop
        when one ends. Raises CannotEnforceError COMPOSE or ENGINE."""
        await to_its_end(self._compose(self.up_command(scale)))
        self._listen(heard)
        self.network = await self.order("its network was not found", self.client.networks.get, f"{self._name}_default")
        made = await self.order("the containers were not found", self._find)
        return {(each.labels[SERVICE], int(each.labels[NUMBER])): each for each in made}

    async def down(self) -> None:
        """Remove containers and network. Raises CannotEnforceError: something is left, which `venn down` finds."""
        if self._events is not None:
            self._events.close()
        if self._listener is not None:
            await asyncio.to_thread(self._listener.join)
        for each in await self.order("what is left was not found", self._find):
            if each.status == "paused":
                await self.order("it does not continue", each.unpause)
        down = [*self._command, "down", "--timeout", "0", "--volumes", "--remove-orphans"]
        await to_its_end(self._compose(down))
        self.client.close()

    async def order(self, what: str, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the SDK in a thread. Raises PeerError ENGINE: ``what``, and why."""
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
        """Run a command of Compose. Raises CannotEnforceError COMPOSE."""
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


LINK_AGAIN = ["python", "-m", "testbed.live.throttle.entrypoint", AGAIN]
Find = Callable[[], Made | None]

SIGNALS = range(128 + 1, 128 + 32)
OWN_CODES = (130, 143)  # a program of ours that was asked to stop says so itself
LOOK_S = 0.1
TOLD_WITHIN_S = 10.0  # by the engine, that a container has ended


class Container:
    """A program of ours in a container; see ``Component``. ``find`` finds the container, once it is made."""

    def __init__(self, name: str, project: ComposeProject, find: Find, *, log: Path, settings: str = "") -> None:
        """``settings``: the text of its venn.toml, which goes with the flags of its command."""
        self.name, self.log = name, log
        self._project, self._find, self._settings = project, find, settings
        self._started_at = 0.0
        self._ended: asyncio.Future[int] | None = None
        self._link: Mapping[str, str] = {}  # what has changed of its limits
        self._still = self._cut_off = False  # it cannot be told of that now
        self._used: dict[str, Any] = {}  # before it was stopped, as the engine counts
        self.starts = 0
        self._words: list[str] = []  # its last ones

    @property
    def running(self) -> bool:
        return self._ended is not None and not self._ended.done()

    def resume(self) -> None:
        again = "resume = true\n"
        self._settings = self._settings.removesuffix(again) + again

    async def start(self) -> None:
        """Start it, even if we are cancelled: if it started after it was told to stop, it would never end."""
        await to_its_end(self._start())

    async def _start(self) -> None:
        made = self._made()
        self._ended = asyncio.get_running_loop().create_future()
        self._started_at = time.time()
        self.starts += 1
        try:
            await self._give({SETTINGS: self._settings})
            await self._project.order(f"{self.name} did not start", made.start)
        except BaseException:
            self._ended = None  # nobody will say that it has ended
            raise

    def ended(self, code: int) -> None:
        """Take the exit code from the engine."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(128 - code if code in SIGNALS and code not in OWN_CODES else code)

    async def announced(self, within_s: float) -> dict[str, object]:
        last = time.monotonic() + within_s
        while time.monotonic() < last:
            ended = not self.running
            said = await self._project.order("its log cannot be read", self._logs, stderr=False)
            line = said.partition("\n")[0] if "\n" in said else ""
            if (announcement := json_object(line)) is not None and "error" not in announcement:
                return announcement
            if ended or announcement is not None:
                await self.wait()
                raise self.failure()
            await asyncio.sleep(LOOK_S)
        raise self.failure(f"was not ready after {within_s:g} s")

    async def wait(self) -> int:
        assert self._ended is not None, f"{self.name} was not started"
        code = await asyncio.shield(self._ended)
        said = await self._project.order("its log cannot be read", self._logs, tail=TAIL_LINES)
        self._words = [line for line in said.splitlines() if line.strip()]
        return code

    async def stop(self, grace_s: float | None = None) -> int | None:
        if self._ended is None:
            return None
        if not self.running:
            return await self.wait()
        with suppress(TimeoutError):  # the engine does not say that it has ended: it has been restarted, perhaps
            await self._unpause()
            self._used = await self._project.order("the engine does not say what it used", self._stats)
            grace = STOP_GRACE_S if grace_s is None else grace_s
            await self._project.order(f"{self.name} does not stop", self._made().stop, timeout=round(grace))
            async with asyncio.timeout(TOLD_WITHIN_S):
                return await self.wait()
        return None

    def failure(self, what: str = "") -> VennError:
        code = self._ended.result() if self._ended is not None and self._ended.done() else None
        return failure_of(self.name, code, self._words, what, self.log)

    # -- what a timeline does

    async def kill(self) -> None:
        """Kill it; if it is paused it goes on first, because the engine kills no paused container."""
        await self._unpause()
        with suppress(VennError):  # it has ended by itself
            await self._project.order(f"{self.name} is not killed", self._made().kill)

    async def pause(self) -> None:
        self._still = True
        with suppress(VennError):
            await self._project.order(f"{self.name} is not suspended", self._made().pause)

    async def unpause(self) -> None:
        """Let it go on, with the limits that its link has by now."""
        await self._unpause()
        if self._link:
            await self._set_link()

    async def _unpause(self) -> None:
        self._still = False

        def unpause() -> None:
            with suppress(APIError):  # it is not suspended
                self._made().unpause()

        await self._project.order(f"{self.name} does not continue", unpause)

    async def fetch_output(self, root: Path) -> dict[str, object]:
        """Fetch what it wrote into the folder ``root``, and its whole log. Return what it was and used."""
        if (made := self._find()) is None or self._ended is None:
            return {}

        def fetch() -> None:
            archive, _ = made.get_archive(INSIDE)
            unpack(archive, root)
            self.log.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.log, made.logs(stdout=True, stderr=True))
            made.reload()

        await self._project.order(f"what {self.name} wrote did not come back", fetch)
        state, cpu, memory = made.attrs["State"], self._used.get("cpu_stats", {}), self._used.get("memory_stats", {})
        ways = self._used.get("networks", {}).values()
        return {
            "part": self.name,
            "container": made.name,
            "id": made.short_id,
            "image": made.attrs["Image"],
            "starts": self.starts,
            "exit_code": state["ExitCode"],
            "out_of_memory": state["OOMKilled"],
            "cpu_s": cpu.get("cpu_usage", {}).get("total_usage", 0) / 1e9,
            "throttled_periods": cpu.get("throttling_data", {}).get("throttled_periods", 0),
            "memory_max_bytes": memory.get("max_usage", memory.get("usage", 0)),
            "sent_bytes": sum(way["tx_bytes"] for way in ways),
            "received_bytes": sum(way["rx_bytes"] for way in ways),
        }

    async def cut_off(self) -> None:
        """Take its network away until ``connect``."""
        self._cut_off = True
        await self._project.order(
            f"{self.name} is not cut off", self._project.network.disconnect, self._made(), force=True
        )

    async def connect(self) -> None:
        """Give it its network back, and set its limits again: the interface is a new one."""
        made = self._made()
        await self._project.order(f"{self.name} is not connected", self._project.network.connect, made)
        self._cut_off = False
        if made.attrs["HostConfig"]["CapAdd"]:
            await self._set_link()

    async def limit(self, link: Mapping[str, str]) -> None:
        """Limit its link from now on, or as soon as it goes on, is connected, or starts again.

        ``link``: as its entrypoint is told.
        Raises CannotEnforceError: it is not in force.
        """
        self._link = link
        await self._give({CHANGED: json.dumps(dict(link))})
        await self._set_link()

    async def _set_link(self) -> None:
        if not self.running or self._still or self._cut_off:
            return
        made, starts = self._made(), self.starts
        try:
            done, said = await self._run("its link is not limited", LINK_AGAIN, user="root")
            if not done:
                raise CannotEnforceError("NOT_IN_FORCE", f"its link is not limited: {said.strip()}", where=self.name)
            if not is_held(said):
                message = "its image is older than this testbed: it does not say what holds its link"
                raise CannotEnforceError("NOT_IN_FORCE", message, where=self.name, fix=BUILD)
        except VennError:
            await self._project.order("it cannot be looked at", made.reload)
            if made.status == "running" and self.starts == starts:  # else its next start knows
                raise

    async def address(self) -> str:
        """Its address in its network; "" while it has none."""
        made = self._made()
        await self._project.order("it cannot be looked at", made.reload)
        own = made.attrs["NetworkSettings"]["Networks"].get(self._project.network.name, {})
        return str(own.get("IPAddress") or "")

    async def hears(self, address: str) -> bool:
        """Whether it has a connection with the address that is open at its end; also if it is suspended."""
        if not self.running:
            return False
        if self._still:
            return True
        _, listed = await self._run("its connections are not listed", LIST)
        return connected(listed, address)

    async def _run(self, what: str, command: Sequence[str], *, user: str = "") -> tuple[bool, str]:
        """Run a command in it; return whether it went well, and what it says."""
        done = await self._project.order(what, self._made().exec_run, list(command), user=user)
        return done.exit_code == 0, done.output.decode(errors="replace") if isinstance(done.output, bytes) else ""

    async def _give(self, files: Mapping[str, str]) -> None:
        """Write files of ``INSIDE``, also while it does not run."""
        archive = packed({f"{INSIDE}/{name}": text.encode() for name, text in files.items()})
        await self._project.order(f"{self.name} was not given its files", self._made().put_archive, "/", archive)

    def _made(self) -> Made:
        if (made := self._find()) is None:
            raise PeerError("ENGINE", "there is no such container", where=self.name)
        return made

    def _stats(self) -> dict[str, Any]:
        one: dict[str, Any] = self._project.client.api.stats(str(self._made().id), stream=False, one_shot=True)
        return one

    def _logs(self, *, stderr: bool = True, tail: int | Literal["all"] = "all") -> str:
        """What it has said since it started, or the last lines of that."""
        logs: bytes = self._made().logs(stdout=True, stderr=stderr, since=self._started_at, tail=tail)
        return logs.decode(errors="replace")


def settings(table: str, flags: Mapping[str, str | float]) -> str:
    """A TOML table of flags."""
    lines = (f"{name} = {json.dumps(value)}\n" for name, value in flags.items())
    return f"[{table}]\n{''.join(lines)}"
