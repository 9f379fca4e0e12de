"""A run folder made by hand: the few moves of a run, each written to the logs of those who would have written it.

No engine is behind it (``testbed.testing.engine`` has one): an audit must find what no engine would do.
"""

import json
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import cast

from coordinator.engine import effects as done
from coordinator.engine import events as past
from coordinator.engine.ids import DeviceId, JobId, LeaseSeq, RequestId, SessionSeq
from coordinator.engine.model import (
    Asynchronous,
    AttemptEndReason,
    AttemptStatus,
    EngineSettings,
    FailureReason,
    JobEnd,
    JobSpec,
    LeaseEnd,
    Outcome,
    Phase,
    Repeat,
    SessionEnd,
    Workload,
)
from coordinator.engine.record import text_of, texts_of
from coordinator.engine.requirements import Capabilities, Requirement

WALL_MS = 1_700_000_000_000
INCARNATION = 41


@dataclass
class Attempt:
    job: str
    round: int
    attempt: int
    request: RequestId
    places: int
    needed: int
    counted: list[LeaseSeq] = field(default_factory=list)
    live: set[LeaseSeq] = field(default_factory=set)
    ended: bool = False


@dataclass
class Lease:
    lease: LeaseSeq
    device: str
    session: SessionSeq
    attempt: Attempt


class World:
    """Times are engine seconds, ascending."""

    def __init__(self, policy: str = "venn", seed: int = 7) -> None:
        self.settings = EngineSettings(seed=seed, policy=policy)
        self.about: dict[str, object] = {"name": "by-hand", "policy": policy, "seed": seed, "backend": "process"}
        self.lines: list[dict[str, object]] = []
        self.specs: dict[str, JobSpec] = {}
        self.devices: dict[str, Capabilities] = {}
        self.population: list[dict[str, object]] = []
        self.open_sessions: dict[str, SessionSeq] = {}
        self.leases: dict[LeaseSeq, Lease] = {}
        self.logs: dict[str, list[dict[str, object]]] = {}
        self.scenario = ""
        self._sessions = 0
        self._requests = 0
        self._requests_of: dict[str, RequestId] = {}  # of asynchronous jobs

    # -- who takes part

    def device(self, name: str, *, fleet: str = "phones", process: str | None = None, **numbers: float) -> str:
        self.devices[name] = Capabilities(numbers=numbers, labels={"fleet": frozenset({fleet})})
        self.population.append({"device": name, "fleet": fleet, "process": process})
        return name

    def job(
        self,
        t: float,
        name: str,
        requirement: Requirement,
        *,
        label: str,
        demand: int,
        rounds: int,
        asynchronous: Asynchronous | None = None,
        compute_s: float = 0.0,
        repeat: Repeat = Repeat.ONCE,
    ) -> str:
        spec = JobSpec(
            job=JobId(f"me/{name}/r1"),
            requirement=requirement,
            requirement_name=label,
            rounds=rounds,
            demand=demand,
            min_response=Fraction(4, 5),
            over_commit=Fraction(0),
            deadline_s=15.0,
            lease_s=15.0,
            workload=Workload(compute_s=compute_s),
            asynchronous=asynchronous,
            repeat=repeat,
        )
        self.specs[name] = spec
        self.hear(t, past.JobSubmitted(spec, 1), done.AcceptJob(spec.job, None))
        return name

    # -- what happens

    def check_in(self, t: float, device: str) -> SessionSeq:
        self._sessions += 1
        session = SessionSeq(self._sessions)
        self.open_sessions[device] = session
        event = past.DeviceCheckedIn(session, DeviceId(device), "ab" * 16, self._sessions, self.devices[device])
        self.hear(t, event, done.OpenSession(session, DeviceId(device)))
        self.log(self.host(device), "sessions", device=device, interval=self._sessions, event="start", at=unix(t))
        return session

    def leave(self, t: float, device: str, end: SessionEnd = SessionEnd.GOODBYE_SESSION_OVER) -> None:
        session = self.open_sessions.pop(device)
        running = [one for one in self.leases.values() if one.device == device and one.lease in one.attempt.live]
        effects: list[done.Effect] = [done.MissLease(one.lease, DeviceId(device)) for one in running]
        effects.append(done.EndSession(session, DeviceId(device), end, bool(running)))
        how = "crash" if end is SessionEnd.CONNECTION_ENDED else "goodbye"
        self.log(
            self.host(device),
            "sessions",
            device=device,
            interval=1,
            event="end",
            how=how,
            in_task=bool(running),
            at=unix(t),
        )
        self.hear(t, past.SessionEnded(session, end), *effects)

    def open(self, t: float, job: str, number: int, attempt: int = 1) -> Attempt:
        """Of an asynchronous job all attempts have one request."""
        self._requests += 1
        spec, request = self.specs[job], RequestId(self._requests)
        if spec.asynchronous is not None:
            request = self._requests_of.setdefault(job, request)
        opened = Attempt(job, number, attempt, request, spec.places, spec.responses_needed)
        event = past.AttemptOpened(spec.job, 1, number, attempt, None)
        deadline = None if spec.asynchronous is not None else t + spec.deadline_s
        accept = done.AcceptAttempt(
            opened.request, spec.job, number, attempt, AttemptStatus.OPEN, opened.needed, opened.places, deadline
        )
        self.hear(t, event, accept)
        return opened

    def lease(self, t: float, device: str, attempt: Attempt) -> Lease:
        number = LeaseSeq(len(self.leases) + 1)
        session, job = self.open_sessions[device], self.specs[attempt.job].job
        attempt.live.add(number)
        lease = self.leases[number] = Lease(number, device, session, attempt)
        offer = done.OfferLease(
            session, DeviceId(device), number, attempt.request, job, attempt.round, attempt.attempt, t + 15
        )
        effects: list[done.Effect] = [offer]
        if len(attempt.live) + len(attempt.counted) == attempt.places:
            effects.append(done.FillAttempt(attempt.request, job, attempt.round, attempt.attempt))
        self.hear(t, past.DeviceHeard(session), *effects)
        self.hear(t, past.LeaseAccepted(session, number), done.RunLease(number, DeviceId(device)))
        return lease

    def respond(self, t: float, lease: Lease, outcome: Outcome | None = None, *, into: Attempt | None = None) -> None:
        """The driver decides, tells the device, and tells the coordinator; the K-th closes the attempt.

        ``into``: asynchronously the attempt that it counts in.
        """
        given, attempt, spec = lease.attempt, into or lease.attempt, self.specs[lease.attempt.job]
        outcome = outcome or (Outcome.STRAGGLER if attempt.ended else Outcome.COUNTED)
        about = {"lease": lease.lease, "incarnation": INCARNATION, "device": lease.device, "at": unix(t)}
        said = {**about, "outcome": outcome.value, "digest": f"{lease.lease:064x}"}
        of = {} if given is attempt else {"of_round": given.round, "of_attempt": given.attempt}
        decided = {**said, **of, "round": attempt.round, "attempt": attempt.attempt}
        self.log(f"jobs/{attempt.job}", "manifest", kind="response", weight=1.0, bytes=10, **decided)
        told = {**said, "round": given.round, "attempt": given.attempt, "first_outcome": outcome.value}
        self.log(self.host(lease.device), "receipts", job=attempt.job, **told)
        effects: list[done.Effect] = [self._end(lease, LeaseEnd(outcome.value))]
        if outcome is Outcome.COUNTED:
            attempt.counted.append(lease.lease)
        recorded = past.ResponsesRecorded(spec.job, 1, attempt.round, attempt.attempt, ((lease.lease, outcome),))
        closes = outcome is Outcome.COUNTED and len(attempt.counted) == attempt.needed
        if closes:
            effects.append(self._ended(attempt, AttemptStatus.CLOSED, AttemptEndReason.ENOUGH))
        self.hear(t, recorded, *effects)
        self.hear(t, past.TaskFinished(lease.session, lease.lease, outcome, 1.0, 0.0, 0.4, 9))
        if closes:
            self._sum(t, attempt, AttemptStatus.CLOSED)

    def abort(self, t: float, attempt: Attempt, reason: AttemptEndReason = AttemptEndReason.DEADLINE) -> None:
        effects: list[done.Effect] = [self._ended(attempt, AttemptStatus.ABORTED, reason)]
        effects += [self._end(self.leases[number], LeaseEnd.REVOKED) for number in sorted(attempt.live)]
        self.hear(t, past.TimePassed(), *effects)
        self._sum(t, attempt, AttemptStatus.ABORTED)

    def fail(self, t: float, lease: Lease, message: str) -> None:
        event = past.TaskFailed(lease.session, lease.lease, Phase.ON_DEVICE, FailureReason.TASK_CRASHED, message)
        self.hear(t, event, self._end(lease, LeaseEnd.FAILED, Phase.ON_DEVICE, FailureReason.TASK_CRASHED, message))

    def lose(self, t: float, lease: Lease, reason: LeaseEnd = LeaseEnd.LOST) -> None:
        """Its device did not come back, or came back after its place was taken."""
        self.hear(t, past.TimePassed(), self._end(lease, reason))

    def finish(self, t: float, job: str, end: JobEnd = JobEnd.FINISHED, message: str = "") -> None:
        key = self.specs[job].job
        live = [one for one in self.leases.values() if one.attempt.job == job and one.lease in one.attempt.live]
        revoked = [self._end(one, LeaseEnd.REVOKED) for one in live]
        self.hear(t, past.JobEnded(key, end, message), *revoked, done.EndJob(key, end, message))

    def metrics(self, attempt: Attempt, **values: float) -> None:
        """Of the round that it closed, into the driver's last line."""
        self.logs[f"jobs/{attempt.job}/rounds"][-1]["metrics"] = values

    # -- who writes it down

    def hear(self, t: float, event: past.Event, *effects: done.Effect) -> None:
        told = json.loads(texts_of(effects))
        self.lines.append({"t": t, "event": json.loads(text_of(event)), "effects": told})

    def log(self, place: str, file: str, /, **row: object) -> None:
        self.logs.setdefault(f"{place}/{file}", []).append(row)

    def host(self, device: str) -> str:
        alone = any(row["device"] == device and row["process"] for row in self.population)
        return f"devices/{device if alone else 'swarm'}"

    def busy(self, t: float, fraction: float, *, lag_s: float = 0.004) -> None:
        """A sample of the machine and of the coordinator's event loop."""
        self.log(".", "host", at=unix(t), cpu_fraction=fraction, memory_used_bytes=2 * 2**30)
        self.log(".", "load", at=unix(t), lag_p99_s=lag_s)

    def write(self, folder: Path, *, digest: str | None = "0123456789abcdef") -> Path:
        start = {
            "kind": "start",
            "format": 2,
            "incarnation": INCARNATION,
            "wall_ms": WALL_MS,
            "settings": asdict(self.settings),
        }
        handled = sorted(self.lines, key=lambda line: cast(float, line["t"]))
        numbered = ({"n": number, **line} for number, line in enumerate(handled, start=1))
        lines: list[dict[str, object]] = [{**start, "name": "by-hand", "software": "0.1.0"}, *numbered]
        if digest is not None:
            lines.append({"kind": "end", "digest": digest})
        self.logs["./events"] = lines
        self.logs["devices/population"] = self.population
        for name, rows in self.logs.items():
            path = folder / f"{name}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "run.json").write_text(json.dumps({**self.about, "jobs": list(self.specs)}))
        if self.scenario:
            (folder / "scenario.yaml").write_text(self.scenario)
        return folder

    def _end(
        self,
        lease: Lease,
        reason: LeaseEnd,
        phase: Phase | None = None,
        failure: FailureReason | None = None,
        message: str = "",
    ) -> done.EndLease:
        attempt = lease.attempt
        attempt.live.discard(lease.lease)
        job = self.specs[attempt.job].job
        return done.EndLease(
            lease.lease,
            DeviceId(lease.device),
            attempt.request,
            job,
            attempt.round,
            attempt.attempt,
            reason,
            phase,
            failure,
            message,
        )

    def _ended(self, attempt: Attempt, status: AttemptStatus, reason: AttemptEndReason) -> done.EndAttempt:
        attempt.ended = True
        job = self.specs[attempt.job].job
        return done.EndAttempt(
            attempt.request, job, attempt.round, attempt.attempt, status, reason, len(attempt.counted)
        )

    def _sum(self, t: float, attempt: Attempt, status: AttemptStatus) -> None:
        place, about = (
            f"jobs/{attempt.job}",
            {"round": attempt.round, "attempt": attempt.attempt, "status": status.value},
        )
        leases = list(attempt.counted)
        self.log(place, "manifest", kind="attempt", leases=leases, incarnation=INCARNATION, **about)
        self.log(
            place,
            "rounds",
            responses=len(attempt.counted),
            needed=attempt.needed,
            metrics={},
            ended_at=unix(t),
            **about,
        )


def unix(t: float) -> float:
    return WALL_MS / 1000 + t
