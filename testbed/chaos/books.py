"""The books of a world: what devices were told, what drivers wrote down and published, held against each other.

They hold invariant 2 (docs/architecture.md): a response counts at most once, and one that was acknowledged as COUNTED
is in its round's model, or in an attempt that was aborted.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from job_driver.checkpoint import MODEL, NEXT_MODEL, STATE
from job_driver.counting import AttemptNo
from job_driver.spool import MANIFEST
from testbed.chaos.tally import ROWS, closed_rounds
from venn.v1 import common_pb2
from venn.wire import tensors
from venn.wire.chunks import digest_of

Violated = Callable[[str, str], None]


class Made(NamedTuple):
    """A response that a device has made."""

    token: int
    device: str


class Told(NamedTuple):
    """What a device was told about a response of its own."""

    outcome: int
    no: AttemptNo
    token: int
    incarnation: int


@dataclass
class JobBook:
    """What is known of one job."""

    repeat: bool
    folder: Path
    told: dict[tuple[int, int], Told] = field(default_factory=dict)  # by (incarnation, lease): the first word
    closed: dict[int, AttemptNo] = field(default_factory=dict)  # by round: the attempt whose responses are in the model
    aborted: set[AttemptNo] = field(default_factory=set)
    counted: dict[tuple[int, int], AttemptNo] = field(default_factory=dict)  # by (incarnation, lease), of the manifest
    responded: dict[tuple[int, int], str] = field(default_factory=dict)  # the devices of these
    recorded: dict[tuple[int, int], str] = field(default_factory=dict)  # the device of each that a coordinator counted
    rows: list[tuple[int, ...]] = field(default_factory=list)  # of the newest model that was seen


class Books:
    """All jobs of a world."""

    def __init__(self, violated: Violated) -> None:
        self._violated = violated
        self.jobs: dict[str, JobBook] = {}
        self._made: dict[bytes, Made] = {}  # by digest
        self._by_token: dict[int, Made] = {}
        self.receipts = 0
        self._last = 0

    def new_token(self) -> int:
        """A number that no response has."""
        self._last += 1
        return (self._last * 0x9E3779B97F4A7C15) % (2**63 - 1) or 1

    def made(self, device: str, token: int, digest: bytes) -> None:
        """Note that a device has made a response."""
        self._made[digest] = self._by_token[token] = Made(token, device)

    # -- what devices are told

    def receipt(self, device: str, incarnation: int, receipt: common_pb2.Receipt) -> None:
        """Note a receipt that a device was given for its own response."""
        self.receipts += 1
        book = self.jobs[receipt.attempt.job.name]
        made = self._made.get(receipt.digest)
        first = receipt.outcome == common_pb2.OUTCOME_DUPLICATE
        outcome = receipt.first_outcome if first else receipt.outcome
        where = f"{receipt.attempt.job.name} lease {receipt.lease} of {device}"
        if made is None or made.device != device:
            self._violated("FOREIGN_RECEIPT", f"{where}: the receipt is about a response that this device never made")
            return
        no = AttemptNo(receipt.attempt.round, receipt.attempt.attempt)
        told = Told(outcome, no, made.token, incarnation)
        before = book.told.setdefault((incarnation, receipt.lease), told)
        if before != told:
            self._violated("TOLD_TWICE", f"{where}: was told {before}, and then {told}")

    def was_told(self, job: str, incarnation: int, lease: int) -> bool:
        """Whether a device has a receipt for this lease."""
        return (incarnation, lease) in self.jobs[job].told

    # -- what coordinators count

    def counted(self, job: str, incarnation: int, lease: int, device: str) -> None:
        """Note that a coordinator has counted the response to a lease of its own."""
        self.jobs[job].recorded[incarnation, lease] = device

    # -- what drivers write down

    def check_folder(self, job: str) -> None:
        """Read the manifest and the checkpoint of a job, and hold them against all else."""
        book = self.jobs[job]
        self._read_manifest(job, book, _lines(book.folder / MANIFEST))
        self._check_recorded(job, book)
        rows = _model(book.folder)
        if rows is not None:
            self._check_rows(job, book, rows)
        for key, told in book.told.items():
            self._check_told(job, key, told)

    def _read_manifest(self, job: str, book: JobBook, lines: list[dict[str, Any]]) -> None:
        decided: dict[tuple[int, int], dict[str, Any]] = {}
        for line in lines:
            no = AttemptNo(line["round"], line["attempt"])
            if line["kind"] == "response":
                key = line["incarnation"], line["lease"]
                if key in decided:
                    self._violated("DECIDED_TWICE", f"{job} lease {key[1]}: {decided[key]}, and then {line}")
                decided[key] = line
            elif line["status"] == "closed":
                before = book.closed.setdefault(no.round, no)
                if before != no:
                    self._violated("CLOSED_TWICE", f"{job}: round {no.round} closed as {before} and as {no}")
            else:
                book.aborted.add(no)
        self._check_decided(job, book, decided)

    def _check_decided(self, job: str, book: JobBook, decided: dict[tuple[int, int], dict[str, Any]]) -> None:
        counted: dict[tuple[int, int], dict[str, int]] = {}  # by attempt: the devices that count
        book.counted.clear()
        book.responded.clear()
        for (incarnation, lease), line in decided.items():
            if line["outcome"] != "counted":
                continue
            book.counted[incarnation, lease] = AttemptNo(line["round"], line["attempt"])
            book.responded[incarnation, lease] = line["device"]
            devices = counted.setdefault((line["round"], line["attempt"]), {})
            if line["device"] in devices and not book.repeat:
                text = f"{job} round {line['round']}: {line['device']} counts by {devices[line['device']]} and {lease}"
                self._violated("DEVICE_TWICE", text)
            devices[line["device"]] = lease

    def _check_recorded(self, job: str, book: JobBook) -> None:
        """What a coordinator counts its driver has counted, of the device that has the lease."""
        for key, device in book.recorded.items():
            by = book.responded.get(key)
            if by != device:
                text = f"{job}: lease {key[1]} of {device} counts at the coordinator, and its driver counts {by}"
                self._violated("COUNTED_WITHOUT", text)

    # -- what is in the model

    def _check_rows(self, job: str, book: JobBook, rows: np.ndarray) -> None:
        found = [tuple(int(token) for token in row if token) for row in rows[: closed_rounds(rows)]]
        if len(found) < len(book.rows):
            self._violated("ROUND_LOST", f"{job}: a model had {len(book.rows)} rounds, and now {len(found)}")
        for number, (before, now) in enumerate(zip(book.rows, found, strict=False), 1):
            if before != now:
                self._violated("ROUND_CHANGED", f"{job} round {number}: was {before}, and is {now}")
        book.rows = found
        tokens = [token for row in found for token in row]
        if len(set(tokens)) < len(tokens):
            self._violated("COUNTED_TWICE", f"{job}: a response is in the model twice")
        for number, row in enumerate(found, 1):
            if any(token not in self._by_token for token in row):
                self._violated("FORGED", f"{job} round {number}: what is in the model no device has made")
            if len(row) < rows.shape[1]:
                self._violated("TOO_FEW", f"{job} round {number}: closed with {len(row)} of {rows.shape[1]} responses")

    def _check_told(self, job: str, key: tuple[int, int], told: Told) -> None:
        """What was acknowledged as COUNTED was written down before, and is in the model of its round."""
        book = self.jobs[job]
        if told.outcome != common_pb2.OUTCOME_COUNTED:
            return
        device = self._by_token[told.token].device
        who = f"{job}: {device} was told that lease {key[1]}, of round {told.no.round}, COUNTED"
        no = book.counted.get(key)
        if no is None:
            self._violated("NOT_WRITTEN_DOWN", f"{who}, and its driver has not written that down")
            return
        if no.round > len(book.rows) or no in book.aborted or book.closed.get(no.round) != no:
            return  # its round goes on, or another attempt closed it
        if told.token not in book.rows[no.round - 1]:
            self._violated("LOST", f"{who}, and its response is not in the model of round {no.round}")


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a manifest."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _model(folder: Path) -> np.ndarray | None:
    """The model of the checkpoint; None if there is none yet."""
    if not (folder / STATE).exists():
        return None
    wanted = bytes.fromhex(json.loads((folder / STATE).read_bytes())["model_digest"])
    for name in (MODEL, NEXT_MODEL):
        path = folder / name
        if path.exists() and digest_of(data := path.read_bytes()) == wanted:
            return np.array(tensors.decode(data)[ROWS])
    return None
