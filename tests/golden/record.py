"""Records the golden run folders of a new format: ``python -m tests.golden.record``. Never record an old one again.

Each is packed as ``format-N-NAME.tar.gz``. ``simulated`` is a simulation with most kinds of events. ``scripted`` is a
journal of those that a simulation does not have. ``live`` is a run of real processes; record it by hand, from
``scenario.yaml`` in its folder, without logs and traces.
"""

import io
import json
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator.engine.events import (
    DevicesDrained,
    JobSubmitted,
    JournalRotated,
    LeaseDeclined,
    PolicyChanged,
    TaskProgressed,
)
from coordinator.engine.model import FailureReason
from coordinator.engine.record import effect_from_json, event_from_json
from coordinator.policies.registry import load_policy
from coordinator.service.journal import FORMAT, Journal, Start
from testbed.runfolder.paths import RunFolder
from testbed.scenario import parse
from testbed.simulate.run.scenario import run_simulated
from testbed.testing.engine import ScriptedEngine, spec

HERE = Path(__file__).parent
LEFT_OUT = ("command", "machine", "commit")  # of run.json: what the machine is that recorded it
SIMULATED = """\
version: 1
name: golden-simulated
seed: 7
policy: venn-plus
backend: sim
duration: 3m
requirements: {roomy: memory >= 4 GB}
jobs:
  wide:   {demand: 6, rounds: 12, min_response: 80%, over_commit: 20%, deadline: 12s, workload: {compute: 3s}}
  narrow: {requirement: roomy, demand: 2, rounds: 12, deadline: 12s, stragglers: revoke, min_response: 50%,
           workload: {compute: 2s}}
  stream: {demand: 4, rounds: 12, buffer: 3, max_staleness: 2, arrives: 5s, deadline: 30s, workload: {compute: 3s}}
  twice:  {demand: 4, rounds: 8, repeat: allow, arrives: 8s, deadline: 4s, workload: {compute: 2s}}
every_device: {session: exp(20s), gap: exp(4s), crash: 30%}
fleets:
  phones: {count: 10, cpu: 2, memory: 2 GB}
  tablets: {count: 6, cpu: 1..4, memory: 8 GB}
churn:
  - {at: 6s, crash: coordinator, for: 2s}
  - {at: 12s, partition: 50% of tablets, for: 3s}
  - {at: 14s, crash: driver wide}
  - {at: 18s, crash: 40% of all}
"""


def record_simulated(folder: Path) -> None:
    """A coordinator that is killed, four jobs: one asynchronous, one that lets devices count twice."""
    run_simulated(parse(SIMULATED), out=folder, validate=True, quiet=True)


def record_scripted(folder: Path) -> None:
    """What only live devices, drivers and users do: decline, fail, progress, drain, change the policy."""
    play = ScriptedEngine(load_policy("fifo"), most_sessions=3)
    first = play.request("first", demand=3)
    play.offer("declines")
    play.handle(LeaseDeclined(play.session("declines"), play.lease("declines"), FailureReason.BUSY, 2.5, "later"))
    play.run("fails", per_session=1)
    play.fail("fails")
    play.beat(3)
    works = play.run("works")
    play.handle(TaskProgressed(play.session("works"), works, 0.5))
    play.record(first, works)
    play.finish("works", works)
    play.handle(JobSubmitted(spec("first", demand=5), 1))  # the same key, another job
    play.engine.set_policy(load_policy("venn"))
    play.handle(PolicyChanged("venn"))
    play.handle(JournalRotated())
    play.handle(DevicesDrained(None))
    play.wait(120.0)
    folder.mkdir()
    settings = play.engine.settings
    start = Start(settings, incarnation=1, wall_ms=0, name="golden-scripted", software="0.1.0")
    journal = Journal(RunFolder(folder).events, start)
    for now, event, effects in play.journal:
        journal.append(now, event_from_json(json.loads(event)), [effect_from_json(one) for one in json.loads(effects)])
    journal.close()
    RunFolder(folder).manifest.write_text(json.dumps({"name": "golden-scripted", "policy": "fifo", "jobs": []}))


def pack(folder: Path, name: str) -> None:
    """Pack the JSON files and the scenario of a run folder; the same files give the same bytes but for the time."""
    with tarfile.open(HERE / f"format-{FORMAT}-{name}.tar.gz", "w:gz") as packed:
        for path in sorted(folder.rglob("*")):
            if path.suffix not in (".json", ".jsonl", ".yaml") or "traces" in path.parts:
                continue
            data = path.read_bytes()
            if path.name == "run.json":
                about = json.loads(data)
                data = json.dumps({key: value for key, value in about.items() if key not in LEFT_OUT}).encode()
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        for name, record in (("simulated", record_simulated), ("scripted", record_scripted)):
            record(Path(place) / name)
            pack(Path(place) / name, name)
