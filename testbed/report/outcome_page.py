"""The report of a simulated run that kept no journal: what its attempts and sums can tell, in one HTML file."""

from markupsafe import Markup

from testbed.report.figures.drawing import save, styled
from testbed.report.figures.jobs import completion
from testbed.report.figures.outcome import attempts_over_time, completed
from testbed.report.jsonlines import text, texts
from testbed.report.page import environment, sentence
from testbed.report.simulated import SimulatedRecord
from testbed.report.summary import Summary
from testbed.report.table import lease_sum, response_sum, simulated_line
from venn.wire.files import write_atomic

_MOST_BARS = 60  # jobs drawn one by one; the CSV has all


def draw_outcome_report(record: SimulatedRecord, found: Summary, *, page: str, figures: str) -> None:
    """Write the files of these names into the run's folder. Raises PeerError if the disk is full."""
    with styled():
        drawings = [attempts_over_time(record.attempts)] if record.attempts else []
        drawings += [completed(found)] if found.jobs else []
        drawings += [completion(found)] if 0 < len(found.jobs) <= _MOST_BARS else []
        drawn = {drawing.name: save(drawing, record.folder / figures) for drawing in drawings}
    write_atomic(record.folder / page, _render(record, found, drawn).encode())


def _render(record: SimulatedRecord, summary: Summary, figures: dict[str, str]) -> str:
    assert summary.simulated is not None
    facts = {"seed": str(summary.seed), "digest": summary.digest, "commit": text(record.about, "commit")}
    for group in ("versions", "machine"):
        value = record.about.get(group)
        if isinstance(value, dict):
            facts |= {str(name).replace("_", " "): str(one) for name, one in value.items()}
    return (
        environment()
        .get_template("outcome.html.j2")
        .render(
            summary=summary,
            sentence=sentence(summary),
            warnings=["The run was interrupted: this is a partial report."] if summary.interrupted else [],
            said=texts(record.about, "warnings"),
            figures={name: Markup(svg) for name, svg in figures.items()},
            simulated_said=simulated_line(summary.simulated),
            sums={"leases": lease_sum(summary), "responses": response_sum(summary)},
            facts=[(name, value) for name, value in facts.items() if value],
            command=" ".join(texts(record.about, "command")),
            scenario=record.scenario,
        )
    )
