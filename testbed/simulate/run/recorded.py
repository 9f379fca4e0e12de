"""What a simulation leaves in its folder: a journal while it is small, its attempts and sums if it is not."""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

from coordinator.engine.effects import Effect
from coordinator.engine.events import Event
from coordinator.engine.ids import job_name
from coordinator.engine.model import EngineSettings, Repeat
from coordinator.engine.model import Outcome as Decided
from coordinator.service.journal import Journal, Start
from testbed.runfolder.attempts import HEADER, JobFacts
from testbed.runfolder.paths import RunFolder
from testbed.runfolder.summary import Simulated
from testbed.simulate.model import Outcome, Simulation
from testbed.world.timeline import Action
from venn.wire.admission import SOFTWARE
from venn.wire.files import write_atomic

_LINES_AT_A_TIME = 2000


class KeptJournal:
    """events.jsonl as a coordinator writes it; engine time 0 is Unix time 0."""

    def __init__(self, folder: RunFolder, settings: EngineSettings, name: str) -> None:
        self._lines = 0
        self._path = folder.events
        self._journal = Journal(self._path, Start(settings, incarnation=1, wall_ms=0, name=name, software=SOFTWARE))

    def hear(self, now: float, event: Event, effects: list[Effect]) -> None:
        self._journal.append(now, event, effects)
        self._lines += 1
        if self._lines % _LINES_AT_A_TIME == 0:
            self._journal.flush()

    def close(self, *, killed: bool) -> None:
        """Close the journal. ``killed``: the coordinator did not live to the end."""
        if killed:
            self._journal.break_off()
        else:
            self._journal.close()

    def discard(self) -> None:
        """Discard the journal: there is none after all."""
        self._journal.break_off()
        self._path.unlink()


def facts(simulation: Simulation, outcome: Outcome) -> dict[str, object]:
    """How it went, for run.json."""
    simulated = Simulated(
        devices=simulation.devices,
        path=outcome.path,
        why=outcome.why,
        check_ins=outcome.check_ins,
        plans=outcome.plans,
        virtual_s=outcome.now_s,
        wall_s=outcome.wall_s,
    )
    return asdict(simulated)


def keep_unheard(folder: RunFolder, outcome: Outcome) -> None:
    """unheard.jsonl, if there are any: what stands in no journal. Raises PeerError OUT_OF_SPACE."""
    if outcome.unheard:
        write_atomic(folder.unheard, "".join(json.dumps(asdict(one)) + "\n" for one in outcome.unheard))


def keep_timeline(folder: RunFolder, simulation: Simulation, outcome: Outcome) -> None:
    """churn.jsonl, as a live run writes it; engine time 0 is Unix time 0. Raises PeerError OUT_OF_SPACE."""
    rows = ({**each.to_json(), "at": round(each.at_s, 6)} for each in _done(simulation, outcome))
    write_atomic(folder.churn, "".join(json.dumps(row) + "\n" for row in rows))


def _done(simulation: Simulation, outcome: Outcome) -> Iterator[Action]:
    """What the timeline has done until the run was over."""
    return (each for each in simulation.actions if each.at_s <= outcome.now_s)


def keep_outcome(folder: RunFolder, simulation: Simulation, outcome: Outcome) -> None:
    """rounds.csv and outcome.json. Raises PeerError OUT_OF_SPACE."""
    names = [job_name(job.spec.job) for job in simulation.jobs]
    write_atomic(folder.attempts, _rounds(names, outcome))
    arrived = [index for index, job in enumerate(simulation.jobs) if job.arrives_s <= outcome.now_s]
    jobs = [
        JobFacts(
            name=names[index],
            requirement=simulation.jobs[index].spec.requirement_label,
            arrived_s=simulation.jobs[index].arrives_s,
            ended_s=None if math.isnan(outcome.ended_s[index]) else float(outcome.ended_s[index]),
            wasted_device_s=float(outcome.wasted_device_s[index]),
            repeats=simulation.jobs[index].spec.repeat is Repeat.ALLOW,
        )
        for index in arrived
    ]
    about = {
        "digest": outcome.digest,
        "leases": {reason.value: count for reason, count in outcome.leases.items()},
        "live": outcome.live,
        "unheard": sum(one.outcome is Decided.COUNTED for one in outcome.unheard),
        "injected": Counter(action.verb.value for action in _done(simulation, outcome)),
        "jobs": [asdict(job) for job in jobs],
    }
    write_atomic(folder.outcome, json.dumps(about, indent=2) + "\n")


def _rounds(names: list[str], outcome: Outcome) -> str:
    attempts = outcome.attempts
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(HEADER)
    rows.writerows(
        zip(
            (names[job] for job in attempts.job.tolist()),
            attempts.round.tolist(),
            attempts.attempt.tolist(),
            attempts.opened_s.tolist(),
            attempts.filled_s.tolist(),
            attempts.ended_s.tolist(),
            map(int, attempts.closed.tolist()),
            attempts.counted.tolist(),
            strict=True,
        )
    )
    return text.getvalue()
