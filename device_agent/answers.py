"""What a worker says during a task, checked. The job's code shares the worker's process and may write anything there:
what is not exactly right is a BrokenFrame, and costs the worker its process and its task the lease.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from device_agent.pipes import BrokenFrame, Header
from venn.v1 import common_pb2
from venn.wire.text import printable

DIGEST = re.compile(r"[0-9a-f]{64}")
MOST_METRICS, MOST_NAME = 256, 256  # how many, and the characters of a name
MOST_MESSAGE = 500  # characters that are kept
MOST_SECONDS = 1e9
PHASES = {"import": common_pb2.PHASE_IMPORT, "on_device": common_pb2.PHASE_ON_DEVICE}


@dataclass(frozen=True, slots=True)
class Began:
    """The job's function is called now."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the task is."""

    fraction: float  # 0 to 1


@dataclass(frozen=True, slots=True)
class Output:
    """The result of a task."""

    body: bytes  # encoded arrays, which nobody has looked at
    digest: bytes  # of the body, as the worker says
    weight: float
    metrics: dict[str, float]
    compute_s: float  # wall time of the job's function
    compute_cpu_s: float  # processor time
    held_back: int = 0  # times that the processor limit was used up meanwhile, as the agent counts


@dataclass(frozen=True, slots=True)
class Failed:
    """The task raised an exception."""

    phase: common_pb2.Phase.ValueType
    message: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The task has heard that its lease is gone."""


Answer = Began | Progress | Output | Failed | Stopped


def read_answer(said: Header, body: bytes, task: int) -> Answer:
    """Read a message about the task of this number. Raises BrokenFrame."""
    if said.get("id") != task or type(said["id"]) is not int:
        raise BrokenFrame(f"a message about task {printable(str(said.get('id')), 20)} in task {task}")
    say = said.get("say")
    if body and say != "done":
        raise BrokenFrame(f"{len(body)} bytes with a message that has none")
    match say:
        case "began":
            return Began()
        case "progress":
            return Progress(_number(said, "fraction", 0.0, 1.0))
        case "done":
            return _done(said, body)
        case "failed":
            phase, message = _text(said, "phase", 20), said.get("message")
            if phase not in PHASES or not isinstance(message, str):
                raise BrokenFrame("a failure without phase or message")
            return Failed(PHASES[phase], printable(message, MOST_MESSAGE))
        case "revoked":
            return Stopped()
        case _:
            raise BrokenFrame(f"a message {printable(str(say), 40)!r} that there is not")


def _done(said: Header, body: bytes) -> Output:
    digest, metrics = _text(said, "digest", 64), said.get("metrics")
    if not DIGEST.fullmatch(digest):
        raise BrokenFrame("a digest that is none")
    if not isinstance(metrics, dict) or len(metrics) > MOST_METRICS:
        raise BrokenFrame("metrics that are none, or too many")
    for name in metrics:
        _check_text(name, MOST_NAME)
    return Output(
        body,
        bytes.fromhex(digest),
        _number(said, "weight"),
        {name: _number(metrics, name) for name in metrics},
        _number(said, "compute_s", 0.0, MOST_SECONDS),
        _number(said, "compute_cpu_s", 0.0, MOST_SECONDS),
    )


def _number(of: dict[str, Any], name: str, least: float = -math.inf, most: float = math.inf) -> float:
    value = of.get(name)
    if not isinstance(value, float) or not math.isfinite(value) or not least <= value <= most:
        raise BrokenFrame(f"{printable(name, 40)} is {printable(str(value), 40)}")
    return value


def _text(said: Header, name: str, most: int) -> str:
    value = said.get(name)
    _check_text(value, most)
    return str(value)


def _check_text(value: object, most: int) -> None:
    """Check for text that a protocol message can hold."""
    if not isinstance(value, str) or len(value) > most or any("\ud800" <= each <= "\udfff" for each in value):
        raise BrokenFrame(f"{printable(str(value), 40)!r} where a short text should be")
