"""What was found once: inputs that ended in a traceback, a hang or too much memory, by decoder and by what was wrong.

An input that a long run keeps belongs here, as short as it can be, with the commit that mends its decoder.
"""

from collections.abc import Mapping

from tests.fuzz.mutants import lines_text
from tests.fuzz.stores import ATTEMPTS, EMULATED, JOB, OUTCOME, RUN, WORLD, scripted
from tests.fuzz.worlds import SMALL, SPECS

DEEP = b"[" * 100_000
LONG = b"9" * 5000  # more digits than int() takes
HUGE = 10**400  # no float


def _device(**change: object) -> bytes:
    return lines_text([SPECS[0].to_json() | change])


def _journal(event: object) -> bytes:
    start, *_ = scripted()
    return lines_text([start, {"n": 1, "t": 0.0, "event": event, "effects": []}])


def _checkpoint(**change: object) -> bytes:
    state = {"job": JOB, "round": 2, "model_digest": "00", "driver_incarnation": 12, "former": [], "format": 2}
    return lines_text([state | change])


FOUND: Mapping[str, tuple[str, bytes]] = {
    "a varint of more than 64 bits": ("fetch-chunks", b"\x08" + b"\x80" * 9 + b"\x20\x12\x05\x12\x03abc"),
    "details of an error that are none": ("details", b"\x00"),
    "a port of thousands of digits": ("addresses", b"name:" + LONG),
    "a host of thousands of characters": ("addresses", LONG),
    "a long duration that is whole in hours": ("durations", b"1281281281281474976710656281474976710656.5h"),
    "a rate too small for decimals": ("distributions-rate", b"45e-324 Mbit/s"),
    "a fraction with hundreds of digits": ("fractions", b"15e-324"),
    "a part of a selector with hundreds of digits": ("selectors", b"15e-324% of all"),
    "a number in base 16 without digits": ("scenarios", SMALL + b"x: 0x_\n"),
    "a number in base 16 with thousands of digits": ("scenarios", SMALL + b"x: 0x" + LONG + b"\n"),
    "a flow of lists": ("scenarios", b"a: " + DEEP),
    "an override of thousands of characters": ("overrides", b"x" * 30_000),
    "an override of thousands of levels": ("overrides", b".".join([b"x"] * 3_000) + b"=1"),
    "a date that there is not": ("profiles", b"about: 2026-02-30\n"),
    "a profile of many levels": ("profiles", b"cores: " + DEEP),
    "settings of many levels": ("settings", b"a = " + DEEP),
    "a device of many levels": ("populations", b'{"device": ' + DEEP),
    "a device with a number that is no float": ("populations", _device(crash=HUGE)),
    "a device with a list as its session": ("populations", _device(session=["exp(8s)"])),
    "a device with fewer than no tasks": ("populations", _device(tasks_per_day=-1)),
    "an absence that ends before it begins": ("populations", _device(absences=[[4.0, 1.0, "crash"]])),
    "a link with a text as its rate": ("links", b'{"a": {"up_bits": "fast"}}'),
    "throttles of many levels": ("throttles", DEEP),
    "a journal of many levels": ("journals", DEEP),
    "an event whose name is a list": ("journals", _journal([[]])),
    "an event with a text for a number": ("journals", _journal(["DeviceHeard", "1"])),
    "an event with a huge exponent": (
        "records",
        b'["JobSubmitted", ["a/b/c", ["AllDevices"], "", 1, 1, "1e999999999"], 1]',
    ),
    "an event divided by zero": ("records", b'["JobSubmitted", ["a/b/c", ["AllDevices"], "", 1, 1, "1/0"], 1]'),
    "an event of many levels": (
        "records",
        b'["JobSubmitted", ["a/b/c", ' + b'["Not", ' * 400 + b"1" + b"]" * 400 + b"], 1]",
    ),
    "a joined coordinator of many levels": ("joined", DEEP),
    "a joined coordinator with a number as its address": (
        "joined",
        b'{"coordinator": 3, "id": "", "role": "device", "name": ""}',
    ),
    "a checkpoint that is a list": ("checkpoints", b"[]"),
    "a checkpoint without its round": ("checkpoints", b'{"format": 2, "job": "ann/digits/1"}'),
    "a checkpoint after very many rounds": ("checkpoints", _checkpoint(round=2**60)),
    "a checkpoint with a path as a round": ("checkpoints", _checkpoint(former=[{"round": "../x", "digest": "00"}])),
    "rounds of many levels": ("checkpoint-rounds", DEEP + b"\n"),
    "a manifest that is no JSON": ("manifests", b"x\n"),
    "a manifest with a line that is a list": ("manifests", b"[]\n"),
    "a manifest without a round": ("manifests", b'{"kind": "response"}\n'),
    "a manifest of many levels": ("manifests", DEEP + b"\n"),
    "an outcome with a list as a count": ("outcomes", lines_text([OUTCOME | {"leases": {"completed": []}}])),
    "an outcome of many levels": ("outcomes", DEEP),
    "attempts that are no text": ("attempts", b"\x80"),
    "attempts in a number that no array holds": ("attempts", ATTEMPTS + b"pen,1e300,1,0,0,0,1,1\n"),
    "limits of a fleet that is not there": (
        "emulations",
        lines_text([EMULATED | {"fleets": []}]),
    ),
    "a comparison without policies": ("comparison-compare", b'{"runs": [{"file": "cell.json"}]}'),
    "a comparison with a file that no path names": (
        "comparison-compare",
        b'{"policies": ["a"], "runs": [{"file": "\\u0000"}]}',
    ),
    "a run whose wait is a list": (
        "comparison-cell",
        lines_text([RUN | {"jobs": [{"name": "a", "waits": [{"why": []}]}]}]),
    ),
    "a world whose seed is infinite": ("comparison-world", lines_text([WORLD | {"seed": float("inf")}])),
    "an archive that is empty": ("archives", b""),
    "an archive that is none": ("archives", b"x" * 1024),
    "a large number in a pickle": ("pickles", b"\x80\x04}L0x" + b"f" * 10_000 + b"\nK\x01s."),
}
