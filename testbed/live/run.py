"""A scenario, live: prepare, start, watch, stop, and account for it. ``venn run`` and ``venn demo`` are this."""

import asyncio
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console

from testbed.live.folder import RunFolder
from testbed.live.host import HostMonitor
from testbed.live.machine import commit, machine, versions
from testbed.live.prepare import prepare
from testbed.live.world import Ending, World
from testbed.report.build import build_report
from testbed.report.view import watch
from testbed.report.summary import Summary
from testbed.scenario.model import Scenario
from venn.wire.errors import ExitCode, VennError
from venn.wire.files import write_atomic
from venn.wire.tokens import load_token


@dataclass(frozen=True, slots=True)
class Run:
    """One run that is asked for."""

    scenario: Scenario
    out: Path | None = None  # the run folder; None: made below ./runs
    validate: bool = False  # check the engine's invariants after every event
    quiet: bool = False  # no live view


@dataclass(frozen=True, slots=True)
class Result:
    folder: RunFolder
    summary: Summary
    ending: Ending

    @property
    def exit_code(self) -> int:
        if self.ending.failures:
            return self.ending.failures[0].exit_code
        return ExitCode.OK if self.summary.passed else ExitCode.FAILED
