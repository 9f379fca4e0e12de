"""The run folder: where each thing of a run lies."""

import re
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from venn.wire.errors import UsageError


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths in a run folder; docs/run-folder.md describes each file."""

    root: Path

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

    @property
    def scenario(self) -> Path:
        return self.root / "scenario.yaml"

    @property
    def manifest(self) -> Path:
        return self.root / "run.json"

    @property
    def population(self) -> Path:
        return self.root / "devices" / "population.jsonl"

    @property
    def tokens(self) -> Path:
        return self.root / "tokens"

    @property
    def compose(self) -> Path:
        return self.root / "compose.yaml"

    @property
    def containers(self) -> Path:
        return self.root / "containers.jsonl"

    @property
    def host(self) -> Path:
        return self.root / "host.jsonl"

    @property
    def churn(self) -> Path:
        return self.root / "churn.jsonl"

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def unheard(self) -> Path:
        return self.root / "unheard.jsonl"

    @property
    def outcome(self) -> Path:
        return self.root / "outcome.json"

    @property
    def attempts(self) -> Path:
        return self.root / "rounds.csv"

    @property
    def relay_load(self) -> Path:
        return self.root / "relay" / "load.jsonl"

    def job(self, name: str) -> Path:
        return self.root / "jobs" / name

    def device_host(self, name: str) -> Path:
        return self.root / "devices" / name

    def data(self, name: str) -> Path:
        return self.root / "data" / name

    def forget_tokens(self) -> None:
        shutil.rmtree(self.tokens, ignore_errors=True)
