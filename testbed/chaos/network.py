"""The network between simulated processes: connections that keep order, delay, stand still, and break.

A message of a connection arrives after those before it, as with TCP. What fails is the connection: what was under way
on it is lost, and each end hears of it in its own time. Messages of an earlier connection may arrive after those of a
later one. An address is a loopback IP per machine and a port.
"""

import itertools
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, Protocol

from testbed.chaos.loop import ProcessLoop, Scheduler

CLIENT, SERVER = 0, 1  # the ends of a connection
NOTICED_S = 50.0  # a peer that vanished without a word is noticed by keepalive
REFUSED_S = 20.0  # a connection to a machine that does not answer fails
KEPT_MESSAGES = 64  # that a stranger on the wire has seen, of each method


class Listener(Protocol):
    """A server that listens at an address."""

    loop: ProcessLoop
    serving: bool


class Flaw(NamedTuple):
    """What a link does to messages while it is bad."""

    until: float
    breaks: float  # probability that a message is lost, with its connection
    delay_s: float  # added to each message, at most
    repeats: float  # probability that a unary call arrives twice


class Machine:
    """A machine on the network; its processes come and go."""

    def __init__(self, name: str, ip: str) -> None:
        self.name, self.ip = name, ip
        self.loop: ProcessLoop | None = None  # of the process that runs now
        self.cut_off_until = 0.0
        self.flaw: Flaw | None = None
        self.connections: dict[Connection, int] = {}  # those that it is an end of, and which


class Connection:
    """One connection, from its first byte until both ends know that it is over."""

    def __init__(self, network: "Network", number: int, client: Machine, server: Machine, to: Listener) -> None:
        self.number = number
        self.server: Any = to
        self.machines = (client, server)
        self.loops = (client.loop, server.loop)
        self.open = [True, True]  # as each end sees it
        self.lost = False  # nothing arrives any more
        self.calls: tuple[dict[int, Any], dict[int, Any]] = ({}, {})  # by number, of each end
        self.rng = Random(f"{network.seed}/{client.name}/{server.name}/{number}")
        self._network = network
        self._latest = [network.scheduler.now] * 2  # when the last message arrives, at each end
        for end in (CLIENT, SERVER):
            self.machines[end].connections[self] = end

    def post(self, end: int, deliver: Callable[..., None], *args: Any) -> None:
        """Let ``deliver(*args)`` be called at the other end, unless the connection breaks before."""
        if not self.open[end] or self.lost:
            return
        arrives = self._network.arrival(self, end)
        if arrives is None:
            self.break_off()
            return
        other = 1 - end
        self._latest[other] = arrives = max(arrives, self._latest[other])
        loop = self.loops[other]
        if loop is not None:
            loop.call_at(arrives, self._arrive, other, deliver, args)

    def close(self, end: int) -> None:
        """Close the connection from one end; the other hears of it after what was said before."""
        if self.open[end]:
            self.post(end, self._gone, 1 - end)
            self._gone(end)

    def vanish(self, end: int) -> None:
        """Lose the machine at one end: the other one notices much later."""
        self._over(end)
        other = 1 - end
        loop = self.loops[other]
        if loop is not None:
            loop.call_later(NOTICED_S, self._gone, other)

    def break_off(self) -> None:
        """Break: what is under way is lost, and each end hears of it soon."""
        if self.lost:
            return
        self.lost = True
        for end in (CLIENT, SERVER):
            loop = self.loops[end]
            if loop is not None:
                loop.call_later(self.rng.uniform(0.001, 0.5), self._gone, end)

    def _arrive(self, end: int, deliver: Callable[..., None], args: tuple[Any, ...]) -> None:
        if self.open[end] and not (self.lost and deliver != self._gone):
            deliver(*args)

    def _over(self, end: int) -> None:
        self.open[end] = False
        self.machines[end].connections.pop(self, None)

    def _gone(self, end: int) -> None:
        """Note at one end that the connection is over."""
        if not self.open[end]:
            return
        self._over(end)
        calls = list(self.calls[end].values())
        self.calls[end].clear()
        for call in calls:
            call.connection_lost()


class Network:
    """All machines, who listens where, and what is wrong now."""

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        self.scheduler, self.seed = scheduler, seed
        self.machines: dict[str, Machine] = {}  # by IP
        self.listening: dict[str, Listener] = {}  # by address
        self.seen: dict[str, deque[bytes]] = {}  # the latest messages up, by method: for a stranger who replays them
        self.numbers = itertools.count(1)
        self._ports = itertools.count(20_000)

    def add(self, name: str) -> Machine:
        """Add a machine."""
        machine = Machine(name, f"127.0.1.{len(self.machines) + 1}")
        self.machines[machine.ip] = machine
        return machine

    def listen(self, server: Listener, ip: str, port: int) -> str:
        """Let a server listen; port 0: a free one. Returns the address."""
        address = f"{ip}:{port or next(self._ports)}"
        self.listening[address] = server
        return address

    def dial(self, client: Machine, address: str) -> Connection | float:
        """Connect to an address; or in so many seconds say that nobody answers."""
        machine = self.machines.get(address.rpartition(":")[0])
        server = self.listening.get(address)
        now = self.scheduler.now
        if machine is None or machine.loop is None:
            return REFUSED_S
        if max(machine.cut_off_until, client.cut_off_until) > now + REFUSED_S:
            return REFUSED_S
        if server is None or server.loop is not machine.loop or not server.serving:
            return 0.01
        return Connection(self, next(self.numbers), client, machine, server)

    def arrival(self, connection: Connection, end: int) -> float | None:
        """When a message that is sent now arrives; None: it does not, and its connection is over."""
        now, rng = self.scheduler.now, connection.rng
        latency = rng.uniform(0.0005, 0.05)
        for machine in connection.machines:
            flaw = machine.flaw
            if flaw is not None and flaw.until > now:
                if rng.random() < flaw.breaks:
                    return None
                latency += rng.random() ** 3 * flaw.delay_s
        blocked = max(machine.cut_off_until for machine in connection.machines)
        if blocked > now + NOTICED_S:
            for one in (CLIENT, SERVER):  # keepalive gives it up
                loop = connection.loops[one]
                if loop is not None:
                    loop.call_later(NOTICED_S * rng.uniform(0.9, 1.1), connection._gone, one)
            connection.lost = True
        return max(now, blocked) + latency

    def repeats(self, connection: Connection) -> bool:
        """Whether a unary call arrives twice."""
        now = self.scheduler.now
        flaws = (machine.flaw for machine in connection.machines)
        return any(flaw.until > now and connection.rng.random() < flaw.repeats for flaw in flaws if flaw is not None)

    def note(self, method: str, message: bytes) -> None:
        """Keep a message that somebody on the wire has seen."""
        self.seen.setdefault(method, deque(maxlen=KEPT_MESSAGES)).append(message)

    def gone(self, machine: Machine, *, powered: bool) -> None:
        """Note that a machine's process ended; without power nobody is told."""
        for connection, end in list(machine.connections.items()):
            if powered:
                connection.close(end)
            else:
                connection.vanish(end)
        machine.loop = None
