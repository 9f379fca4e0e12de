"""Builds what a run leaves for people from the logs in its folder: summary.json, and when it is asked for, the report.

Drawing takes longer than a small simulation: what draws is imported by who asks for it.
"""

import json
from pathlib import Path

from testbed.report.history import read_history
from testbed.report.record import load_run
from testbed.report.summary import summarise, summarise_outcome, to_json
from testbed.runfolder.attempts import load_simulated
from testbed.runfolder.paths import RunFolder
from testbed.runfolder.summary import Summary
from venn.wire.files import write_atomic

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
