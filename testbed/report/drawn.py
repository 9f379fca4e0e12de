"""Draws the report of a run: report.html, and every figure beside it."""

from testbed.report.figures.devices import churn, venn
from testbed.report.figures.drawing import save, styled
from testbed.report.figures.host import host
from testbed.report.figures.jobs import completion, learning, rounds, waiting
from testbed.report.learning import curves, targets
from testbed.report.page import render_page
from testbed.report.record import RunRecord
from testbed.report.regions import diagram
from testbed.report.story import Story
from testbed.runfolder.jsonlines import number, text
from testbed.runfolder.summary import Summary
from venn.wire.files import write_atomic


def draw_report(record: RunRecord, story: Story, summary: Summary, *, page: str, figures: str) -> None:
    """Write the files of these names into the run's folder. Raises PeerError if the disk is full."""
    drawn = _draw(record, story, summary, figures)
    write_atomic(record.folder / page, render_page(record, story, summary, drawn).encode())


def _draw(record: RunRecord, story: Story, summary: Summary, folder: str) -> dict[str, str]:
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
        return {drawing.name: save(drawing, record.folder / folder) for drawing in drawings if drawing is not None}


def _injected(record: RunRecord) -> list[tuple[str, float]]:
    """The target and the engine time of each action of the timeline."""
    return [(text(row, "target"), record.journal.engine_time(number(row, "at"))) for row in record.churn]
