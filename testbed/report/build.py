"""Builds what a run leaves for people: summary.json, report.html and figures/, from the logs in its folder."""

import json
from pathlib import Path

from testbed.live.folder import RunFolder
from testbed.report.figures.devices import churn, venn
from testbed.report.figures.drawing import save, styled
from testbed.report.figures.host import host
from testbed.report.figures.jobs import completion, learning, rounds, waiting
from testbed.report.jsonlines import number, text
from testbed.report.learning import curves, targets
from testbed.report.outcome_page import build_outcome_report
from testbed.report.page import render_page
from testbed.report.record import RunRecord, load_run
from testbed.report.regions import diagram
from testbed.report.simulated import load_simulated
from testbed.report.story import Story, tell
from testbed.report.summary import Summary, summarise, to_json
from venn.wire.files import write_atomic

PAGE = "report.html"
SUMMARY = "summary.json"
FIGURES = "figures"


def build_report(folder: Path) -> Summary:
    """Read a run folder and write summary.json, report.html and figures/ into it.

    Raises UsageError if the folder is no run's, PeerError if the disk is full.
    """
    if RunFolder(folder).outcome.is_file():
        return build_outcome_report(load_simulated(folder), page=PAGE, summary=SUMMARY, figures=FIGURES)
    record = load_run(folder)
    story = tell(record.journal)
    summary = summarise(record, story)
    write_atomic(folder / SUMMARY, json.dumps(to_json(summary), indent=2).encode() + b"\n")
    figures = _draw(record, story, summary)
    write_atomic(folder / PAGE, render_page(record, story, summary, figures).encode())
    return summary


def _draw(record: RunRecord, story: Story, summary: Summary) -> dict[str, str]:
    fleets = {text(row, "device"): text(row, "fleet") for row in record.population}
    learned = curves(record, story)
    with styled():
        drawings = [venn(diagram(story)), host(record, story.window)]
        if summary.jobs:
            drawings += [
                completion(summary),
                rounds(story, summary.jobs),
                learning(learned, targets(summary.expectations, learned), summary.jobs),
                churn(story, summary.jobs, fleets, _injected(record)),
                waiting(summary),
            ]
        return {drawing.name: save(drawing, record.folder / FIGURES) for drawing in drawings if drawing is not None}


def _injected(record: RunRecord) -> list[tuple[str, float]]:
    """The target and the engine time of each action of the timeline."""
    return [(text(row, "target"), record.journal.engine_time(number(row, "at"))) for row in record.churn]
