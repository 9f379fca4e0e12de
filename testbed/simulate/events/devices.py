"""Simulated devices: who is there, who works until when, and what they say when they are told something.

A device says LeaseAccepted at once when it is offered a lease, LeaseReleased at once when that is taken back, and
leaves at once when it is sent away; what has to pass a link takes its time (``links``). What a device was working on
when it left is never answered: it does not resume.

One that the timeline disconnects, partitions or suspends is out of reach until its next row, and keeps what it has in
hand. It works on, unless it is suspended; what is done then is delivered when it is back. Disconnected, its session
ends at once; else when a coordinator would notice its silence, and until then it may be offered what it cannot take. It
is back with a new session in which it names what it holds; one that was suspended goes on in its session, if that has
not ended, and first hears what was said to it meanwhile.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, assert_never

from coordinator.engine import events as said
from coordinator.engine.deadlines import Calendar
from coordinator.engine.effects import Effect, EndSession, OfferLease, RevokeLease, SendAway
from coordinator.engine.events import (
    DeviceCheckedIn,
    Event,
    LeaseAccepted,
    LeaseReleased,
    SessionEnded,
    TaskFinished,
)
from coordinator.engine.ids import DeviceId, JobId, SessionSeq
from coordinator.engine.model import HeldLease, HeldPhase, Outcome, SessionEnd
from job_driver.counting import AttemptNo
from testbed.simulate.build import silent_at
from testbed.simulate.events.presence import FINISH, RESPONSE, SESSION_END, Finish, Kind, Present, Response, Row, rows
from testbed.simulate.model import Cut, Simulation, noise_index, noise_table
from testbed.world.arrays import Matching
from testbed.world.links import CONNECT, FETCH_CODE, Part, chances, free_at, task_end

_NO_MORE = Row(math.inf, math.inf, -1, -1, -1, 0.0, 0.0, False)
_UNREAD = replace(_NO_MORE, start_s=-math.inf)
_TOLD_TO = SessionEnd.GOODBYE_TOLD_TO
_INSTANCE = "0" * 32  # no device is ever copied


class Devices:
    """All devices of a simulation: what they do next, and what they answer at once."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._blocks = simulation.trace()
        self._rows: Iterator[Row] = iter(())
        self._next = _UNREAD
        self._links = simulation.links
        self._present: dict[SessionSeq, Present] = {}  # whose sessions a coordinator has not ended
        self._out_of_reach: dict[int, tuple[SessionSeq, Present]] = {}  # by device
        # What happens next: (time, kind, a response, a finish, or a session that ends).
        self.due: Calendar[tuple[float, Kind, Any]] = Calendar(self._stands)
        self.on: Mapping[type[Effect], Callable[[Any, float], Event | None]] = {
            OfferLease: self._take,
            RevokeLease: self._release,
            SendAway: self._leave,
            EndSession: self._over,
        }
        self._work = {job.spec.job: job.spec.workload for job in simulation.jobs}
        self._noise = noise_table(simulation.noise_sigma).tolist() if simulation.noise_sigma > 0 else None
        self._code: dict[int, set[JobId]] = {}  # by device with a link: the jobs whose code it has
        self._limits = _limits(simulation)
        self.next_check_in = self._next.start_s  # inf: the trace has ended; -inf: its next block is to be read first
        self.check_ins = 0  # that were said so far
        self._sessions = 0  # that were begun so far; also the last one
        self._began_s = 0.0  # when the coordinator did, the last time

    # -- what happens next

    def read(self) -> None:
        """Read the next block of the trace; it may have no rows."""
        block = next(self._blocks, None)
        if block is None:
            self._next = _NO_MORE
        else:
            self._rows = rows(block)
            self._next = next(self._rows, _UNREAD)
        self.next_check_in = self._next.start_s

    def arrive(self) -> tuple[SessionSeq, tuple[Effect, ...] | None]:
        """The next row of the trace: a device is there from here on. Its session, and what it has yet to hear in it;
        None: it begins.
        """
        row = self._next
        self._next = next(self._rows, _UNREAD)
        self.next_check_in = self._next.start_s
        if row.device not in self._out_of_reach:
            return self._attend(Present(row), row.start_s), None
        former, present = self._out_of_reach.pop(row.device)
        stood_still, present.how = present.how is Cut.SUSPEND, None
        if stood_still and present.task is not None:
            present.task = present.task._replace(at=present.task.at + row.start_s - present.since_s)
        present.row = row
        missed, present.missed = present.missed, ()
        if stood_still and former in self._present:
            self._stay(former, present, row.start_s)
            if present.receipt is not None:  # it waited, too
                self._expect(present, present.receipt._replace(at=max(present.receipt.at, row.start_s)))
            return former, missed
        self._present.pop(former, None)
        return self._attend(present, row.start_s), None

    def check_in(self, seq: SessionSeq) -> DeviceCheckedIn:
        """What a device says first in its session: who it is, and what it holds."""
        self.check_ins += 1
        present, simulation = self._present[seq], self._simulation
        row, names = present.row, simulation.names
        held = _names(present)
        per_session, per_day = self._limits[row.kind]
        return DeviceCheckedIn(
            seq,
            names[row.device] if names else DeviceId(str(row.device)),
            _INSTANCE,
            row.interval,
            simulation.kinds[row.kind],
            held,
            tasks_per_session=per_session,
            tasks_per_day=per_day,
            reference_s=row.slow,
        )

    def respond(self) -> Response:
        """The task that is done next; its device has it in hand until its driver has answered."""
        response: Response = self.due.pop()[2]
        return response

    def has(self, response: Response) -> bool:
        """Whether the device is there and has the response in hand."""
        return self._stands((response.at, RESPONSE, response))

    def let_go(self, response: Response) -> None:
        """Let the device go of an answered response, unless its link has to be passed first."""
        present = self._present[response.session]
        present.task = None
        if not self._links or self._links[present.row.device] is None:
            present.lease = None

    def acknowledge(self, response: Response, outcome: Outcome, now: float) -> TaskFinished | None:
        """What the device says to its driver's answer; None: it will say it when it has heard."""
        lease, session = response.lease, response.session
        present = self._present.get(session) if self._links else None
        link = None if present is None else self._links[present.row.device]
        if present is None or link is None:
            return TaskFinished(session, lease, outcome)
        free = free_at(link, now, chances(self._simulation.settings.seed, lease, Part.RECEIPT))
        self._expect(present, Finish(free, lease, session, outcome))
        return None

    def finish(self) -> TaskFinished:
        """The device that has its receipt next lets go of its task."""
        _, lease, session, outcome = self.due.pop()[2]
        present = self._present[session]
        present.receipt = None
        if present.lease == lease:
            present.lease = None
        return TaskFinished(session, lease, outcome)

    def end(self) -> SessionEnded | None:
        """The session that ends next, or whose device is out of reach from here on; None: nobody notices yet."""
        at, _, seq = self.due.pop()
        present = self._present[seq]
        if present.how is not None:
            present.ends_s = math.inf
            return SessionEnded(seq, SessionEnd.SILENT)
        present.how = self._simulation.cuts.get((present.row.device, at))
        if present.how is not None:
            return self._cut_off(seq, present, at)
        present.lease = present.task = None
        present.gone = True
        if present.row.crash:
            self._code.pop(present.row.device, None)
        return SessionEnded(seq, SessionEnd.CONNECTION_ENDED if present.row.crash else SessionEnd.GOODBYE_SESSION_OVER)

    def idles(self, session: SessionSeq) -> bool:
        """Whether the device is there and has nothing in hand."""
        present = self._present.get(session)
        return present is not None and present.lease is None

    # -- a coordinator that is away

    @property
    def attended(self) -> bool:
        """Whether somebody is there."""
        return bool(self._present)

    def unheard(self, event: Event) -> None:
        """Take back what a device has said and no coordinator will ever hear."""
        match event:
            case DeviceCheckedIn():
                self.check_ins -= 1
            case SessionEnded():
                self._present.pop(event.session, None)
            case TaskFinished() if event.session in self._present:
                self._present[event.session].told = event.lease, event.outcome
            case said.LeaseAccepted() | said.LeaseDeclined() | said.LeaseReleased() | said.DeviceHeard():
                pass  # of these its device keeps nothing
            case said.TaskProgressed() | said.TaskFailed() | TaskFinished():
                pass
            case said.JobSubmitted() | said.DriverFollowed() | said.DriverLost() | said.AttemptOpened():
                pass  # drivers say it again
            case said.ResponsesRecorded() | said.JobEnded():
                pass
            case (
                said.PolicyChanged()
                | said.CoordinatorRestarted()
                | said.JournalRotated()
                | said.DevicesDrained()
                | said.TimePassed()
                | said.TurnEnded()
            ):
                pass  # said by the coordinator itself
            case _:
                assert_never(event)

    def connect_again(self, now: float) -> list[SessionSeq]:
        """Give all who are there a session with the coordinator that came back, in order of those that they had."""
        self._began_s = now
        former, self._present = self._present, {}
        return [self._attend(present, now) for present in former.values() if present.how is None]

    # -- what devices are told

    def react(self, effect: Effect, now: float) -> Event | None:
        """What the device that hears of ``effect``, one of those in ``on``, says at once."""
        return self.on[effect.__class__](effect, now)

    def _release(self, revoked: RevokeLease, _: float) -> LeaseReleased | None:
        present = self._present.get(revoked.session)
        if present is None or present.how is not None:
            self._miss(present, revoked)
            return None
        if present.lease == revoked.lease:
            present.lease = present.task = None
        return LeaseReleased(revoked.session, revoked.lease)

    def _leave(self, sent: SendAway, _: float) -> SessionEnded | None:
        present = self._present.get(sent.session)
        if present is None or present.how is not None:
            self._miss(present, sent)
            return None
        return SessionEnded(sent.session, _TOLD_TO)

    def _over(self, ended: EndSession, _: float) -> None:
        self._present.pop(ended.session, None)

    def _attend(self, present: Present, now: float) -> SessionSeq:
        """Give the device a session of its own, from here on."""
        self._sessions += 1
        seq = SessionSeq(self._sessions)
        self._present[seq] = present
        self._stay(seq, present, now)
        return seq

    def _stay(self, seq: SessionSeq, present: Present, now: float) -> None:
        """Keep the device until the end of its row; what it has in hand it delivers when it is done, or now."""
        present.ends_s = present.row.end_s
        self.due.note((present.ends_s, SESSION_END, seq))
        if present.task is not None:
            present.task = present.task._replace(at=max(present.task.at, now), session=seq)
            self.due.note((present.task.at, RESPONSE, present.task))

    def _expect(self, present: Present, finish: Finish) -> None:
        """Expect a receipt that is under way to the device, which will say so."""
        present.receipt = finish
        self.due.note((finish.at, FINISH, finish))

    def _cut_off(self, seq: SessionSeq, present: Present, now: float) -> SessionEnded | None:
        present.since_s = now
        self._out_of_reach[present.row.device] = seq, present
        if present.how is Cut.DISCONNECT:
            present.ends_s = math.inf
            return SessionEnded(seq, SessionEnd.CONNECTION_ENDED)
        present.ends_s = silent_at(now, self._began_s)
        self.due.note((present.ends_s, SESSION_END, seq))
        return None

    def _miss(self, present: Present | None, effect: Effect) -> None:
        """Keep from a device an effect that it does not hear of, or not yet."""
        if present is not None and present.how is Cut.SUSPEND:
            present.missed += (effect,)

    def _take(self, offer: OfferLease, now: float) -> LeaseAccepted | None:
        present = self._present.get(offer.session)
        if present is None or present.gone or present.how is not None:
            self._miss(present, offer)
            return None
        done = self._done(present, offer, now)
        no = AttemptNo(offer.round, offer.attempt)
        task = Response(done, offer.lease, offer.session, offer.job, no, present.row.device)
        present.lease, present.task = offer.lease, task
        self.due.note((done, RESPONSE, task))
        return LeaseAccepted(offer.session, offer.lease)

    def _stands(self, entry: tuple[float, Kind, Any]) -> bool:
        """Whether an entry still holds: its device is within reach, and has this in hand or ends its session then."""
        at, kind, what = entry
        if kind is SESSION_END:
            present = self._present.get(what)
            return present is not None and present.ends_s == at
        present = self._present.get(what.session)
        if present is None or present.how is not None:
            return False
        return present.task is what if kind is RESPONSE else present.receipt is what and not present.gone

    def _done(self, present: Present, offer: OfferLease, now: float) -> float:
        """When its driver has the response. The order of these operations is part of the rules."""
        row, job, lease = present.row, offer.job, offer.lease
        work = self._work[job]
        seconds = work.compute_s * row.slow + float(work.download_bytes + work.upload_bytes) * row.byte_s
        if self._noise is not None:
            seconds *= self._noise[noise_index(self._simulation.settings.seed, lease)]
        link = self._links[row.device] if self._links else None
        if link is None:
            return now + seconds
        code = self._code.setdefault(row.device, set())
        first = (*(() if job in present.met else CONNECT), *(() if job in code else FETCH_CODE))
        present.met |= {job}
        code.add(job)
        chance = chances(self._simulation.settings.seed, lease, Part.TASK)
        return task_end(link, now, work, seconds, first=first, chance=chance)


def _limits(about: Simulation) -> tuple[tuple[int, int], ...]:
    """How many tasks in a session, and in a day, by kind of devices; 0: no limit."""
    limits = about.limits or ((about.tasks_per_session, about.tasks_per_day),) * len(about.kinds)
    if about.matching is Matching.AT_CHECK_IN:
        return tuple((1, per_day) for _, per_day in limits)
    return limits


def _names(present: Present) -> tuple[HeldLease, ...]:
    """What it holds: a task, or the answer to its response."""
    told, present.told = present.told, None
    if present.lease is not None:
        return (HeldLease(present.lease, HeldPhase.WORKING),)
    return () if told is None else (HeldLease(told[0], HeldPhase.DONE, told[1]),)
