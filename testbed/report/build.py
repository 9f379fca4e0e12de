"""The result of a run, and the summary and report that are built from its folder.

The result of a run, for the program that started it: its folder, its summary, its exit code.

Builds what a run leaves for people from the logs in its folder: summary.json, and when it is asked for, the report.

Drawing takes longer than a small simulation: what draws is imported by who asks for it.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from testbed.report.history import read_history
from testbed.report.record import load_run
from testbed.report.summary import summarise, summarise_outcome, to_json
from testbed.runfolder.attempts import load_simulated
from testbed.runfolder.paths import RunFolder
from testbed.runfolder.summary import Summary
from venn.wire.errors import ExitCode, VennError
from venn.wire.files import write_atomic


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


PAGE = "report.html"
SUMMARY = "summary.json"
FIGURES = "figures"


def build_summary(folder: Path) -> Summary:
    """Read a run folder and write summary.json into it.

    Raises UsageError if the folder is no run's, PeerError if the disk is full.
    """
    if RunFolder(folder).outcome.is_file():
        return _kept(folder, summarise_outcome(load_simulated(folder)))
    return _kept(folder, summarise(load_run(folder)))


def build_report(folder: Path) -> Summary:
    """The same, and write report.html and figures/ into it."""
    if RunFolder(folder).outcome.is_file():
        from testbed.report.page import draw_outcome_report

        outcome = load_simulated(folder)
        summary = _kept(folder, summarise_outcome(outcome))
        draw_outcome_report(outcome, summary, page=PAGE, figures=FIGURES)
        return summary
    from testbed.report.page import draw_report

    record = load_run(folder)
    history = read_history(record.journal)
    summary = _kept(folder, summarise(record, history))
    draw_report(record, history, summary, page=PAGE, figures=FIGURES)
    return summary


def _kept(folder: Path, summary: Summary) -> Summary:
    write_atomic(folder / SUMMARY, json.dumps(to_json(summary), indent=2).encode() + b"\n")
    return summary
