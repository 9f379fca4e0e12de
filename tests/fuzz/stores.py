"""Decoders of what programs keep on disk and read again: journals, checkpoints, spools, run folders and archives."""

import json
import tarfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from coordinator.engine.events import JournalRotated
from coordinator.engine.image import engine_of, image_of
from coordinator.engine.model import EngineSettings
from coordinator.engine.record import RecordError, event_from_json
from coordinator.engine.record import text_of as record_text
from coordinator.policies.registry import load_policy
from coordinator.service.restore import restore
from coordinator.service.sealed import seal
from coordinator.service.segments import Snapshot, read_snapshot, snapshot_path
from device_agent.worker import _unpack
from job_driver.bundle import pack
from job_driver.checkpoint import HISTORY, STATE, Checkpoint, Checkpoints, Former, run_in
from job_driver.counting import AttemptNo, Decision, Outcome, Status
from job_driver.job import Round
from job_driver.spool import MANIFEST, Response, ResponseHeader, Spool
from testbed.compare.folder import MANIFEST as COMPARISON
from testbed.compare.folder import read_comparisons
from testbed.live.containers.compose import packed, unpack
from testbed.report.host import EMULATION_FILE, read_emulation
from testbed.report.record import load_run
from testbed.runfolder.attempts import load_simulated
from testbed.runfolder.journal import read_journal, read_lives
from tests.fuzz.decoder import Decoder, in_file, scratch
from tests.fuzz.mutants import json_lines, lines_text
from venn.wire.errors import UsageError, VennError
from venn.wire.jsontext import parse_json

GOLDEN = Path(__file__).parents[1] / "golden"
JOB = "ann/digits/1"
FACTS_NOTED: list[Any] = [
    {"t": 1.0, "fact": ["DriverAt", JOB, "127.0.0.1:1", 7]},
    {"t": 1.0, "fact": ["RoundReported", JOB, 3, {"loss": 0.5}]},
    {"t": 1.0, "fact": ["JobForgotten", JOB]},
]
MOST_LINES = 12  # of a golden log; some of each kind are enough


@cache
def golden(name: str, file: str, *, whole: bool = False) -> list[Any]:
    """The lines of a log in a golden run folder; some of different kinds, unless ``whole``."""
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
        member = archive.extractfile(file)
        assert member is not None
        rows = [json.loads(line) for line in member]
    if whole:
        return rows
    kinds = {str(row.get("event", row.get("fact", [row.get("kind")]))[0]): row for row in reversed(rows)}
    return [row for row in rows if row in kinds.values()][:MOST_LINES]


def scripted() -> list[Any]:
    """A journal without checksums, its events numbered."""
    start, *rows = golden("format-2-scripted", "events.jsonl")
    events = [row for row in rows if "event" in row]
    return [start, *(row | {"n": number} for number, row in enumerate(events, 1))]


def _sealed(lines: bytes) -> bytes:
    """The lines with checksums, as if a coordinator had written them."""
    bodies = [line for line in lines.decode(errors="surrogatepass").split("\n") if line]
    return seal(["{" + body[1:] if body.endswith("}") else '{"a":1}' for body in bodies], 0)[0]


def _begun() -> list[Any]:
    """The beginning of a journal, every line of it, with facts."""
    rows = golden("format-3-simulated", "events.jsonl", whole=True)[: 2 * MOST_LINES]
    return [{key: row[key] for key in row if key != "crc"} for row in rows] + FACTS_NOTED


def _restored(path: Path) -> object:
    """What a coordinator that starts again makes of its journal."""
    found = restore(path.parent, lambda name: load_policy("venn-plus"))
    return None if found is None else (found.last_s, len(found.facts))


def _snapshot() -> Snapshot:
    folder = scratch("begun")
    (folder / "events.jsonl").write_bytes(_sealed(lines_text(_begun())))
    found = restore(folder, lambda name: load_policy("venn-plus"))
    assert found is not None
    found.engine.handle(JournalRotated(), found.last_s)
    written = found.written
    facts, image = tuple(found.facts), image_of(found.engine)
    return Snapshot(1, written.number, found.last_s, "venn-plus", written.digest, facts, image)


def _snapshots() -> list[bytes]:
    folder = scratch("snapshot")
    _snapshot().write(folder, fsync=False)
    return [snapshot_path(folder, 1).read_bytes()]


def _snapped(path: Path) -> None:
    read = read_snapshot(path)
    engine_of(read.image, EngineSettings(seed=0, policy=read.policy), load_policy("venn-plus"))


def _with_facts() -> list[Any]:
    rows = [{key: row[key] for key in row if key != "crc"} for row in golden("format-3-simulated", "events.jsonl")]
    start, *others = rows
    events = [row for row in others if "event" in row]
    return [start | {"format": 3}, *FACTS_NOTED, *(row | {"n": number} for number, row in enumerate(events, 1))]


def _in_folder(
    name: str, files: Callable[[Path], None], place: str, read: Callable[[Path], Any]
) -> Callable[[bytes], Any]:
    """A decoder of a file in a folder that has others, too."""

    def decode(data: bytes) -> Any:
        folder = scratch(name)
        files(folder)
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(data)
        return read(folder)

    return decode


def _lives(path: Path) -> object:
    """What every reader of a journal makes of it."""
    return read_journal(path), read_lives(path.parent)


def _record(data: bytes) -> Any:
    try:
        value = parse_json(data)
    except ValueError:
        return None
    return event_from_json(value)


def _lines(rows: Callable[[], Sequence[Any]]) -> Callable[[], st.SearchStrategy[bytes]]:
    return lambda: json_lines(rows())


ROUNDS = tuple(Round(number, 2, 0, 0.5, {"accuracy": 0.5}) for number in (1, 2))


def _checkpointed(folder: Path) -> None:
    checkpoints = Checkpoints(folder)
    for done in range(3):
        artifact = checkpoints.write_model({"w": np.full(5, float(done))})
        former = (Former(1, artifact.digest.hex()),) if done else ()
        checkpoints.commit(Checkpoint(JOB, done, artifact.digest.hex(), ROUNDS[:done], 12, former))


def _checkpoint(file: str) -> list[bytes]:
    folder = scratch("checkpoint")
    _checkpointed(folder)
    return [(folder / file).read_bytes()]


def _resumed(folder: Path) -> Checkpoint:
    """The checkpoint as a driver that goes on takes it."""
    run_in(folder)
    checkpoints = Checkpoints(folder)
    checkpoint, _ = checkpoints.load(JOB)
    for former in checkpoint.former:
        checkpoints.load_former(former)
    checkpoints.commit(checkpoint) if not checkpoint.rounds else None
    return checkpoint


def _manifest() -> list[Any]:
    no, digest = AttemptNo(3, 1), bytes(32)
    header = ResponseHeader(no, 7, "phone-1", 100, digest, 2.0, {"loss": 0.5})
    counted = Response(Decision(no, 7, Outcome.COUNTED, digest, ""), header, 1, 1.5).line()
    late = Response(Decision(AttemptNo(4, 1), 8, Outcome.REJECTED, digest, "SIZE"), header, 1, 2.5).line()
    ended = {"kind": "attempt", "round": 3, "attempt": 1, "status": Status.CLOSED.value, "leases": [7]}
    return [counted, late, ended | {"incarnation": 1, "at": 3.0}]


def _spooled(folder: Path) -> object:
    """The attempts as a driver that goes on takes them."""
    spool = Spool(folder)
    try:
        spool.begun()
        logs = spool.attempts(after_round=0)
        for log in logs:
            json.dumps([response.line() for response in log.responses])
        return [(log.no, log.status, log.incarnation) for log in logs]
    finally:
        spool.close()


FIGURES = {"devices": 10, "path": "bulk", "why": "", "check_ins": 5, "plans": 3, "virtual_s": 60.0, "wall_s": 0.5}
MADE = {"name": "x", "policy": "fifo", "seed": 1, "backend": "sim", "simulated": FIGURES}
FACTS = {
    "name": "pen",
    "requirement": "all",
    "arrived_s": 0.0,
    "ended_s": 30.0,
    "wasted_device_s": 1.5,
    "repeats": False,
}
OUTCOME = {
    "digest": "00",
    "leases": {"completed": 3},
    "live": 0,
    "unheard": 0,
    "injected": {"crash": 1},
    "jobs": [FACTS],
}
ATTEMPTS = (
    b"job,round,attempt,opened_s,filled_s,ended_s,closed,responses\npen,1,1,0.5,2,9.5,1,3\npen,2,1,10,11,30,1,3\n"
)


def _simulated(folder: Path) -> None:
    (folder / "run.json").write_text(json.dumps(MADE))
    (folder / "outcome.json").write_text(json.dumps(OUTCOME))
    (folder / "rounds.csv").write_bytes(ATTEMPTS)


def _outcome(name: str, file: str, valid: bytes, forms: Callable[[], st.SearchStrategy[bytes]] | None) -> Decoder:
    read = _in_folder(name, _simulated, file, load_simulated)
    return Decoder(name, lambda: [valid], read, (UsageError,), forms=forms)


def _recorded(folder: Path) -> None:
    lines = {"events.jsonl": scripted(), "run.json": [MADE | {"simulated": None}]}
    for name, rows in lines.items():
        (folder / name).write_bytes(lines_text(rows))


LOGS = {
    "jobs/a/rounds.jsonl": [{"number": 1, "responses": 2, "seconds": 0.5, "metrics": {"loss": 0.5}}],
    "jobs/a/manifest.jsonl": _manifest(),
    "devices/s/receipts.jsonl": [{"lease": 7, "outcome": "COUNTED", "at": 1.5, "device": "a"}],
    "host.jsonl": [{"at": 1.0, "cpu": 0.5, "memory": 10**9}],
    "churn.jsonl": [{"at": 1.0, "verb": "crash", "target": "a"}],
}
EMULATED = {
    "limits": [{"fleet": "pis", "key": "cores", "asked": "0.4", "read_back": 0.4, "means": "cgroup"}],
    "degraded": ["no tc"],
    "fleets": [{"fleet": "pis", "count": 3}],
}
RUN = {
    "jobs": [
        {"name": "a", "finished": True, "jct_s": 1.5, "alone_s": 1.0, "waits": [{"why": "NO_DEVICE", "seconds": 1.0}]}
    ],
    "host": {"saturated": True, "reasons": ["busy"]},
    "wanted": {"all": [1.0, None]},
    "expectations": [{"expect": "a == 1", "held": False}],
    "seed": 1,
    "policy": "fifo",
}
WORLD = {"seed": 1, "sampled": 3, "alone_s": {"a": 1.0}, "groups": [{"name": "all", "per_hour": [1.0]}], "tiers": []}
COMPARED = {
    "policies": ["fifo"],
    "over": ["fifo"],
    "runs": [
        {"scenario": "x", "policy": "fifo", "seed": 1, "file": "cell.json", "world": "world.json", "digest": "00"}
    ],
}


def _compared(folder: Path) -> None:
    for name, value in ((COMPARISON, COMPARED), ("cell.json", RUN), ("world.json", WORLD)):
        (folder / name).write_text(json.dumps(value))


def _comparison(file: str, value: Any) -> Decoder:
    name = f"comparison-{file.partition('.')[0]}"
    read = _in_folder(name, _compared, file, read_comparisons)
    return Decoder(name, lambda: [lines_text([value])], read, (UsageError,), forms=lambda: json_lines([value]))


def _log(file: str, rows: Sequence[Any]) -> Decoder:
    name = f"log-{Path(file).stem}"
    read = _in_folder(name, _recorded, file, load_run)
    return Decoder(name, lambda: [lines_text(rows)], read, (UsageError,), forms=lambda: json_lines(rows))


def _bundles() -> list[bytes]:
    path = scratch("bundle") / "job.py"
    path.write_text("job = 1\n")
    return [pack(path)]


def _source(data: bytes) -> str:
    name, source = _unpack(data)
    assert len(source) <= 2 * len(data) + 1_000, "more code than a bundle of so many bytes holds"
    return name


def _unpacked(data: bytes) -> None:
    folder = scratch("unpacked") / "in"
    folder.mkdir()
    try:
        unpack([data[start : start + 1000] for start in range(0, len(data), 1000)], folder)
    finally:
        assert [each.name for each in folder.parent.iterdir()] == ["in"], "a file beside the folder"


STORES = (
    Decoder(
        "journals",
        lambda: [lines_text(scripted())],
        in_file("events.jsonl", _lives),
        (UsageError,),
        forms=_lines(scripted),
    ),
    Decoder(
        "sealed-journals",
        lambda: [_sealed(lines_text(_with_facts()))],
        in_file("events.jsonl", _lives),
        (UsageError,),
        forms=lambda: json_lines(_with_facts()).map(_sealed),
    ),
    Decoder(
        "restarts",
        lambda: [_sealed(lines_text(_begun()))],
        in_file("events.jsonl", _restored),
        (UsageError,),
        forms=lambda: json_lines(_begun()).map(_sealed),
    ),
    Decoder(
        "snapshots",
        _snapshots,
        in_file("snapshot-1.json", _snapped),
        (RecordError,),
        forms=lambda: json_lines([json.loads(line) for line in _snapshots()[0].splitlines()]).map(_sealed),
    ),
    Decoder(
        "records",
        lambda: [json.dumps(row["event"]).encode() for row in scripted()[1:]],
        _record,
        (RecordError,),
        again=lambda event: b"" if event is None else record_text(event).encode(),
        forms=lambda: json_lines([row["event"] for row in scripted()[1:]]).map(lambda lines: lines.splitlines()[0]),
    ),
    Decoder(
        "checkpoints",
        lambda: _checkpoint(STATE),
        _in_folder("checkpoint", _checkpointed, STATE, _resumed),
        (UsageError,),
        forms=lambda: json_lines([json.loads(_checkpoint(STATE)[0])]),
    ),
    Decoder(
        "checkpoint-rounds",
        lambda: _checkpoint(HISTORY),
        _in_folder("checkpoint", _checkpointed, HISTORY, _resumed),
        (UsageError,),
        forms=lambda: json_lines([json.loads(line) for line in _checkpoint(HISTORY)[0].splitlines()]),
    ),
    Decoder(
        "manifests",
        lambda: [lines_text(_manifest())],
        _in_folder("spool", lambda folder: None, MANIFEST, _spooled),
        (UsageError,),
        forms=_lines(_manifest),
    ),
    _outcome("outcomes", "outcome.json", lines_text([OUTCOME]), lambda: json_lines([OUTCOME])),
    _outcome("run-files", "run.json", lines_text([MADE]), lambda: json_lines([MADE])),
    _outcome("attempts", "rounds.csv", ATTEMPTS, None),
    Decoder(
        "emulations",
        lambda: [lines_text([EMULATED])],
        in_file(EMULATION_FILE, lambda path: read_emulation(path.parent, devices=3, processes=1)),
        (UsageError,),
        forms=lambda: json_lines([EMULATED]),
    ),
    *(_log(file, rows) for file, rows in LOGS.items()),
    _comparison(COMPARISON, COMPARED),
    _comparison("cell.json", RUN),
    _comparison("world.json", WORLD),
    Decoder("bundles", _bundles, _source, (), states_sizes=True),
    Decoder(
        "archives",
        lambda: [packed({"/venn/run/load.jsonl": b"{}\n", "/venn/run/jobs/a/rounds.jsonl": b"a" * 700})],
        _unpacked,
        (VennError,),
        words=(b"../", b"/etc/x", b"0000777\x00", b"7777777777\x00", b"x", b"g", b"L", b"S", b"20000000000\x00"),
        states_sizes=True,
    ),
)
