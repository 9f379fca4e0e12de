"""A larger run by hand: three nested jobs on devices that come and go, drawn from a seed."""

import heapq
import random
from collections.abc import Callable
from functools import partial
from itertools import count

from coordinator.engine.model import SessionEnd
from coordinator.engine.requirements import AllDevices, Comparison, Every, Requirement
from tests.unit.report.world import Attempt, World

ROOMY = Comparison("memory", ">=", 4e9)
POWERFUL = Every((ROOMY, Comparison("cpu", ">=", 7.0)))


class ContendedRun:
    """Devices take the first open request that they are eligible for, scarcest first."""

    def __init__(self, seed: int = 1, devices: int = 60) -> None:
        self.world = World()
        self.random = random.Random(seed)
        self._queue: list[tuple[float, int, Callable[[float], None]]] = []
        self._ties = count()
        self._open: dict[str, Attempt | None] = {}
        self._left: dict[str, int] = {}
        for index in range(devices):
            fleet, cpu, memory = (("budget", 2.0, 2e9), ("midrange", 5.0, 6e9), ("flagship", 9.0, 12e9))[index % 3]
            name = self.world.device(f"{fleet}-{index:02d}", fleet=fleet, cpu=cpu, memory=memory)
            self.at(self.random.uniform(0, 6), partial(self.come, device=name))
        jobs: list[tuple[float, str, Requirement, str, int, int]] = [
            (0.0, "handwriting", AllDevices(), "any", 12, 9),
            (5.0, "tablet-pen", ROOMY, "roomy", 9, 7),
            (10.0, "label-count", POWERFUL, "powerful", 6, 4),
        ]
        for t, name, requirement, label, demand, rounds in jobs:
            self.at(
                t, partial(self.arrive, name=name, requirement=requirement, label=label, demand=demand, rounds=rounds)
            )

    def run(self, until: float = 70.0) -> World:
        while self._queue and self._queue[0][0] < until and (not self._left or any(self._left.values())):
            t, _, move = heapq.heappop(self._queue)
            self.world.busy(t, 0.3 + 0.2 * self.random.random()) if self.random.random() < 0.2 else None
            move(t)
        return self.world

    def at(self, t: float, move: Callable[[float], None]) -> None:
        heapq.heappush(self._queue, (t, next(self._ties), move))

    def arrive(self, t: float, name: str, requirement: Requirement, *, label: str, demand: int, rounds: int) -> None:
        self.world.job(t, name, requirement, label=label, demand=demand, rounds=rounds)
        self._left[name] = rounds
        self.open(t, name, 1, 1)

    def open(self, t: float, job: str, number: int, attempt: int) -> None:
        opened = self._open[job] = self.world.open(t, job, number, attempt)
        self.at(t + 15, lambda t: self.expire(t, opened))

    def expire(self, t: float, attempt: Attempt) -> None:
        if not attempt.ended:
            self.world.abort(t, attempt)
            self.open(t, attempt.job, attempt.round, attempt.attempt + 1)

    def come(self, t: float, device: str) -> None:
        self.world.check_in(t, device)
        stay = self.random.expovariate(1 / 8)
        crash = self.random.random() < 0.3
        self.at(t + stay, lambda t: self.go(t, device, crash))
        self.offer(t, device)

    def offer(self, t: float, device: str) -> None:
        for job in ("label-count", "tablet-pen", "handwriting"):
            attempt = self._open.get(job)
            if attempt is None or attempt.ended or len(attempt.live) + len(attempt.counted) >= attempt.places:
                continue
            if device in {self.world.leases[lease].device for lease in attempt.counted}:
                continue
            if self.world.specs[job].requirement.matches(device, self.world.devices[device]):  # type: ignore[arg-type]
                lease = self.world.lease(t, device, attempt)
                session = self.world.open_sessions[device]
                work = 4.0 / self.world.devices[device].numbers["cpu"] * self.random.uniform(0.9, 1.4)
                self.at(t + work, partial(self.answer, number=lease.lease, session=session))
                return

    def answer(self, t: float, number: int, session: int) -> None:
        lease = self.world.leases[number]  # type: ignore[index]
        if lease.lease not in lease.attempt.live:
            return
        if self.world.open_sessions.get(lease.device) != session:
            self.world.lose(t, lease)
        elif self.random.random() < 0.02:
            self.world.fail(t, lease, "ValueError: x has <b>0</b> rows\x1b[31m\ntraceback")
        else:
            self.world.respond(t, lease)
            self._closed(t, lease.attempt)

    def _closed(self, t: float, attempt: Attempt) -> None:
        if self._open.get(attempt.job) is not attempt or not attempt.ended:
            return
        if attempt.job != "label-count":
            self.world.metrics(attempt, accuracy=0.95 - 0.5 / (attempt.round + 0.5))
        self._open[attempt.job] = None
        self._left[attempt.job] -= 1
        if self._left[attempt.job] == 0:
            self.world.finish(t, attempt.job)
        else:
            self.at(t + 0.1, lambda t: self.open(t, attempt.job, attempt.round + 1, 1))

    def go(self, t: float, device: str, crash: bool) -> None:
        if device in self.world.open_sessions:
            self.world.leave(t, device, SessionEnd.CONNECTION_ENDED if crash else SessionEnd.GOODBYE_SESSION_OVER)
        self.at(t + self.random.expovariate(1 / 4), lambda t: self.come(t, device))
