"""The report of a run: one HTML file that opens offline, and every figure as SVG, PDF and CSV beside it.

Whatever a device or a job said is escaped by the template engine and has lost its control characters before.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coordinator.engine.lease_sum import WORD
from testbed.report import words
from testbed.report.figures.devices import MOST_STRIPS, churn, venn
from testbed.report.figures.drawing import palette_css, save, styled
from testbed.report.figures.host import host
from testbed.report.figures.jobs import completion, describe_target, learning, rounds, waiting
from testbed.report.figures.outcome import attempts_over_time, completed
from testbed.report.history import History
from testbed.report.host import stall_line
from testbed.report.injected import observed_words
from testbed.report.job_figures import curves, targets
from testbed.report.record import RunRecord
from testbed.report.regions import Diagram, diagram
from testbed.report.table import (
    host_line,
    job_lines,
    lease_sum,
    response_sum,
    session_sum,
    simulated_line,
)  # fmt: skip
from testbed.report.times import job_times, whole_sentence
from testbed.report.waits import rules
from testbed.runfolder.attempts import SimulatedRecord
from testbed.runfolder.jsonlines import Row, number, text, texts
from testbed.runfolder.summary import Summary
from testbed.scenario.backends import each_device
from venn.wire.files import write_atomic
from venn.wire.text import printable

MOST_FAILURES = 8
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


def _page(record: RunRecord, history: History, summary: Summary, figures: dict[str, str]) -> str:
    """The page's HTML. ``figures`` maps a figure's name to its SVG."""
    found = diagram(history)
    machine = Section("host", "Emulation and host" if summary.simulated is None else "Simulation")
    times = job_times(summary.jobs)
    learned = targets(summary.expectations, curves(record, history))
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            sections=[WAITS, RESULT, JOBS, ROUNDS, LEARNING, DEVICES, CHURN, machine, REPRODUCE],
            summary=summary,
            waited=whole_sentence(summary.jobs),
            times_of_jobs=times,
            times_cut=len(summary.jobs) - len(times),
            sentence=sentence(summary),
            warnings=_warnings(record, summary),
            figures={name: Markup(svg) for name, svg in figures.items()},
            finished=[job for job in summary.jobs if job.finished],
            targets=[describe_target(target) for target in learned],
            diagram=found,
            served=_served(found, [job.name for job in summary.jobs]),
            ends=_ends(history, [job.name for job in summary.jobs]),
            failures=failures(history),
            injected=[(one.name, one.actions, observed_words(one)) for one in summary.injected],
            said_of_jobs=job_lines(summary),
            sums={"leases": lease_sum(summary), "responses": response_sum(summary), "sessions": session_sum(summary)},
            host_said=host_line(summary),
            stalls_said=stall_line(summary.host),
            simulated_said=simulated_line(summary.simulated) if summary.simulated else "",
            strips_cut=max(0, len(history.capabilities) - MOST_STRIPS),
            rules=rules(wait for job in summary.jobs for wait in job.waits),
            facts=facts(
                record.about,
                {"seed": summary.seed, "digest": summary.digest, "venn-testbed": record.journal.software},
            ),
            said=texts(record.about, "warnings"),
            command=" ".join(texts(record.about, "command")),
            scenario=record.scenario,
        )
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
        if lease.end is not None and WORD[lease.end] == "failed":
            said = printable((lease.message.splitlines() or [""])[0])
            kinds[history.jobs[lease.job].name, lease.phase or "", lease.failure or lease.end, said] += 1
    return [Failure(count, *kind) for kind, count in kinds.most_common(MOST_FAILURES)]


def environment() -> Environment:
    """The templates, with the filters, the style and the script of every page."""
    loader = PackageLoader("testbed.report")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
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
    if summary.interrupted:
        warnings.append("The run was interrupted: this is a partial report.")
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


def _draw(record: RunRecord, history: History, summary: Summary, folder: str) -> dict[str, str]:
    fleets = {text(row, "device"): text(row, "fleet") for row in record.population}
    learned = curves(record, history)
    with styled():
        drawings = [venn(diagram(history)), host(record, history.window)]
        if summary.jobs:
            drawings += [
                completion(summary),
                rounds(history, summary.jobs),
                learning(learned, targets(summary.expectations, learned), summary.jobs),
                churn(history, summary.jobs, fleets, _injected(record)),
                waiting(summary),
            ]
        return {drawing.name: save(drawing, record.folder / folder) for drawing in drawings if drawing is not None}


def _injected(record: RunRecord) -> list[tuple[str, float]]:
    """The target and the engine time of each action of the timeline."""
    return [(text(row, "target"), record.journal.engine_time(number(row, "at"))) for row in record.churn]


def draw_outcome_report(record: SimulatedRecord, found: Summary, *, page: str, figures: str) -> None:
    """Write the files of these names into the run's folder. Raises PeerError if the disk is full."""
    with styled():
        drawings = [attempts_over_time(record.attempts)] if len(record.attempts.job) else []
        drawings += [completed(found)] if found.jobs else []
        drawings += [completion(found)] if 0 < len(found.jobs) <= MOST_BARS else []
        drawn = {drawing.name: save(drawing, record.folder / figures) for drawing in drawings}
    write_atomic(record.folder / page, _outcome_page(record, found, drawn).encode())


def _outcome_page(record: SimulatedRecord, summary: Summary, figures: dict[str, str]) -> str:
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
