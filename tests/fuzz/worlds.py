"""Decoders of what users give: scenarios, profiles, populations, traces, tables and data."""

import io
import json
import pickle
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from device_agent.spec import DeviceSpec, read_population, read_trace
from device_agent.throttle import NOTHING, Throttle, read_throttle, write_throttle
from testbed.live.throttle.relay import LinkSpec, read_specs, write_specs
from testbed.scenario import ScenarioError, load
from testbed.world import data as data_sets
from testbed.world.fedscale import read_dictionary, read_pickle
from testbed.world.jobs import read_table
from testbed.world.profiles import load_profile
from testbed.world.trace_files import read_devices, read_sessions
from tests.fuzz.decoder import Decoder, in_file, scratch, text_of
from tests.fuzz.mutants import json_lines, lines_text
from tests.golden.record import SIMULATED
from venn.wire.command import _read_settings
from venn.wire.errors import UsageError
from venn.wire.notation import NotationError, parse_distribution

SMALL = b"""\
version: 1
name: small
seed: 7
backend: sim
requirements: {any: all, roomy: memory >= 4 GB}
every_job: &shared {min_response: 80%, deadline: 15s, workload: {compute: 4s, download: 5 MB}}
jobs:
  pen: {requirement: roomy, demand: 3, rounds: 8, buffer: 2, max_staleness: 2, params: {epochs: 40}, arrives: 5s}
  count: {<<: *shared, demand: 1, over_commit: 20%, max_rounds: 8, stragglers: revoke, repeat: allow}
every_device: {session: exp(8s), gap: 1s..4s, crash: 30%, tasks_per_session: 1, labels: {site: [lab, attic]}}
fleets:
  budget: {count: 10, cpu: 1..4, memory: 2 GB}
  flagship: {count: 4, cpu: lognormal(8; 1.0), memory: 8 GB, profile: pi-4, link: wifi}
churn:
  - {at: 15s, join: 2 of budget}
  - {at: 40s, disconnect: 25% of site=lab, for: 6s}
expect: [unfinished_jobs == 0]
"""
POPULATED = b"""\
version: 1
name: drawn
backend: sim
requirements: {a: all, b: cpu >= 7}
drawn_jobs: {count: 3, table: paper, requirement: {a: 50%, b: 50%}, arrives: exp(30m), which: small}
population: {devices: phones, count: 1000, session: lognormal(15m; 1.0), gap: exp(2h), swing: 3, replay: 5d}
"""
PROFILE = (
    b"about: a fast Pi\nextends: pi-4\nlink: wifi\ncores: {value: 0.4, source: measured}\nup: 4 Mbit/s\nloss: 1%\n"
)
SESSIONS = b"device,start_s,end_s\na,0,10\nb,5.5,20\na,30,41.5\n"
DEVICES = b"device,cpu,memory,site\na,2.5,4e9,lab\nb,,8e9,\nc,1,2e9,attic\n"
CLIENTS: Sequence[Any] = (
    {1: {"computation": 162.0, "communication": np.float64(5648.1)}, "b": {"computation": 3, "communication": 1}},
    {1: {"active": [0, 50], "inactive": [40, 90.5], "finish_time": 90, "duration": 80, "model": "CPH1801"}},
    [{"cpu_f": 7, "ram": 8.0, "android_os": 11, "model": "x"}, {}],
)
YAML_WORDS = (
    b"<<: *shared",
    b"&a ",
    b"*a",
    b": ",
    b"\n  - ",
    b"? ",
    b"| ",
    b"> ",
    b"!!int ",
    b"---\n",
    b"\t",
    b"#",
    b"{",
    b"[*a,*a]",
)
CSV_WORDS = (b",", b"\n", b"\r", b'"', b'"a\nb"', b"device", b"1e300", b",,,,", b"\xef\xbb\xbf")
PICKLE_WORDS = (
    *(
        b"\x85",
        b"\x86",
        b"\x87",
        b"(",
        b")",
        b"]",
        b"}",
        b"0",
        b"2",
        b"1",
        b"a",
        b"e",
        b"s",
        b"u",
        b"t",
        b"l",
        b"d",
        b"R",
        b"b",
    ),
    *(b"\x94", b"q\x00", b"h\x00", b"h\x01", b"K\x01", b"N", b"\x88", b"X\x01\x00\x00\x00a", b"\x8c\x01a", b"."),
    *(
        b"cnumpy\ndtype\n",
        b"c_codecs\nencode\n",
        b"\x93",
        b"I1\n",
        b"L99L\n",
        b"F1e400\n",
        b"\x95",
        b"\x8a\xff",
        b"S'a'\n",
    ),
)


def _scenario(name: str) -> Decoder:
    read = in_file("scenario.yaml", load)
    return Decoder(
        name,
        lambda: [SMALL, POPULATED, SIMULATED.encode()],
        read,
        (ScenarioError,),
        again=lambda scenario: scenario.dump().encode(),
        words=YAML_WORDS,
    )


def _overridden(data: bytes) -> object:
    path = scratch("set") / "scenario.yaml"
    path.write_bytes(SMALL)
    return load(path, [text_of(data)])


def _profile(path: Path) -> object:
    return load_profile(path.name, folder=path.parent)


def _sessions(path: Path) -> object:
    """All sessions of a file, gone through twice."""
    file = read_sessions(path, None)
    assert sum(len(block) for block in file.blocks()) == file.rows
    return file.devices


def _devices(path: Path) -> object:
    file = read_devices(path)
    return [file.columns.row(row) for row in range(file.columns.rows)]


def _pickled(path: Path) -> object:
    read_pickle(path)
    return read_dictionary(path)


def _parquet() -> list[bytes]:
    import pyarrow
    from pyarrow.parquet import write_table

    written = io.BytesIO()
    table = {"device": ["a", "b"], "cpu": [1.0, None], "site": ["lab", None]}
    write_table(pyarrow.table(table), written, compression="none")
    return [written.getvalue()]


def _saved() -> list[bytes]:
    found = []
    for save in (np.savez, np.savez_compressed):
        written = io.BytesIO()
        save(written, x=np.arange(6.0).reshape(3, 2), y=np.array([0, 1, 2]))
        found.append(written.getvalue())
    return found


SPECS = [
    DeviceSpec(device="a", numbers={"cpu": 2.0}, labels={"site": ("lab",)}, session="exp(8s)", gap="1s..4s", crash=0.3),
    DeviceSpec(device="b", trace=((0.0, 5.0), (7.0, 9.0)), data={"digits": Path("/share.npz")}, tasks_per_day=3),
    DeviceSpec.from_json(DeviceSpec(device="c").to_json() | {"absences": [[1.0, 4.0, "crash"], [9.0, None, "leave"]]}),
]


def _population(path: Path) -> list[DeviceSpec]:
    """The devices of a file, each with what it reports and its first sessions."""
    devices = read_population(path)
    for device in devices:
        device.capabilities().SerializeToString()
        list(islice(device.intervals(), 3))
    return devices


def _rows(devices: Sequence[DeviceSpec]) -> bytes:
    return lines_text([device.to_json() for device in devices])


THROTTLE = Throttle(
    start_in=(Path("/a"),), work_in=(Path("/b"),), duty_cores=0.5, memory_bytes=10**9, proxies={"a": "b:1"}
)
LINKS = {"a": LinkSpec(up_bits=1e6, delay_s=0.1, seed="7/a"), "b": LinkSpec(interface="lo", anywhere=True)}


def _throttles() -> list[bytes]:
    path = scratch("throttle") / "throttle.json"
    found = []
    for throttle in (THROTTLE, NOTHING):
        write_throttle(path, throttle)
        found.append(path.read_bytes())
    return found


def _links() -> list[bytes]:
    path = scratch("links") / "links.json"
    write_specs(path, LINKS)
    return [path.read_bytes()]


def _linked(path: Path) -> None:
    for spec in read_specs(path).values():
        spec.link()


WORLDS = (
    _scenario("scenarios"),
    Decoder(
        "overrides",
        lambda: [b"jobs.pen.demand=3", b"--policy=fifo", b"churn.0.at=3s", b"fleets.budget={count: 3}", b"seed=8"],
        _overridden,
        (ScenarioError,),
        words=(*YAML_WORDS, b"=", b"."),
    ),
    Decoder("profiles", lambda: [PROFILE], in_file("mine.yaml", _profile), (UsageError,), words=YAML_WORDS),
    Decoder(
        "settings",
        lambda: [b'coordinator = "a:1"\n[run]\nseed = 3\n'],
        in_file("venn.toml", _read_settings),
        (UsageError,),
    ),
    Decoder("traces", lambda: [SESSIONS], in_file("trace.csv", read_trace), (UsageError,), words=CSV_WORDS),
    Decoder("session-files", lambda: [SESSIONS], in_file("sessions.csv", _sessions), (UsageError,), words=CSV_WORDS),
    Decoder("device-files", lambda: [DEVICES], in_file("devices.csv", _devices), (UsageError,), words=CSV_WORDS),
    Decoder("parquet", _parquet, in_file("devices.parquet", _devices), (UsageError,), states_sizes=True),
    Decoder(
        "pickles",
        lambda: [pickle.dumps(clients, protocol) for clients in CLIENTS for protocol in (0, 2, 4)],
        in_file("clients.pickle", _pickled),
        (UsageError,),
        words=PICKLE_WORDS,
        states_sizes=True,
    ),
    Decoder(
        "job-tables",
        lambda: [b"participants,rounds,deadline_s\n10,5,60\n3,1,1.5\n"],
        in_file("jobs.csv", lambda path: read_table(str(path))),
        (UsageError,),
        words=CSV_WORDS,
    ),
    Decoder(
        "columns",
        lambda: [b"cpu,memory\n1,2\n3.5,4\n"],
        in_file("column.csv", lambda path: parse_distribution("column.csv:cpu", "number", folder=path.parent)),
        (NotationError,),
        words=CSV_WORDS,
    ),
    Decoder(
        "data-sets",
        _saved,
        in_file("data.npz", lambda path: data_sets.load(str(path))),
        (UsageError,),
        states_sizes=True,
    ),
    Decoder(
        "populations",
        lambda: [_rows(SPECS)],
        in_file("population.jsonl", _population),
        (UsageError,),
        again=_rows,
        forms=lambda: json_lines([device.to_json() for device in SPECS]),
    ),
    Decoder(
        "throttles",
        _throttles,
        in_file("throttle.json", read_throttle),
        (UsageError,),
        forms=lambda: json_lines([json.loads(_throttles()[0])]),
    ),
    Decoder(
        "links",
        _links,
        in_file("links.json", _linked),
        (UsageError,),
        forms=lambda: json_lines([json.loads(_links()[0])]),
    ),
)
