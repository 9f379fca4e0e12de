"""The orders of one worker process: what its job's code is held to. They come as an argument of its command line."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Means(StrEnum):
    """The ways to hold job code, each of which may be missing on a machine."""

    USER = "user"  # a user ID that nobody else has
    NAMESPACES = "namespaces"  # of processes, files, network and IPC
    LANDLOCK = "landlock"
    RLIMITS = "rlimits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What one worker is held to. Limits of 0 are not set."""

    nice: int
    agent: int  # its process
    memory_bytes: int  # data of each of its processes
    disk_bytes: int  # of its temporary folder, and of a file
    files: int  # open at once
    processes: int  # with their threads
    means: tuple[str, ...]  # that may be used
    device_bytes: int | None = None  # data of each of its processes, as an emulated device has it
    user: int | None = None  # its user ID; None: the agent's
    why_no_user: str = ""
    reads: tuple[str, ...] = ()  # the job's data, and what the device's owner names
    secrets: tuple[str, ...] = ()  # which it must not be able to read, and tries

    def uses(self, means: Means) -> bool:
        return means.value in self.means

    def to_argument(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_argument(cls, text: str) -> "Orders":
        """Read what ``to_argument`` made."""
        value: dict[str, Any] = json.loads(text)
        value |= {name: tuple(each) for name, each in value.items() if isinstance(each, list)}
        return cls(**value)
