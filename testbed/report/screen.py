"""The live view: a snapshot of the coordinator as one screen. Pure: the same input, the same screen, at any width.

Below 80 columns the sparkline goes first, then the host's line. What does not fit the height is left out from the log
first, then from the regions; the sums and the jobs stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, assert_never

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.report.host import BUSY_FRACTION
from testbed.report.words import clock, counted, gib, metric, percent
from venn.v1.admin_pb2 import DeviceStatus, LogEntry, RegionStatus, Snapshot
from venn.v1.job_pb2 import JobPhase, JobStatus
from venn.wire.process import STALL_S
from venn.wire.text import printable

NARROW = 80  # columns: below it the sparkline goes
VERY_NARROW = 64  # then the host's line
MOST_REGIONS = 6
MOST_WARNINGS = 2
STILL_S = 10.0  # nothing moved for so long: say what is waited for
SPARKS = "▁▂▃▄▅▆▇█"
LEAST_LINES = 7  # the headline, the jobs' header and fold, two rules, the keys, one to spare
BLOCKS = " ▏▎▍▌▋▊▉"
METRIC = "accuracy"
RULE = "bright_black"
KEYS = (("d", "devices"), ("j", "jobs"), ("l", "log"), ("w", "why"), ("q", "stop"))

PHASES = {
    JobPhase.JOB_PHASE_ARRIVING: "arriving",
    JobPhase.JOB_PHASE_FILLING: "filling",
    JobPhase.JOB_PHASE_COLLECTING: "collecting",
    JobPhase.JOB_PHASE_AGGREGATING: "aggregating",
    JobPhase.JOB_PHASE_PAUSED: "paused",
    JobPhase.JOB_PHASE_FINISHED: "finished",
    JobPhase.JOB_PHASE_CANCELLED: "cancelled",
    JobPhase.JOB_PHASE_FAILED: "failed",
}
STYLES = {"finished": "green", "failed": "bold red", "cancelled": "red", "paused": "yellow"}
OVER = {"finished", "failed", "cancelled"}


class Panel(Enum):
    """The panel in the lower part of the screen."""

    JOBS = "j"
    DEVICES = "d"
    LOG = "l"
    WHY = "w"


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts of a screen that are not in the snapshot."""

    panel: Panel = Panel.JOBS
    backend: str = ""
    limit_s: float | None = None  # the run is given up after this
    still_s: float = 0.0  # since anything moved
    warnings: tuple[str, ...] = ()
    devices: Sequence[DeviceStatus] = ()  # of the devices panel
    stop: str = "stop"  # what q does
    keys: bool = True  # it is a screen that listens to keys


JUST_SO = Frame()


class _Form(NamedTuple):
    """How much of the jobs' table there is room for."""

    bar: int  # columns of the bar of leased places
    requirement: bool
    curve: int  # rounds in the sparkline; 1: none, only the last value; 0: not even that


class _Column(NamedTuple):
    justify: JustifyMethod
    cells: list[Text]  # the title first


FORMS = (
    _Form(10, True, 10),
    _Form(10, True, 5),
    _Form(0, True, 10),
    _Form(0, False, 10),
    _Form(0, False, 5),
    _Form(0, True, 1),
    _Form(0, False, 1),
    _Form(0, False, 0),
)


def render(snapshot: Snapshot, width: int, height: int, now: float, frame: Frame = JUST_SO) -> RenderableType:
    """Draws one screen of at most ``height`` lines. ``now`` is seconds since the coordinator started."""
    keys = [_keys(frame, width)] if frame.keys else []
    foot: list[RenderableType] = [*_leases(snapshot, width)]
    foot += [_host(snapshot, width)] if width >= VERY_NARROW else []
    foot += [_line(warning, width, "bold red") for warning in _latest(frame.warnings)]
    jobs, folded = _foremost(snapshot.jobs, height - LEAST_LINES - len(foot))
    head: list[RenderableType] = [_headline(snapshot, width, now, frame), _rule(width), _jobs(jobs, width)]
    folded += snapshot.more_jobs
    head += [_line(f"and {folded} more", width, RULE)] if folded else []
    room = max(0, height - (len(head) + len(jobs) + len(foot) + len(keys) + 2))
    body = _body(snapshot, width, room, frame)
    tail = _tail(snapshot, width, room - len(body), frame)
    return Group(*head, _rule(width), *body, *([_rule(width)] if body else []), *foot, *tail, *keys)


def plain_lines(snapshot: Snapshot) -> list[str]:
    """One line per job, for where there is no terminal."""
    elapsed = clock(snapshot.elapsed.ToTimedelta().total_seconds())
    return [f"{elapsed} {_plain_job(job)}" for job in snapshot.jobs] or [f"{elapsed} no job has arrived"]


def movement(snapshot: Snapshot) -> tuple[int, ...]:
    """Numbers that change whenever anything moves."""
    jobs = [number for job in snapshot.jobs for number in (job.phase, job.round, job.leased, job.responses, job.aborts)]
    leases = snapshot.leases
    return (leases.granted, leases.live, leases.responses, leases.stragglers, *jobs)


def why_lines(jobs: Sequence[JobStatus]) -> list[str]:
    """What each job waits for, or that it does not."""
    return [
        f"{_name(job)} waits: {printable(job.waits)}" if job.waits else f"{_name(job)} does not wait" for job in jobs
    ]


def _latest(warnings: Sequence[str]) -> list[str]:
    """The last few, and how many came before."""
    earlier = len(warnings) - MOST_WARNINGS
    return [*([f"{counted(earlier, 'earlier warning')}"] if earlier > 0 else []), *warnings[-MOST_WARNINGS:]]


def _headline(snapshot: Snapshot, width: int, now: float, frame: Frame) -> Text:
    left = Text(" ")
    left.append(printable(snapshot.name) or "venn", style="bold")
    facts = [f"policy {snapshot.policy}", f"seed {snapshot.seed}"] + (
        [f"backend {frame.backend}"] if frame.backend else []
    )
    left.append("   " + "   ".join(facts))
    limit = f" / {clock(frame.limit_s)} at most" if frame.limit_s else ""
    right = f"{clock(now)}{limit}"
    left.truncate(max(1, width - len(right) - 1), overflow="ellipsis")
    left.append(" " * max(1, width - left.cell_len - len(right)) + right)
    return _fitted(left, width)


def _jobs(jobs: Sequence[JobStatus], width: int) -> Table:
    """The table of jobs in the widest form that fits; below 80 columns without the sparkline in any case."""
    forms = FORMS if width >= NARROW else FORMS[-3:]
    columns = next(
        (found for form in forms if _width(found := _columns(jobs, form)) <= width), _columns(jobs, forms[-1])
    )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for column in columns:
        table.add_column(justify=column.justify, no_wrap=True)
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    return table


def _foremost(jobs: Sequence[JobStatus], room: int) -> tuple[list[JobStatus], int]:
    """The jobs that fit, those that are over left out first; and how many were left out."""
    room = max(1, room)
    if len(jobs) <= room:
        return list(jobs), 0
    by_need = sorted(range(len(jobs)), key=lambda index: (PHASES.get(jobs[index].phase) in OVER, index))
    return [jobs[index] for index in sorted(by_need[:room])], len(jobs) - room


def _columns(jobs: Sequence[JobStatus], form: _Form) -> list[_Column]:
    states = [PHASES.get(job.phase, "-") for job in jobs]
    going = [state not in OVER for state in states]
    leased = [_bar(job, form.bar) if on else Text() for job, on in zip(jobs, going, strict=True)]
    responses = [
        f"{job.responses} of {job.responses_needed:>2}" if on else "" for job, on in zip(jobs, going, strict=True)
    ]
    columns = [_column(" JOB", [f" {_name(job)}" for job in jobs])]
    if form.requirement:
        columns.append(_column("REQUIREMENT", [printable(job.requirement, 24) for job in jobs]))
    columns.append(_column("STATE", [Text(state, style=STYLES.get(state, "")) for state in states]))
    columns.append(_column("ROUND", [_round(job) for job in jobs], "right"))
    columns.append(_column("LEASED", leased))
    columns.append(_column("RESPONSES", responses, "right"))
    columns.append(_column("ABORTS", [str(job.aborts) for job in jobs], "right"))
    if form.curve:
        columns.append(_column("ACCURACY", [_curve(job, form.curve) for job in jobs]))
    return columns


def _column(title: str, cells: Sequence[Text | str], justify: JustifyMethod = "left") -> _Column:
    texts = [cell if isinstance(cell, Text) else Text(cell) for cell in cells]
    return _Column(justify, [Text(title, style="bold"), *texts])


def _width(columns: Sequence[_Column]) -> int:
    return sum(max(cell.cell_len for cell in column.cells) for column in columns) + 2 * (len(columns) - 1)


def _bar(job: JobStatus, blocks: int) -> Text:
    numbers = f"{job.leased:>2}/{job.places}"
    if not blocks or job.places == 0:
        return Text(numbers)
    eighths = min(blocks * 8, round(blocks * 8 * job.leased / job.places))
    bar = "█" * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")
    text = Text(f"{bar:<{blocks}}", style="cyan")
    text.append(f"  {numbers}", style="default")
    return text


def _curve(job: JobStatus, rounds: int) -> Text:
    """The last value, and a sparkline of the latest ``rounds``."""
    values = [one.metrics[METRIC] for one in job.history if METRIC in one.metrics]
    if not values:
        return Text("-")
    shown = values[-rounds:]
    low = min(shown)
    span = (max(shown) - low) or 1.0
    sparks = "".join(SPARKS[round((value - low) / span * (len(SPARKS) - 1))] for value in shown)
    text = Text(metric(values[-1]))
    text.append(f" {sparks}" if rounds > 1 and len(values) > 1 else "", style="cyan")
    return text


def _body(snapshot: Snapshot, width: int, room: int, frame: Frame) -> list[RenderableType]:
    """The panel, at most ``room`` lines, each an item."""
    match frame.panel:
        case Panel.DEVICES:
            return [_device_line(device, width) for device in frame.devices[:room]]
        case Panel.LOG:
            return [_log_line(entry, width) for entry in snapshot.log[:room]]
        case Panel.WHY:
            return [_line(line, width) for line in why_lines(snapshot.jobs)[:room]]
        case Panel.JOBS:
            return _regions(snapshot, width, room)
        case _:
            assert_never(frame.panel)


def _regions(snapshot: Snapshot, width: int, room: int) -> list[RenderableType]:
    counts = snapshot.devices
    sums = f"DEVICES {counts.known:>4}   waiting {counts.waiting}   busy {counts.busy}"
    lines: list[RenderableType] = [_line(f"{sums}   served this session {counts.served}   gone {counts.gone}", width)]
    most = min(MOST_REGIONS, max(0, room - 3))
    shown = snapshot.regions[:most]
    if not shown:
        return lines[:room]
    names = [_region_name(region) for region in shown]
    column = min(max(len("REGION"), *map(len, names)), max(12, width - 52))
    lines.append(
        _line(f"{'REGION':<{column}}  DEVICES  CHECK-INS  WAITING  THE PLAN: WHO GETS THE NEXT ONE", width, "bold")
    )
    for name, region in zip(names, shown, strict=True):
        order = " > ".join(printable(job) for job in region.order) or "-"
        figures = f"{region.devices:>7}  {region.check_ins_per_s:>7.1f}/s  {region.waiting:>7}"
        shown_name = name if len(name) <= column else f"{name[: column - 1]}…"
        lines.append(_line(f"{shown_name:<{column}}  {figures}  {order}", width))
    if more := len(snapshot.regions) - len(shown) + snapshot.more_regions:
        lines.append(_line(f"and {more} more", width, RULE))
    return lines


def _tail(snapshot: Snapshot, width: int, room: int, frame: Frame) -> list[RenderableType]:
    """The latest events, what is waited for, and a blank line above the keys, in what room is left."""
    waits = next((job for job in snapshot.jobs if job.waits and PHASES.get(job.phase) not in OVER), None)
    ending: list[RenderableType] = []
    if frame.still_s >= STILL_S:
        whom = f"{_name(waits)}: {printable(waits.waits)}" if waits else "an unknown reason"
        ending.append(_line(f"nothing has moved for {frame.still_s:.0f} s; waiting for {whom}", width, "yellow"))
    elif waits is not None and frame.panel is not Panel.WHY:
        ending.append(_line(f"{_name(waits)} waits: {printable(waits.waits)}", width))
    entries = 0 if frame.panel is Panel.LOG else min(3, room - len(ending) - 1)
    log = [_log_line(entry, width) for entry in snapshot.log[: max(0, entries)]]
    lines: list[RenderableType] = [*([_rule(width)] if log else []), *log, *ending]
    return lines[: max(0, room)]


def _leases(snapshot: Snapshot, width: int) -> list[RenderableType]:
    """A sum, never cut: on two lines if one is too short."""
    leases = snapshot.leases
    words = ("responses", "stragglers", "lost", "failed", "expired", "revoked", "live")
    lines = [f"LEASES  {leases.granted} ="]
    for index, word in enumerate(words):
        part = f"{'+ ' if index else ''}{getattr(leases, word)} {word}"
        if len(lines[-1]) + len(part) + 2 > width:
            lines.append(" " * 7)
        lines[-1] += f" {part}"
    return [_line(line, width) for line in lines]


def _host(snapshot: Snapshot, width: int) -> Text:
    host = snapshot.host
    lag = host.loop_lag_p99.ToTimedelta().total_seconds()
    late = lag > STALL_S or host.cpu_fraction > BUSY_FRACTION
    text = Text(
        f" HOST    cpu {percent(host.cpu_fraction)}   "
        f"memory {gib(host.memory_used_bytes)} of {gib(host.memory_total_bytes)} GiB   "
        f"event loop late by {lag * 1000:.0f} ms   "
    )
    text.append("too busy" if late else "ok", style="bold red" if late else "green")
    return _fitted(text, width)


def _keys(frame: Frame, width: int) -> Text:
    text = Text(" ")
    for key, name in KEYS:
        shown = frame.stop if key == "q" else name
        text.append(key, style="bold")
        text.append(f" {shown}   ", style="reverse" if key == frame.panel.value and key != "j" else RULE)
    return _fitted(text, width)


def _device_line(device: DeviceStatus, width: int) -> Text:
    doing = f"for {printable(device.job)}" if device.job else printable(device.waits)
    return _line(
        f"{printable(device.device):<24} {printable(device.state):<8} {counted(device.tasks, 'task'):>8}   {doing}",
        width,
    )


def _log_line(entry: LogEntry, width: int) -> Text:
    at = clock(entry.at.ToTimedelta().total_seconds())
    return _line(f"{at}  {printable(entry.kind):<7} {printable(entry.text)}", width)


def _plain_job(job: JobStatus) -> str:
    state = PHASES.get(job.phase, "-")
    line = f"{_name(job)} {state} round {_round(job)}"
    if state not in OVER:
        line += f" leased {job.leased}/{job.places} responses {job.responses} of {job.responses_needed}"
    line += f" aborts {job.aborts}"
    values = [one.metrics[METRIC] for one in job.history if METRIC in one.metrics]
    return line + (f" {METRIC} {metric(values[-1])}" if values else "")


def _name(job: JobStatus) -> str:
    return printable(job.key.name, 32)


def _round(job: JobStatus) -> str:
    return f"{job.round}/{job.rounds}" if job.rounds else str(job.round)


def _region_name(region: RegionStatus) -> str:
    return printable(" ".join(region.groups), 48) or "(no job)"


def _rule(width: int) -> Text:
    return Text("─" * width, style=RULE)


def _line(said: str, width: int, style: str = "") -> Text:
    return _fitted(Text(f" {said}", style=style), width)


def _fitted(text: Text, width: int) -> Text:
    """The text in one line; a cut shows as …."""
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text
