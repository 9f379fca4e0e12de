"""The final table: what a run came to, on one screen; plain text where it does not go to a terminal."""

from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.report.host import BUSY_FOR_S, BUSY_FRACTION, stall_line
from testbed.report.injected import observed_words
from testbed.report.words import counted, gib, metric, percent, seconds, span
from testbed.runfolder.summary import JobFigures, Simulated, Summary
from testbed.scenario.backends import each_device
from venn.wire.text import printable

LEAST_WIDTH = 108  # columns; a narrower terminal wraps, nothing is left out
HEADERS = (  # a blank sets a column apart from the one before
    " ROUNDS", " ABORTS", " JCT s", " = DELAY", "+ COLLECT", "+ GAPS", " STRAGGLERS", " WASTED device-s", " ACCURACY",
)  # fmt: skip
MOST_FINDINGS = 5  # of the auditor, on the screen; the report has all


def print_summary(summary: Summary, console: Console, *, report: str = "", following: str = "") -> None:
    """Print it. ``report``: the page's path, or the command that draws it. ``following``: what a user may want next."""
    before = console.width
    console.width = max(before, LEAST_WIDTH)
    try:
        console.print(final_table(summary, report=report, following=following), crop=False)
    finally:
        console.width = before


def final_table(summary: Summary, *, report: str = "", following: str = "") -> RenderableType:
    parts: list[RenderableType] = [_headline(summary), "", _jobs(summary), ""]
    if said := job_lines(summary):
        parts += [*(_line(line) for line in said), ""]
    if reasons := _reasons(summary):
        parts += [*(_line(line, "bold red") for line in reasons), ""]
    parts += [_line(line) for line in [*_sums(summary), *_machine(summary)]]
    parts += [_line(f"           {line}", "bold red") for line in summary.host.too_small]
    parts += ["", _injected(summary)] if summary.injected else []
    parts += [_line(line, "bold red") for line in _audit_lines(summary)]
    parts += ["", _expectations(summary)]
    closing = [f"{name:<11}{value}" for name, value in (("report", report), ("next", following)) if value]
    return Group(*parts, *([""] if closing else []), *(_line(line) for line in closing))


def _line(text: str, style: str = "") -> Text:
    """One line, however long: a terminal wraps it, a file keeps it whole."""
    return Text(text, style=style, no_wrap=True, overflow="ignore")


def _headline(summary: Summary) -> Text:
    ended = "interrupted after" if summary.interrupted else "ended after" if summary.unfinished_jobs else "finished in"
    line = _line(summary.name, "bold")
    line.append(
        f"   policy {summary.policy}   seed {summary.seed}   backend {summary.backend}   "
        f"{counted(summary.devices, 'device')}   {ended} {span(summary.duration_s)}",
        style="not bold",
    )
    return line


def _jobs(summary: Summary) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("JOB", no_wrap=True)
    for header in HEADERS:
        table.add_column(header, justify="right", no_wrap=True)
    for job in summary.jobs:
        table.add_row(Text(job.name), *_job_cells(job))
    if summary.jobs:
        table.add_row(*_total_cells(summary), style="bold")
    return table


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


def job_lines(summary: Summary) -> list[str]:
    """Remarks on single jobs: ``pen is asynchronous: 30 flushes, responses 1.3 rounds stale on average``"""
    return [*_staleness_lines(summary), *_repeat_lines(summary)]


def _repeat_lines(summary: Summary) -> list[str]:
    lines = []
    for job in summary.jobs:
        if job.repeats is not None:
            many = job.repeats.responses
            of = "in its rounds came from devices that count there already"
            told = (
                f"it was not counted how many responses {of}" if many is None else f"{counted(many, 'response')} {of}"
            )
            lines.append(f"{job.name} lets a device count several times in a round: {told}")
    return lines


def _staleness_lines(summary: Summary) -> list[str]:
    return [
        f"{job.name} is asynchronous: {counted(job.rounds, 'flush', 'flushes')}, responses "
        f"{job.staleness.mean:.1f} rounds stale on average, {job.staleness.most} at most; it has no delay of its own"
        for job in summary.jobs
        if job.staleness is not None
    ]


def _total_cells(summary: Summary) -> list[str]:
    """Means of the times over finished jobs, so that they add up too; totals of the counts over all."""
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


def lease_sum(summary: Summary) -> str:
    """``816 = 558 responses + 132 stragglers + ...``"""
    leases = summary.leases
    words = ["responses", "stragglers", "lost", "failed", "expired", "revoked"] + (["live"] if leases.live else [])
    return f"{leases.granted} = " + " + ".join(f"{getattr(leases, word)} {word}" for word in words)


def response_sum(summary: Summary) -> str:
    """``558 acknowledged = 547 in rounds + 11 in aborted attempts + 0 lost; 0 counted twice``"""
    pending = f" + {summary.responses_pending} in open attempts" if summary.responses_pending else ""
    return (
        f"{summary.responses_acknowledged} acknowledged = {summary.responses_in_rounds} in rounds + "
        f"{summary.responses_in_aborted} in aborted attempts{pending} + {summary.responses_lost} lost; "
        f"{summary.responses_counted_twice} counted twice"
    )


def session_sum(summary: Summary) -> str:
    """``912 = 610 said goodbye + 290 lost their connection + ...; 121 ended in mid-task``"""
    ends = summary.sessions_by_end
    goodbye = sum(count for end, count in ends.items() if end.startswith("goodbye"))
    parts = [f"{goodbye} with a goodbye"]
    parts += [f"{count} {end.replace('_', ' ')}" for end, count in ends.items() if not end.startswith("goodbye")]
    if summary.devices_lost_in_task is None:
        return f"{summary.sessions}; a simulation without a journal has no details"
    killed = f", {counted(summary.processes_killed, 'process', 'processes')} killed" if summary.processes_killed else ""
    return f"{summary.sessions} = {' + '.join(parts)}; {summary.devices_lost_in_task} ended in mid-task{killed}"


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


def task_lines(summary: Summary) -> list[str]:
    """``count on pis: 2.31 s measured, 2.40 s modelled, 0.58 s of the processor, held back 41 times (12 tasks)``"""
    return [
        f"{each.job} on {each.fleet}: {each.measured_s:.2f} s measured, "
        + (f"{each.modelled_s:.2f} s modelled, " if each.modelled_s is not None else "")
        + f"{each.compute_cpu_s:.2f} s of the processor, held back {each.held_back:.0f} times "
        f"({counted(each.tasks, 'task')})"
        for each in summary.emulation.tasks
    ]


def simulated_line(simulated: Simulated) -> str:
    """``933 check-ins and 175 plans, event by event: 1 min 39 s in 0.2 s``"""
    how = "in bulk" if simulated.path == "bulk" else "event by event"
    why = f" ({simulated.why})" if simulated.why else ""
    return (
        f"{simulated.check_ins} check-ins and {simulated.plans} plans, {how}{why}: "
        f"{span(simulated.virtual_s)} of virtual time in {seconds(simulated.wall_s)} s"
    )


def _machine(summary: Summary) -> list[str]:
    if summary.simulated is not None:
        return [f"simulated  {simulated_line(summary.simulated)}", f"digest     {summary.digest}"]
    emulation = summary.emulation
    busy, _, verdict = host_line(summary).rpartition(": ")
    processes = f", {emulation.processes} of them processes" if emulation.processes else ""
    processes = f", each a {each}" if (each := each_device(summary.backend)) else processes
    return [
        f"emulation  cpu {emulation.cpu} ({counted(summary.devices, 'device')}{processes}), link {emulation.link}",
        *(f"DEGRADED   {each}" for each in emulation.degraded),
        *(f"task time  {each}" for each in task_lines(summary)),
        f"host       {busy}",
        f"           {verdict}",
        *(f"           {each}" for each in (*summary.host.reasons, stall_line(summary.host)) if each),
    ]


def host_line(summary: Summary) -> str:
    """One line of how busy the machine was, and whether the figures can be trusted."""
    host = summary.host
    if host.cpu_max is None:
        return "was not watched, so its load is not known"
    lag = max(host.lag_p99_max_s.values(), default=0.0)
    short = host.cpu_max > BUSY_FRACTION and not any("processor" in reason for reason in host.reasons)
    moment = f" (over {percent(BUSY_FRACTION)} for less than {BUSY_FOR_S} s)" if short else ""
    busy = (
        f"{percent(host.cpu_max)} busy at most{moment}, {percent(host.cpu_mean)} on average, "
        f"{gib(host.memory_max_bytes)} GiB used, event loops late by {lag * 1000:.0f} ms at most"
    )
    if host.saturated:
        return f"{busy}: TOO BUSY, do not trust these figures"
    if summary.interrupted:
        return f"{busy}: not too busy, but the run was interrupted and its figures are partial"
    if summary.duration_s < BUSY_FOR_S:
        return f"{busy}: the run was too short to judge, under {BUSY_FOR_S} s"
    return f"{busy}: figures can be trusted"


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
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("INJECTED", no_wrap=True)
    table.add_column("TIMES", justify="right", no_wrap=True)
    table.add_column("OBSERVED", no_wrap=True)
    for one in summary.injected:
        table.add_row(Text(f"  {one.name}"), str(one.actions), Text(observed_words(one)))
    return table


def _expectations(summary: Summary) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("EXPECTED", no_wrap=True)
    table.add_column("GOT", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for one in summary.expectations:
        held = Text("ok", style="green") if one.held else Text("NOT MET", style="bold red")
        if not one.judged:
            held = Text("not measured in a simulation", style="yellow")
        table.add_row(Text(f"  {one.expect}"), metric(one.got), held)
    return table
