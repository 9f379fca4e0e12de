"""The run folder: where each thing of a run lies."""

import re
import shutil
from datetime import datetime
from pathlib import Path

from venn.wire.errors import UsageError


class RunFolder:
    """Paths in a run folder; docs/run-folder.md describes each file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.scenario = root / "scenario.yaml"
        self.manifest = root / "run.json"
        self.population = root / "devices" / "population.jsonl"
        self.keys = root / "keys"
        self.compose = root / "compose.yaml"
        self.containers = root / "containers.jsonl"
        self.host = root / "host.jsonl"
        self.churn = root / "churn.jsonl"
        self.chaos = root / "chaos.json"
        self.events = root / "events.jsonl"
        self.unheard = root / "unheard.jsonl"
        self.outcome = root / "outcome.json"
        self.attempts = root / "rounds.csv"
        self.relay_load = root / "relay" / "load.jsonl"

    @classmethod
    def create(cls, out: Path | None, *, name: str, policy: str, now: datetime) -> "RunFolder":
        """Make ``out``, or ``runs/<time>-<name>-<policy>``. Raises UsageError if it holds anything already."""
        short = re.sub(r"[^\w.-]+", "-", policy.rpartition(":")[2]).strip("-")  # of FILE.py:NAME(KEY=VALUE)
        root = out or Path("runs") / f"{now:%Y-%m-%d-%H%M%S}-{name}-{short}"
        root = root.absolute()
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise UsageError(
                "NOT_EMPTY", "exists already and is not an empty folder", where=str(root), fix="name another with --out"
            )
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                "NO_FOLDER", f"cannot be made: {error.strerror}", where=str(root), fix="name another with --out"
            ) from None
        return cls(root)

    def job(self, name: str) -> Path:
        return self.root / "jobs" / name

    def device_host(self, name: str) -> Path:
        return self.root / "devices" / name

    def data(self, name: str) -> Path:
        return self.root / "data" / name

    def forget_keys(self) -> None:
        shutil.rmtree(self.keys, ignore_errors=True)
