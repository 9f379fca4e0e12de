"""The result of a run, for the program that started it: its folder, its summary, its exit code."""

from dataclasses import dataclass, field
from pathlib import Path

from testbed.runfolder.paths import RunFolder
from testbed.runfolder.summary import Summary
from venn.wire.errors import ExitCode, VennError


@dataclass(slots=True)
class Ending:
    """The end of a run, beside what its jobs did."""

    gave_up: bool = False  # the duration was over
    interrupted: bool = False  # somebody stopped it, or a part died without which nothing goes on
    failures: list[VennError] = field(default_factory=list)  # parts that ended with an error of their own


@dataclass(frozen=True, slots=True)
class Result:
    """A run that is over."""

    folder: RunFolder
    summary: Summary
    page: Path | None  # None: it is drawn when it is asked for, by `venn report`
    ending: Ending

    @property
    def exit_code(self) -> int:
        if self.ending.failures:
            return self.ending.failures[0].exit_code
        if self.ending.interrupted:
            return ExitCode.INTERRUPTED
        return ExitCode.OK if self.summary.passed else ExitCode.FAILED
