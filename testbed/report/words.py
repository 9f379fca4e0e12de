"""Figures in words, the same in every table and on every page: the form of numbers, and sentences of a summary."""

import math
import re
from collections.abc import Sequence

from testbed.runfolder.summary import EVERY_EVENT, Injected, Simulated, Summary
from venn.wire.notation import format_bytes
from venn.wire.text import printable

_MOST_NAMED = 8
_MEMORY = re.compile(r"(\bmemory (?:<|<=|=|!=|>=|>) )(\d+)\b")
_FILE = re.compile(r"^.*/(?=[^/]+\.py:)")


def seconds(value: float | None, digits: int = 1) -> str:
    """Seconds as ``12.3``; ``-`` for none. A rounding error below 0 is 0."""
    return "-" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def with_units(requirement: str) -> str:
    """The text of a requirement with its memory as in a scenario file: ``memory >= 4 GB``."""
    return _MEMORY.sub(lambda found: f"{found[1]}{format_bytes(int(found[2]))}", requirement)


def some(what: str, names: Sequence[str]) -> str:
    """``the jobs a, b and c``, ``the devices a, b, ... (104)``: the first few, printable."""
    shown = ", ".join(printable(name) for name in names[:_MOST_NAMED])
    more = f", ... ({len(names)})" if len(names) > _MOST_NAMED else ""
    return f"the {what}s {shown}{more}" if names else f"no {what}"


def span(value: float) -> str:
    """A time as ``47 s``, ``1 min 28 s``, ``2 h 5 min``."""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def duration(value: float) -> str:
    """A time as ``84.4 s``; from ten minutes on as ``span``."""
    return span(value) if value >= 600 else f"{seconds(value)} s"


def clock(value: float) -> str:
    """A time as ``00:47``; hours only where there are any."""
    whole = max(0, int(value))
    hours = f"{whole // 3600}:" if whole >= 3600 else ""
    return f"{hours}{whole % 3600 // 60:02d}:{whole % 60:02d}"


def metric(value: float | None) -> str:
    """A metric as ``0.931``; ``-`` for none."""
    if value is None or not math.isfinite(value):
        return "-"
    if value == round(value) and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def percent(fraction: float | None) -> str:
    """A fraction as ``77 %``; ``-`` for none. A rounding error below 0 is 0."""
    return "-" if fraction is None else f"{round(fraction * 100)} %"


def gib(count: float | None) -> str:
    """Bytes as ``2.1`` GiB, without the unit."""
    return "-" if count is None else f"{count / 2**30:.1f}"


def counted(number: int, thing: str, many: str = "") -> str:
    """A count with its noun: ``1 device``, ``104 devices``."""
    return f"{number} {thing if number == 1 else many or thing + 's'}"


def large(number: float) -> str:
    """A large number as ``950``, ``12,300``, ``12.3 M``."""
    return f"{number / 1e6:.1f} M" if number >= 1e6 else f"{number:,.0f}"


def policy(name: str) -> str:
    """The short name of a policy: ``FILE.py:NAME`` without the folders of the file; any other name as it is."""
    return _FILE.sub("", name)


def slug(policy: str) -> str:
    """A file's name for a policy, which may be FILE.py:NAME or have parameters."""
    plain = "".join(character if character.isalnum() or character in "-_." else "-" for character in policy)
    return plain.strip("-.")


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


def cut_line(summary: Summary) -> str:
    """A sentence of when the coordinator's journal is cut; empty: it is whole."""
    if summary.cut_at_s is None:
        return ""
    after = " Devices and drivers may have gone on: findings of the auditor may come from that."
    said = f"The coordinator did not stop cleanly: its journal is cut at {duration(summary.cut_at_s)}."
    return f"{said} The figures cover the time until then.{after if summary.audit.findings else ''}"


def lease_sum(summary: Summary) -> str:
    """The sum of leases: ``816 = 558 responses + 132 stragglers + ...``"""
    leases = summary.leases
    words = ["responses", "stragglers", "lost", "failed", "expired", "revoked"] + (["live"] if leases.live else [])
    return f"{leases.granted} = " + " + ".join(f"{getattr(leases, word)} {word}" for word in words)


def response_sum(summary: Summary) -> str:
    """The sum of responses: ``558 acknowledged = 547 in rounds + 11 in aborted attempts + 0 lost; 0 counted twice``"""
    pending = f" + {summary.responses_pending} in open attempts" if summary.responses_pending else ""
    return (
        f"{summary.responses_acknowledged} acknowledged = {summary.responses_in_rounds} in rounds + "
        f"{summary.responses_in_aborted} in aborted attempts{pending} + {summary.responses_lost} lost; "
        f"{summary.responses_counted_twice} counted twice"
    )


def session_sum(summary: Summary) -> str:
    """The sum of sessions: ``912 = 610 with a goodbye + 290 connection ended + ...; 121 ended in mid-task``"""
    ends = summary.sessions_by_end
    goodbye = sum(count for end, count in ends.items() if end.startswith("goodbye"))
    parts = [f"{goodbye} with a goodbye"]
    parts += [f"{count} {end.replace('_', ' ')}" for end, count in ends.items() if not end.startswith("goodbye")]
    if summary.devices_lost_in_task is None:
        return f"{summary.sessions}; a simulation without a journal has no details"
    killed = f", {counted(summary.processes_killed, 'process', 'processes')} killed" if summary.processes_killed else ""
    return f"{summary.sessions} = {' + '.join(parts)}; {summary.devices_lost_in_task} ended in mid-task{killed}"


def task_lines(summary: Summary) -> list[str]:
    """Task times: ``count on pis: 2.31 s measured, 2.40 s modelled, 0.58 s of the processor, held back 41 times``"""
    return [
        f"{each.job} on {each.fleet}: {each.measured_s:.2f} s measured, "
        + (f"{each.modelled_s:.2f} s modelled, " if each.modelled_s is not None else "")
        + f"{each.compute_cpu_s:.2f} s of the processor, held back {each.held_back:.0f} times "
        f"({counted(each.tasks, 'task')})"
        for each in summary.emulation.tasks
    ]


def simulated_line(simulated: Simulated) -> str:
    """How a simulation went: ``933 check-ins and 175 plans: 1 min 39 s of virtual time in 0.2 s``

    With ``, in bulk`` or ``, event by event`` and why, unless it had to be event by event for its journal.
    """
    how = ", in bulk" if simulated.path == "bulk" else f", event by event ({simulated.why})"
    return (
        f"{simulated.check_ins} check-ins and {simulated.plans} plans{'' if simulated.why == EVERY_EVENT else how}: "
        f"{span(simulated.virtual_s)} of virtual time in {seconds(simulated.wall_s)} s"
    )


def observed_words(one: Injected) -> str:
    """What was observed of an action: ``4 connection ended, 1 not there; within 0.2 s``"""
    if not one.observed:
        return "(no journal)"
    parts = [f"{count} {what.replace('_', ' ')}" for what, count in one.observed.items()]
    within = "" if one.slowest_s is None else f"; within {seconds(one.slowest_s)} s"
    return ", ".join(parts) + within
