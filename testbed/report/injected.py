"""What the timeline did to devices, beside what the coordinator observed: one row per verb."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.engine.ids import job_name
from testbed.report.history import History, SessionHistory
from testbed.report.words import seconds
from testbed.runfolder.jsonlines import Row, maybe, number, text
from testbed.runfolder.summary import Injected
from testbed.world.timeline import Verb
from venn.wire.requirements import Whom

AWAY = "not_connected"  # in no session with the coordinator at the time
UNSEEN = "nothing"  # its session went on
IN_FORCE = "in_force"  # a link that was changed: it was read back, or the run had ended
CHECKED_IN = "checked_in"
BEGIN = ("join", "reconnect")  # what begins a session, where the others end one

LONGEST_LIVENESS_S = 60.0  # a simulated device is never silent: what an action does, it does at once
_EARLY_S = 0.05  # the clock of an engine is not quite that of the wall
_LATE_S = 2.0  # more, on a busy machine


def injected(
    rows: Sequence[Row], history: History, *, started_unix_s: float, liveness_s: float
) -> tuple[Injected, ...]:
    """One row per verb of churn.jsonl, in the order of their first actions. ``started_unix_s`` is engine time 0."""
    sessions: dict[str, list[SessionHistory]] = {}
    for session in history.sessions.values():
        sessions.setdefault(session.device, []).append(session)
    observer = _Observer(history, sessions, min(liveness_s, LONGEST_LIVENESS_S))
    kinds: dict[str, list[tuple[str, float | None]]] = {}
    for row in rows:
        until, verb = maybe(row.get("until_s")), text(row, "verb")
        lasts = None if until is None else until - number(row, "at_s")
        seen = observer.see(verb, text(row, "target"), number(row, "at") - started_unix_s, lasts)
        kinds.setdefault(verb, []).append(seen)
    return tuple(_row(verb, found) for verb, found in kinds.items())


def _row(verb: str, found: Sequence[tuple[str, float | None]]) -> Injected:
    times = [after for _, after in found if after is not None]
    counts = Counter(what for what, _ in found)
    return Injected(verb, len(found), dict(counts.most_common()), max(times) if times else None)


def observed_words(one: Injected) -> str:
    """``4 connection ended, 1 not there; within 0.2 s``"""
    if not one.observed:
        return "(no journal)"
    parts = [f"{count} {what.replace('_', ' ')}" for what, count in one.observed.items()]
    within = "" if one.slowest_s is None else f"; within {seconds(one.slowest_s)} s"
    return ", ".join(parts) + within


@dataclass(frozen=True, slots=True)
class _Observer:
    """The end that followed an action, and after how many seconds; None: nothing did."""

    history: History
    sessions: Mapping[str, Sequence[SessionHistory]]  # by device
    liveness_s: float

    def see(self, verb: str, target: str, at: float, lasts: float | None) -> tuple[str, float | None]:
        if verb == Verb.LIMIT:
            return IN_FORCE, None
        word, _, job = target.partition(" ")
        if word == Whom.COORDINATOR:
            again = [when for when in self.history.restarts if verb == Verb.CRASH and when >= at]
            return ("restarted", again[0] - at) if again else (UNSEEN, None)
        if word == Whom.BROKER:
            return UNSEEN, None  # nobody of ours talks to it
        noticed_s = 2 * self.liveness_s  # at the latest: silence ends nothing while a coordinator is young
        limit = at + min(noticed_s, noticed_s if lasts is None else lasts) + _LATE_S
        if word == Whom.DRIVER:
            limit = at + _LATE_S if verb == Verb.CRASH else limit  # its connection ends at once
            lost = [when for when, whose in self.history.drivers_lost if job_name(whose) == job and at <= when <= limit]
            return ("driver_lost", lost[0] - at) if lost else (UNSEEN, None)
        return self._begun(target, at) if verb in BEGIN else self._ended(target, at, limit)

    def _begun(self, device: str, at: float) -> tuple[str, float | None]:
        starts = [one.started_at for one in self.sessions.get(device, ()) if at - _EARLY_S <= one.started_at]
        first = min(starts, default=None)
        return (UNSEEN, None) if first is None or first > at + self.liveness_s else (CHECKED_IN, max(0.0, first - at))

    def _ended(self, device: str, at: float, limit: float) -> tuple[str, float | None]:
        there = [
            one
            for one in self.sessions.get(device, ())
            if one.started_at <= at and (one.ended_at is None or one.ended_at >= at - _EARLY_S)
        ]
        if not there:
            return AWAY, None
        last = there[-1]
        if last.end is None or last.ended_at is None or last.ended_at > limit:
            return UNSEEN, None
        return last.end.value, max(0.0, last.ended_at - at)
