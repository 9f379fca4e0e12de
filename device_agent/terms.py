"""The terms on which a device takes an offer: the code that it may run, the data that it has, and room for the task."""

import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from device_agent.actions import Refusal
from device_agent.bounds import AgentBounds
from device_agent.machine import AllowedCode
from device_agent.pipes import SYNTHETIC, is_synthetic
from device_agent.spec import DeviceSpec
from venn.v1 import common_pb2, device_pb2
from venn.wire.bounds import Refusals
from venn.wire.logs import log
from venn.wire.notation import format_bytes
from venn.wire.signed_code import code_owner
from venn.wire.text import printable
from venn.wire.trust import NOTHING

NOT_FOR_ME_S = 3600.0  # a job whose code or data this device does not have: ask again so much later
DISK_FULL_S = 60.0  # others may make room
logger = logging.getLogger(__name__)


def free_bytes(folder: Path) -> int:
    """The bytes that are free on a folder's disk; none if it cannot be asked."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


class Terms:
    """The terms of all devices of a process."""

    def __init__(
        self,
        allowed: AllowedCode,
        bounds: AgentBounds,
        folder: Path | None = None,
        free: Callable[[Path], int] = free_bytes,
        authority: bytes = NOTHING,
    ) -> None:
        """``folder``: where the agent writes. ``free``: the bytes that are free on a folder's disk. ``authority``: the
        fingerprint of the coordinator's certificate authority.
        """
        self._allowed, self._bounds, self._free, self._authority = allowed, bounds, free, authority
        self._folders = [Path(tempfile.gettempdir()), *([folder] if folder else [])]
        self._refusals = Refusals()

    def refusal(self, offer: device_pb2.Offer, spec: DeviceSpec) -> Refusal | None:
        """Why a device does not take an offer; None: it does."""
        task = offer.task
        if not task.code.digest:
            if not is_synthetic(parameters(task)):
                message = f"the task has no code, and is not kind = {SYNTHETIC}"
                return Refusal(common_pb2.FAILURE_REASON_CODE_NOT_ALLOWED, message, NOT_FOR_ME_S)
        elif not self._allowed.admits(task.code.digest):
            owner = code_owner(self._authority, offer.attempt.job, task)
            if not self._allowed.admits(task.code.digest, owner):
                return self._not_told(task, owner, spec)
        if task.data and task.data not in spec.data:
            message = f"this device has no data {printable(task.data, 64)}"
            return Refusal(common_pb2.FAILURE_REASON_DATA_MISSING, message, NOT_FOR_ME_S)
        return self._no_room(task, printable(offer.attempt.job.name, 64))

    def _not_told(self, task: common_pb2.Task, owner: bytes | None, spec: DeviceSpec) -> Refusal:
        name = printable(task.code_name, 64)
        message = f"this agent was not told to run {name}: --allow-code {task.code.digest.hex()}"
        message += f", or --trust-owner {owner.hex()}" if owner else ""
        log(logger, logging.WARNING, message, device=spec.device)
        return Refusal(common_pb2.FAILURE_REASON_CODE_NOT_ALLOWED, message, NOT_FOR_ME_S)

    def _no_room(self, task: common_pb2.Task, job: str) -> Refusal | None:
        largest = max(task.code.size, task.model.size)
        if largest > self._bounds.artifact:
            message = f"a model or code of {format_bytes(largest)}, allowed are {format_bytes(self._bounds.artifact)}"
            self._refusals.met("artifact", job, message)
            return Refusal(common_pb2.FAILURE_REASON_OUT_OF_SPACE, message, NOT_FOR_ME_S)
        for folder in self._folders:
            if self._free(folder) < self._bounds.free_disk:
                message = f"less than {format_bytes(self._bounds.free_disk)} are free on this device's disk"
                self._refusals.met("free_disk", str(folder), message)
                return Refusal(common_pb2.FAILURE_REASON_OUT_OF_SPACE, message, DISK_FULL_S)
        return None


def parameters(task: common_pb2.Task) -> dict[str, bool | int | float | str]:
    """A task's parameters as Python's values."""
    found: dict[str, bool | int | float | str] = {}
    for name, value in task.params.items():
        kind = value.WhichOneof("kind")
        if kind is not None:
            found[printable(name, 128)] = getattr(value, kind)
    return found
