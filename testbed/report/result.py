"""The result of a run: its summary and report, built from its folder, its exit code, and the table at its end.

Drawing takes longer than a small simulation: what draws is imported when a report is asked for.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.report.history import read_history
from testbed.report.host import host_line, stall_line
from testbed.report.record import load_run
from testbed.report.summary import summarise, summarise_outcome, to_json
from testbed.report.terminal import line, text_table
from testbed.report.words import (
    counted,
    cut_line,
    job_lines,
    lease_sum,
    metric,
    observed_words,
    response_sum,
    seconds,
    session_sum,
    simulated_line,
    span,
    task_lines,
)
from testbed.runfolder.attempts import load_simulated
from testbed.runfolder.paths import RunFolder
from testbed.runfolder.summary import JobFigures, Summary
from testbed.scenario.backends import each_device
from venn.wire.errors import ExitCode, VennError
from venn.wire.files import write_atomic
from venn.wire.text import printable


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
        """The exit code of the program that made the run."""
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
        return _write_summary(folder, summarise_outcome(load_simulated(folder)))
    return _write_summary(folder, summarise(load_run(folder)))


def build_report(folder: Path) -> Summary:
    """Build the summary of a run folder, and write report.html and figures/ into it. Raises as ``build_summary``."""
    if RunFolder(folder).outcome.is_file():
        from testbed.report.page import draw_outcome_report

        outcome = load_simulated(folder)
        summary = _write_summary(folder, summarise_outcome(outcome))
        draw_outcome_report(outcome, summary, page=PAGE, figures=FIGURES)
        return summary
    from testbed.report.page import draw_report

    record = load_run(folder)
    history = read_history(record.journal)
    summary = _write_summary(folder, summarise(record, history))
    draw_report(record, history, summary, page=PAGE, figures=FIGURES)
    return summary


def _write_summary(folder: Path, summary: Summary) -> Summary:
    write_atomic(folder / SUMMARY, json.dumps(to_json(summary), indent=2).encode() + b"\n")
    return summary


LEAST_WIDTH = 108  # columns; a narrower terminal wraps, nothing is left out
HEADERS = (  # a blank sets a column apart from the one before
    " ROUNDS", " ABORTS", " JCT s", " = DELAY", "+ COLLECT", "+ GAPS", " STRAGGLERS", " WASTED device-s", " ACCURACY",
)  # fmt: skip
MOST_FINDINGS = 5  # of the auditor, on the screen; the report has all


def print_summary(summary: Summary, console: Console, *, report: str = "", following: str = "") -> None:
    """Print the final table. ``report``: the page, or the command that draws it. ``following``: what to do next."""
    before = console.width
    console.width = max(before, LEAST_WIDTH)
    try:
        console.print(final_table(summary, report=report, following=following), crop=False)
    finally:
        console.width = before


def final_table(summary: Summary, *, report: str = "", following: str = "") -> RenderableType:
    """The final table of a run, with what is wrong with it."""
    parts: list[RenderableType] = [_headline(summary), "", _jobs(summary), ""]
    if cut := cut_line(summary):
        parts += [line(cut, "bold red"), ""]
    if said := job_lines(summary):
        parts += [*(line(each) for each in said), ""]
    if reasons := _reasons(summary):
        parts += [*(line(each, "bold red") for each in reasons), ""]
    parts += [line(each) for each in [*_sums(summary), *_machine(summary)]]
    parts += [line(f"           {each}", "bold red") for each in summary.host.too_small]
    parts += ["", _injected(summary)] if summary.injected else []
    parts += [line(each, "bold red") for each in _audit_lines(summary)]
    parts += ["", _expectations(summary)]
    closing = [f"{name:<11}{value}" for name, value in (("report", report), ("next", following)) if value]
    return Group(*parts, *([""] if closing else []), *(line(each) for each in closing))


def _headline(summary: Summary) -> Text:
    ended = "interrupted after" if summary.interrupted else "ended after" if summary.unfinished_jobs else "finished in"
    head = line(summary.name, "bold")
    head.append(
        f"   policy {summary.policy}   seed {summary.seed}   backend {summary.backend}   "
        f"{counted(summary.devices, 'device')}   {ended} {span(summary.duration_s)}",
        style="not bold",
    )
    return head


def _jobs(summary: Summary) -> Table:
    rows: list[list[str | Text]] = [[job.name, *_job_cells(job)] for job in summary.jobs]
    if summary.jobs:
        rows.append([Text(cell, style="bold") for cell in _total_cells(summary)])
    return text_table(("JOB", *HEADERS), rows, right=HEADERS, gap=1)


def _job_cells(job: JobFigures) -> list[str]:
    return [
        str(job.rounds),
        str(job.aborts),
        seconds(job.jct_s) if job.finished else "unfinished",
        seconds(job.delay_s),
        seconds(job.collect_s),
        seconds(job.gaps_s),
        "-" if job.stragglers is None else str(job.stragglers),
        seconds(job.wasted_device_s),
        metric(job.accuracy),
    ]


def _total_cells(summary: Summary) -> list[str]:
    """The last row: means of the times over finished jobs, so that they add up too; totals of the counts over all."""
    jobs = summary.jobs
    finished = [job for job in jobs if job.finished]

    def mean(values: list[float]) -> str:
        return seconds(sum(values) / len(values)) if values else "-"

    return [
        "mean / total",
        str(sum(job.rounds for job in jobs)),
        str(sum(job.aborts for job in jobs)),
        seconds(summary.mean_jct_s),
        mean([job.delay_s for job in finished]),
        mean([job.collect_s for job in finished]),
        mean([job.gaps_s for job in finished if job.gaps_s is not None]),
        total(job.stragglers for job in jobs),
        seconds(sum(job.wasted_device_s for job in jobs)),
        "",
    ]


def total(counts: Iterable[int | None]) -> str:
    """The sum of counts; ``-`` where nobody counted."""
    known = list(counts)
    return "-" if None in known else str(sum(count for count in known if count is not None))


def _reasons(summary: Summary) -> list[str]:
    """Why jobs did not finish, where somebody said so."""
    return [f"{job.name:<11}{printable(job.message, 400)}" for job in summary.jobs if job.message]


def _sums(summary: Summary) -> list[str]:
    return [
        f"leases     {lease_sum(summary)}",
        f"responses  {response_sum(summary)}",
        f"sessions   {session_sum(summary)}",
        *_overhead(summary),
    ]


def _overhead(summary: Summary) -> list[str]:
    """What is real in each JCT where the rest is modelled, or measured on devices."""
    parts = [f"{job.name} {seconds(job.overhead_s, 2)} s" for job in summary.jobs if job.overhead_s is not None]
    return [f"overhead   {', '.join(parts)} of their JCT: transfers, aggregation, messages, lateness"] if parts else []


def _machine(summary: Summary) -> list[str]:
    if summary.simulated is not None:
        return [f"simulated  {simulated_line(summary.simulated)}", f"digest     {summary.digest}"]
    emulation = summary.emulation
    busy, _, verdict = host_line(summary).rpartition(": ")
    processes = f", {emulation.processes} of them processes" if emulation.processes else ""
    processes = f", each a {each}" if (each := each_device(summary.backend)) else processes
    return [
        f"emulation  cpu {emulation.cpu} ({counted(summary.devices, 'device')}{processes}), link {emulation.link}",
        *(f"confined   {each}" for each in emulation.confined),
        *(f"DEGRADED   {each}" for each in emulation.degraded),
        *(f"task time  {each}" for each in task_lines(summary)),
        f"host       {busy}",
        f"           {verdict}",
        *(f"           {each}" for each in (*summary.host.reasons, stall_line(summary.host)) if each),
    ]


def _audit_lines(summary: Summary) -> list[str]:
    findings = summary.audit.findings
    if not findings:
        return []
    lines = [f"audit      {counted(len(findings), 'finding')}"]
    lines += [f"  {one.kind} {one.subject}: {one.message}" for one in findings[:MOST_FINDINGS]]
    left = len(findings) - MOST_FINDINGS
    return [*lines, f"  and {left} more, in the report"] if left > 0 else lines


def _injected(summary: Summary) -> Table:
    """What the timeline did, beside what the coordinator observed."""
    rows = [(f"  {one.name}", str(one.actions), observed_words(one)) for one in summary.injected]
    return text_table(("INJECTED", "TIMES", "OBSERVED"), rows, right=("TIMES",))


def _expectations(summary: Summary) -> Table:
    verdicts = {True: Text("ok", style="green"), False: Text("NOT MET", style="bold red")}
    unknown = Text("not measured in a simulation", style="yellow")
    rows = [
        (f"  {one.expect}", metric(one.got), verdicts[one.held] if one.judged else unknown)
        for one in summary.expectations
    ]
    return text_table(("EXPECTED", "GOT", ""), rows, right=("GOT",))
