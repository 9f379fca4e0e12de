"""The report of a run: one HTML file that opens offline, and every figure as SVG, PDF and CSV beside it.

Whatever a device or a job said is escaped by the template engine and has lost its control characters before.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coordinator.engine.model import SUMMED_AS
from testbed.report import words
from testbed.report.draw_devices import MOST_STRIPS, Diagram, churn, diagram, host, venn
from testbed.report.draw_jobs import (
    attempts_over_time,
    completed,
    completion,
    curves,
    describe_target,
    learning,
    look,
    rounds,
    targets,
    waiting,
)
from testbed.report.drawing import DELAY, NARROW_IN, Drawing, colour_of_page, job_colours, palette_css, save, styled
from testbed.report.explain import LEAST_S, longest, rules, shortened
from testbed.report.history import History
from testbed.report.host import host_line, stall_line
from testbed.report.record import RunRecord
from testbed.report.words import (
    cut_line,
    duration,
    job_lines,
    lease_sum,
    observed_words,
    percent,
    response_sum,
    session_sum,
    simulated_line,
)
from testbed.runfolder.attempts import SimulatedRecord
from testbed.runfolder.jsonlines import Row, number, text, texts
from testbed.runfolder.summary import JobFigures, Summary, Waited
from testbed.scenario.backends import each_device
from venn.wire.files import write_atomic
from venn.wire.text import printable

MOST_JOBS = 12  # that a page tells one by one
FOR_DEVICES, FOR_RESPONSES, BETWEEN = "waiting for devices", "waiting for responses", "between attempts"
WAITING_LOOK = f"background: {colour_of_page(DELAY)}"
COLLECTING_LOOK = "background: var(--rule)"
BETWEEN_LOOK = "background: var(--paper)"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the time of a job."""

    text: str
    share: float  # of the whole
    amount: str  # the same, as a time
    look: str  # of its bar, as a style sheet has it


@dataclass(frozen=True, slots=True)
class Times:
    """The time of one job, or of the jobs under one policy in the mean."""

    name: str
    sentence: str
    parts: tuple[Part, ...]  # they add up to the whole


def job_times(jobs: Sequence[JobFigures]) -> list[Times]:
    """The times of jobs, by arrival; of many jobs, those that waited longest for devices."""
    chosen = {job.name for job in sorted(jobs, key=lambda job: -job.delay_s)[:MOST_JOBS]}
    colours = job_colours([job.name for job in jobs])
    return [_job_times(job, colours) for job in jobs if job.name in chosen]


def whole_sentence(jobs: Sequence[JobFigures]) -> str:
    """A sentence of how all jobs together spent their time, and of the largest reason why they waited."""
    parts = [sum(job.delay_s for job in jobs), sum(job.collect_s for job in jobs), sum(_gaps(job) for job in jobs)]
    whole = sum(parts)
    if not whole:
        return ""
    devices, responses, between = (percent(part / whole) for part in parts)
    said = f"Jobs spent {devices} of their time {FOR_DEVICES}, {responses} {FOR_RESPONSES} and {between} {BETWEEN}."
    reasons = shortened((wait for job in jobs for wait in job.waits), ())
    if not reasons or percent(reasons[0].seconds / whole) == percent(0.0):
        return said
    return f"{said} The largest reason, {percent(reasons[0].seconds / whole)} of the time: {reasons[0].text}."


def _job_times(job: JobFigures, colours: dict[str, str]) -> Times:
    whole = job.delay_s + job.collect_s + _gaps(job)
    parts = time_parts(longest(job.waits), job.delay_s, job.collect_s, _gaps(job), colours)
    waited = f"{duration(job.delay_s)} ({percent(job.delay_s / whole if whole else 0.0)}) {FOR_DEVICES}"
    said = f"{duration(whole)}, of which {waited}." if job.finished else f"Not finished: {waited} so far."
    return Times(job.name, said, parts)


def time_parts(
    waits: Iterable[Waited], delay_s: float, collect_s: float, gaps_s: float, colours: dict[str, str]
) -> tuple[Part, ...]:
    """Divides a time into reasons of its delay, collection and gaps, without those that a page would show as 0.0 s."""
    parts = []
    for wait in waits:
        colour, opacity = look(wait, colours)
        parts.append((wait.text, wait.seconds, f"background: {colour_of_page(colour)}; opacity: {opacity}"))
    left = max(0.0, delay_s - sum(seconds for _, seconds, _ in parts))
    parts.append((f"{FOR_DEVICES}, for other reasons" if parts else FOR_DEVICES, left, WAITING_LOOK))
    parts += [(FOR_RESPONSES, collect_s, COLLECTING_LOOK), (BETWEEN, gaps_s, BETWEEN_LOOK)]
    whole = delay_s + collect_s + gaps_s
    return tuple(
        Part(text, seconds / whole, duration(seconds), look) for text, seconds, look in parts if seconds >= LEAST_S
    )


def _gaps(job: JobFigures) -> float:
    return job.gaps_s or 0.0


Figures = dict[str, Markup]  # by name
MOST_FAILURES = 8
INTERRUPTED = "The run was interrupted: this is a partial report."
MOST_BARS = 60  # jobs drawn one by one; the CSV has all


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page, which its contents link to; its number is its place among them."""

    id: str
    title: str


WAITS = Section("waits", "Why did it wait?")
RESULT = Section("result", "Result")
JOBS = Section("jobs", "Jobs")
ROUNDS = Section("rounds", "Rounds")
LEARNING = Section("learning", "Learning")
DEVICES = Section("devices", "Devices")
CHURN = Section("churn", "Churn")
REPRODUCE = Section("reproduce", "How to reproduce")


@dataclass(frozen=True, slots=True)
class Failure:
    """Tasks that failed in the same way."""

    count: int
    job: str
    phase: str
    reason: str
    first_line: str


def _page(record: RunRecord, history: History, summary: Summary, figures: Figures) -> str:
    found = diagram(history)
    names = [job.name for job in summary.jobs]
    machine = Section("host", "Emulation and host" if summary.simulated is None else "Simulation")
    return _rendered(
        "report.html.j2",
        record,
        summary,
        figures,
        sections=[WAITS, RESULT, JOBS, ROUNDS, LEARNING, DEVICES, CHURN, machine, REPRODUCE],
        warnings=_warnings(record, summary),
        finished=[job for job in summary.jobs if job.finished],
        targets=[describe_target(target) for target in targets(summary.expectations, curves(record, history))],
        diagram=found,
        served=_served(found, names),
        ends=_ends(history, names),
        failures=failures(history),
        injected=[(one.name, one.actions, observed_words(one)) for one in summary.injected],
        said_of_jobs=job_lines(summary),
        host_said=host_line(summary),
        stalls_said=stall_line(summary.host),
        strips_cut=max(0, len(history.capabilities) - MOST_STRIPS),
        rules=rules(wait for job in summary.jobs for wait in job.waits),
        software=record.journal.software,
    )


def _rendered(
    template: str,
    record: RunRecord | SimulatedRecord,
    summary: Summary,
    figures: Figures,
    software: str = "",
    **more: Any,
) -> str:
    """A page's HTML: what the pages of all runs show, and ``more``."""
    times = job_times(summary.jobs)
    known = {"seed": summary.seed, "digest": summary.digest, "venn-testbed": software}
    page = environment().get_template(template)
    return page.render(
        summary=summary,
        waited=whole_sentence(summary.jobs),
        times_of_jobs=times,
        times_cut=len(summary.jobs) - len(times),
        sentence=sentence(summary),
        figures=figures,
        sums={"leases": lease_sum(summary), "responses": response_sum(summary), "sessions": session_sum(summary)},
        simulated_said=simulated_line(summary.simulated) if summary.simulated else "",
        facts=facts(record.about, known),
        said=texts(record.about, "warnings"),
        command=" ".join(texts(record.about, "command")),
        scenario=record.scenario,
        **more,
    )


def sentence(summary: Summary) -> str:
    """One sentence of what ran and what came of it."""
    jobs = words.counted(len(summary.jobs), "job")
    ran = f"{jobs} shared {words.counted(summary.devices, 'device')} under {summary.policy}"
    finished = len(summary.jobs) - summary.unfinished_jobs
    if summary.unfinished_jobs:
        ran += f"; {max(0, finished)} finished in {words.span(summary.duration_s)}, {summary.unfinished_jobs} did not"
    else:
        mean = words.duration(summary.mean_jct_s) if summary.mean_jct_s is not None else "-"
        ran += f" and finished in {words.span(summary.duration_s)}, on average {mean} after arriving"
    if summary.devices_lost_in_task is None:
        return f"{ran}."
    lost = summary.responses_lost
    kept = "and no response was lost" if lost == 0 else f"and {words.counted(lost, 'acknowledged response')} lost"
    return f"{ran}. {words.counted(summary.devices_lost_in_task, 'session')} ended in mid-task, {kept}."


def failures(history: History) -> list[Failure]:
    """The most frequent failures, each with the first line of what its device said."""
    kinds: Counter[tuple[str, str, str, str]] = Counter()
    for lease in history.leases.values():
        if lease.end is not None and SUMMED_AS[lease.end] == "failed":
            said = printable((lease.message.splitlines() or [""])[0])
            kinds[history.jobs[lease.job].name, lease.phase or "", lease.failure or lease.end, said] += 1
    return [Failure(count, *kind) for kind, count in kinds.most_common(MOST_FAILURES)]


def environment() -> Environment:
    """The templates, with the filters, the style and the script of every page."""
    loader = PackageLoader("testbed.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    for function in (words.seconds, words.metric, words.percent, words.span, words.duration, words.gib):
        environment.filters[function.__name__] = function
    script, _, _ = loader.get_source(environment, "page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.globals |= {
        "palette": Markup(palette_css()),
        "script": Markup(script),
        "script_hash": f"sha256-{digest}",
    }
    environment.filters["each_device"] = each_device
    environment.filters["printable"] = lambda said: printable(str(said), 500)
    return environment


def _warnings(record: RunRecord, summary: Summary) -> list[str]:
    """The warnings that a reader has to know before the figures."""
    warnings = [f"{line[:1].upper()}{line[1:]}." for line in summary.host.too_small]
    warnings += [f"This machine was too busy: {reason}." for reason in summary.host.reasons]
    if cut := cut_line(summary):
        warnings.append(cut)
    if summary.interrupted:
        warnings.append(INTERRUPTED)
    if summary.audit.findings:
        warnings.append(f"The auditor has {words.counted(len(summary.audit.findings), 'finding')} (see The auditor).")
    if record.about.get("insecure"):
        warnings.append("The run listened on an address that others can reach (--insecure).")
    return warnings


def _served(found: Diagram, jobs: Sequence[str]) -> list[list[tuple[int, float]]]:
    """Region by region, per job: leases, and their share of the region's busiest cell."""
    most = max((count for region in found.regions for count in region.leases.values()), default=0) or 1
    return [[(region.leases.get(job, 0), region.leases.get(job, 0) / most) for job in jobs] for region in found.regions]


def _ends(history: History, jobs: Sequence[str]) -> list[tuple[str, list[int]]]:
    """The ends of leases, a row per end that occurred, a column per job."""
    counts: Counter[tuple[str, str]] = Counter()
    for lease in history.leases.values():
        counts[lease.end.value if lease.end else "live", history.jobs[lease.job].name] += 1
    ends = sorted({end for end, _ in counts}, key=lambda end: -sum(counts[end, job] for job in jobs))
    return [(end, [counts[end, job] for job in jobs]) for end in ends]


def facts(about: Row, known: Mapping[str, object]) -> list[tuple[str, str]]:
    """The facts that it takes to reproduce a run: ``known``, and the versions and the machine of its manifest."""
    found = {name: str(value) for name, value in known.items()}
    for group in ("versions", "machine"):
        value = about.get(group)
        if isinstance(value, dict):
            found |= {str(name).replace("_", " "): str(one) for name, one in value.items()}
    return [(name, value) for name, value in (*found.items(), ("commit", text(about, "commit"))) if value]


def draw_report(record: RunRecord, history: History, summary: Summary, *, page: str, figures: str) -> None:
    """Write the files of these names into the run's folder. Raises PeerError if the disk is full."""
    drawn = _draw(record, history, summary, figures)
    write_atomic(record.folder / page, _page(record, history, summary, drawn).encode())


def _draw(record: RunRecord, history: History, summary: Summary, folder: str) -> Figures:
    fleets = {text(row, "device"): text(row, "fleet") for row in record.population}
    learned = curves(record, history)
    with styled():
        drawings = [venn(diagram(history)), host(record, history.window)]
        if summary.jobs:
            drawings += [
                rounds(history, summary.jobs),
                learning(learned, targets(summary.expectations, learned), summary.jobs),
                churn(history, summary.jobs, fleets, _injected(record)),
            ]
        drawn = {drawing.name: save(drawing, record.folder / folder) for drawing in drawings if drawing is not None}
        for draw in (completion, waiting) if summary.jobs else ():
            drawing = draw(summary)
            drawn[drawing.name] = save(drawing, record.folder / folder, draw(summary, NARROW_IN))
        return drawn


def _injected(record: RunRecord) -> list[tuple[str, float]]:
    """The target and the engine time of each action of the timeline."""
    return [(text(row, "target"), record.journal.engine_time(number(row, "at"))) for row in record.churn]


def draw_outcome_report(record: SimulatedRecord, found: Summary, *, page: str, figures: str) -> None:
    """Write the files of these names into the run's folder. Raises PeerError if the disk is full."""
    with styled():
        drawings: list[tuple[Drawing, Drawing | None]]
        drawings = [(attempts_over_time(record.attempts), None)] if len(record.attempts.job) else []
        drawings += [(completed(found), completed(found, NARROW_IN))] if found.jobs else []
        drawings += [(completion(found), completion(found, NARROW_IN))] if 0 < len(found.jobs) <= MOST_BARS else []
        drawn = {drawing.name: save(drawing, record.folder / figures, narrow) for drawing, narrow in drawings}
    sections = [WAITS, RESULT, JOBS, ROUNDS, REPRODUCE]
    warnings = [INTERRUPTED] if found.interrupted else []
    html = _rendered("outcome.html.j2", record, found, drawn, sections=sections, warnings=warnings)
    write_atomic(record.folder / page, html.encode())
