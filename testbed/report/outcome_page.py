"""The report of a simulated run that kept no journal: what its attempts and sums can tell, in one HTML file."""

from markupsafe import Markup

from testbed.report.figures.drawing import save, styled
from testbed.report.figures.jobs import completion
from testbed.report.figures.outcome import attempts_over_time, completed
from testbed.report.page import JOBS, REPRODUCE, RESULT, ROUNDS, WAITS, environment, facts, sentence
from testbed.report.table import lease_sum, response_sum, simulated_line
from testbed.report.times import job_times, whole_sentence
from testbed.runfolder.attempts import SimulatedRecord
from testbed.runfolder.jsonlines import texts
from testbed.runfolder.summary import Summary
from venn.wire.files import write_atomic

_MOST_BARS = 60  # jobs drawn one by one; the CSV has all


def draw_outcome_report(record: SimulatedRecord, found: Summary, *, page: str, figures: str) -> None:
    """Write the files of these names into the run's folder. Raises PeerError if the disk is full."""
    with styled():
        drawings = [attempts_over_time(record.attempts)] if len(record.attempts.job) else []
        drawings += [completed(found)] if found.jobs else []
        drawings += [completion(found)] if 0 < len(found.jobs) <= _MOST_BARS else []
        drawn = {drawing.name: save(drawing, record.folder / figures) for drawing in drawings}
    write_atomic(record.folder / page, _render(record, found, drawn).encode())


def _render(record: SimulatedRecord, summary: Summary, figures: dict[str, str]) -> str:
    assert summary.simulated is not None
    times = job_times(summary.jobs)
    return (
        environment()
        .get_template("outcome.html.j2")
        .render(
            sections=[WAITS, RESULT, JOBS, ROUNDS, REPRODUCE],
            summary=summary,
            waited=whole_sentence(summary.jobs),
            times_of_jobs=times,
            times_cut=len(summary.jobs) - len(times),
            sentence=sentence(summary),
            warnings=["The run was interrupted: this is a partial report."] if summary.interrupted else [],
            said=texts(record.about, "warnings"),
            figures={name: Markup(svg) for name, svg in figures.items()},
            simulated_said=simulated_line(summary.simulated),
            sums={"leases": lease_sum(summary), "responses": response_sum(summary)},
            facts=facts(record.about, {"seed": summary.seed, "digest": summary.digest}),
            command=" ".join(texts(record.about, "command")),
            scenario=record.scenario,
        )
    )
