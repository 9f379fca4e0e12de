"""Simulated devices: who is there, who works until when, and what they say when they are told something.

A device says LeaseAccepted at once when it is offered a lease, LeaseReleased at once when that is taken back, and
leaves at once when it is sent away; what has to pass a link takes its time (``links``). What a device was working on
when it left is never answered: it does not resume.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from coordinator.engine.effects import Effect, EndSession, OfferLease, RevokeLease, SendAway
from coordinator.engine.events import (
    DeviceCheckedIn,
    Event,
    LeaseAccepted,
    LeaseReleased,
    SessionEnded,
    TaskFinished,
)
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, SessionSeq
from coordinator.engine.model import Outcome, SessionEnd
from testbed.simulator.links import CONNECT, FETCH_CODE, Course, Part, chances, free_at, task_end
from testbed.simulator.model import CheckIns, Matching, Simulation
from testbed.simulator.noise import noise_index, noise_table

_INSTANCE = "0" * 32  # no device is ever copied
_AT_A_TIME = 4096  # rows that are turned into Python's own numbers


class Row(NamedTuple):
    """A row of ``CheckIns``, in the order of its columns."""

    start_s: float
    end_s: float
    device: int
    interval: int
    kind: int
    slow: float
    byte_s: float
    crash: bool


class Response(NamedTuple):
    """A task is done then, if its device still has it in hand. In the order of the fields, which is that of events."""

    at: float
    lease: LeaseSeq
    session: SessionSeq
    job: JobId
    round: int
    attempt: int


class Finish(NamedTuple):
    """A device says then that it has finished, if it is still there. In the order of events."""

    at: float
    lease: LeaseSeq
    session: SessionSeq
    outcome: Outcome


@dataclass(slots=True)
class Present:
    """A device in a session."""

    row: Row
    lease: LeaseSeq | None = None  # in hand
    met: set[JobId] = field(default_factory=set)  # whose drivers it has a connection to
    told: LeaseSeq | None = None  # its driver has answered, and no coordinator has heard of it
    gone: bool = False  # and the coordinator has not heard of it yet


class Devices:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._rows = chain.from_iterable(map(rows, simulation.trace()))
        self._next = next(self._rows, None)
        self._present: dict[SessionSeq, Present] = {}
        self._responses: list[Response] = []  # a heap; some are void
        self._finishes: list[Finish] = []  # a heap; some are void
        self._ends: list[tuple[float, SessionSeq]] = []  # a heap; some are void
        self._work = {job.spec.job: job.spec.workload for job in simulation.jobs}
        self._noise = noise_table(simulation.noise_sigma).tolist() if simulation.noise_sigma > 0 else None
        self._code: dict[int, set[JobId]] = {}  # by device with a link: the jobs whose code it has
        self._at_check_in = simulation.matching is Matching.AT_CHECK_IN
        self.check_ins = 0  # that were said so far
        self._sessions = 0  # that were begun so far; also the last one

    # -- what happens next

    def next_check_in(self) -> float:
        """inf: the trace has ended."""
        return math.inf if self._next is None else self._next.start_s

    def next_response(self) -> float:
        """inf: nobody works."""
        heap = self._responses
        while heap:
            first = heap[0]
            if self.has(first):
                return first.at
            heapq.heappop(heap)
        return math.inf

    def next_finish(self) -> float:
        """inf: nobody waits for a receipt."""
        heap = self._finishes
        while heap and ((there := self._present.get(heap[0].session)) is None or there.gone):
            heapq.heappop(heap)
        return heap[0].at if heap else math.inf

    def next_end(self) -> float:
        """Of a session. inf: nobody is there."""
        heap = self._ends
        while heap and heap[0][1] not in self._present:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def arrive(self) -> SessionSeq:
        """The next row of the trace: a device is there from here on."""
        row = self._next
        if row is None:
            raise IndexError("the trace has ended")
        self._next = next(self._rows, None)
        return self._attend(row)

    def check_in(self, seq: SessionSeq, foreign: tuple[LeaseSeq, ...] = ()) -> DeviceCheckedIn:
        """What a device says first in its session; ``foreign``: what it was given by another coordinator."""
        self.check_ins += 1
        row, simulation = self._present[seq].row, self._simulation
        names = simulation.names
        per_session, per_day = self._limits(row.kind)
        return DeviceCheckedIn(
            seq,
            names[row.device] if names else DeviceId(str(row.device)),
            _INSTANCE,
            row.interval,
            simulation.kinds[row.kind],
            foreign=foreign,
            tasks_per_session=per_session,
            tasks_per_day=per_day,
            reference_s=row.slow,
        )

    def respond(self) -> Response:
        """The task that is done next; its device has it in hand until its driver has answered."""
        return heapq.heappop(self._responses)

    def has(self, response: Response) -> bool:
        """Its device is there and has it in hand."""
        present = self._present.get(response.session)
        return present is not None and present.lease == response.lease

    def let_go(self, response: Response) -> None:
        """Its driver has answered: the device lets go of it, unless its link has to be passed first."""
        present = self._present[response.session]
        if self._link(present.row.device) is None:
            present.lease = None

    def acknowledge(self, response: Response, outcome: Outcome, now: float) -> TaskFinished | None:
        """Its driver has answered. What its device says to that; None: it will, when it has heard."""
        _, lease, session, *_ = response
        present = self._present.get(session)
        link = None if present is None else self._link(present.row.device)
        if link is None:
            return TaskFinished(session, lease, outcome)
        free = free_at(link, now, chances(self._simulation.settings.seed, lease, Part.RECEIPT))
        heapq.heappush(self._finishes, Finish(free, lease, session, outcome))
        return None

    def finish(self) -> TaskFinished:
        """The device that has its receipt next lets go of its task."""
        _, lease, session, outcome = heapq.heappop(self._finishes)
        present = self._present[session]
        if present.lease == lease:
            present.lease = None
        return TaskFinished(session, lease, outcome)

    def end(self) -> SessionEnded:
        """The session that ends next. Its device stops with what it has in hand."""
        _, seq = heapq.heappop(self._ends)
        present = self._present[seq]
        present.lease, present.gone = None, True
        if present.row.crash:
            self._code.pop(present.row.device, None)
        return SessionEnded(seq, SessionEnd.CONNECTION_ENDED if present.row.crash else SessionEnd.GOODBYE_SESSION_OVER)

    def idles(self, session: SessionSeq) -> bool:
        """It is there and has nothing in hand."""
        present = self._present.get(session)
        return present is not None and present.lease is None

    # -- a coordinator that is away

    @property
    def attended(self) -> bool:
        """Somebody is there."""
        return bool(self._present)

    def unheard(self, event: Event) -> None:
        """No coordinator will ever hear what a device has said."""
        match event:
            case DeviceCheckedIn():
                self.check_ins -= 1
            case SessionEnded():
                self._present.pop(event.session, None)
            case TaskFinished() if event.session in self._present:
                self._present[event.session].told = event.lease
            case _:
                pass

    def check_in_again(self) -> Iterator[DeviceCheckedIn]:
        """All who are there, with another coordinator, in order of their sessions."""
        former, self._present = self._present, {}
        for present in former.values():
            held = present.lease or present.told
            session = self._attend(present.row)
            self._present[session].met = present.met
            yield self.check_in(session, () if held is None else (held,))

    # -- what devices are told

    def react(self, effect: Effect, now: float) -> Event | None:
        """What the device that hears of ``effect`` says at once."""
        match effect:
            case OfferLease():
                return self._take(effect, now)
            case RevokeLease():
                present = self._present.get(effect.session)
                if present is None:
                    return None
                if present.lease == effect.lease:
                    present.lease = None
                return LeaseReleased(effect.session, effect.lease)
            case SendAway():
                return SessionEnded(effect.session, SessionEnd.GOODBYE_TOLD_TO)
            case EndSession():
                self._present.pop(effect.session, None)
                return None
            case _:
                return None

    def _attend(self, row: Row) -> SessionSeq:
        self._sessions += 1
        seq = SessionSeq(self._sessions)
        self._present[seq] = Present(row)
        heapq.heappush(self._ends, (row.end_s, seq))
        return seq

    def _limits(self, kind: int) -> tuple[int, int]:
        """How many tasks in a session, and in a day; 0: no limit."""
        about = self._simulation
        per_session, per_day = about.limits[kind] if about.limits else (about.tasks_per_session, about.tasks_per_day)
        return (1 if self._at_check_in else per_session), per_day

    def _take(self, offer: OfferLease, now: float) -> LeaseAccepted | None:
        present = self._present[offer.session]
        if present.gone:
            return None
        present.lease = offer.lease
        done = self._done(present, offer, now)
        heapq.heappush(
            self._responses, Response(done, offer.lease, offer.session, offer.job, offer.round, offer.attempt)
        )
        return LeaseAccepted(offer.session, offer.lease)

    def _done(self, present: Present, offer: OfferLease, now: float) -> float:
        """When its driver has the response."""
        row, job = present.row, offer.job
        seconds = self._duration(row, job, offer.lease)
        link = self._link(row.device)
        if link is None:
            return now + seconds
        code = self._code.setdefault(row.device, set())
        first = (*(() if job in present.met else CONNECT), *(() if job in code else FETCH_CODE))
        present.met.add(job)
        code.add(job)
        chance = chances(self._simulation.settings.seed, offer.lease, Part.TASK)
        return task_end(link, now, self._work[job], seconds, first=first, chance=chance)

    def _link(self, device: int) -> Course | None:
        links = self._simulation.links
        return links[device] if links else None

    def _duration(self, row: Row, job: JobId, lease: LeaseSeq) -> float:
        """Seconds of a task, but for what passes a link. The order of these operations is part of the rules."""
        work = self._work[job]
        seconds = work.compute_s * row.slow + float(work.download_bytes + work.upload_bytes) * row.byte_s
        if self._noise is not None:
            seconds *= self._noise[noise_index(self._simulation.settings.seed, lease)]
        return seconds


def rows(block: CheckIns) -> Iterator[Row]:
    """Of a block, in order."""
    columns = (
        block.start_s,
        block.end_s,
        block.device,
        block.interval,
        block.kind,
        block.slow,
        block.byte_s,
        block.crash,
    )
    for first in range(0, len(block), _AT_A_TIME):
        yield from map(Row._make, zip(*(one[first : first + _AT_A_TIME].tolist() for one in columns), strict=True))
