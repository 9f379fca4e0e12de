"""The figure of the machine: how busy it was, and how late the event loops of our processes were."""

from matplotlib.figure import Figure

from testbed.report.figures.drawing import COLLECT, JOBS, LOSS, QUIET, SMALLEST_PT, WIDTH_IN, Drawing, Hovers
from testbed.report.host import BUSY_FRACTION
from testbed.report.record import RunRecord
from testbed.report.words import seconds
from testbed.runfolder.jsonlines import number
from testbed.runfolder.summary import CLOCK
from venn.wire.process import STALL_S

MOST_PROCESSES = 6  # drawn by name, the latest ones; the CSV has all


def host(record: RunRecord, window: tuple[float, float]) -> Drawing | None:
    """Processor and event loops over time; None if neither was recorded."""
    if not record.host_samples and not record.loads:
        return None
    origin = record.journal.wall_ms / 1000
    figure = Figure(figsize=(WIDTH_IN, 2.3))
    left, right = figure.subplots(1, 2)
    cpu = [(number(row, "at") - origin, 100 * number(row, "cpu_fraction")) for row in record.host_samples]
    hovers = Hovers()
    if cpu:
        times, values = zip(*cpu, strict=True)
        left.plot(times, values, color=COLLECT, linewidth=1.2)
        hovers.points(left, times, values, [f"{seconds(at)} s: {value:.0f} % busy" for at, value in cpu])
    left.axhline(100 * BUSY_FRACTION, color=LOSS, linewidth=0.7, linestyle=(0, (3, 3)))
    left.set_ylim(0, 105)
    left.set_title("processor, % of all cores")
    rows: list[tuple[object, ...]] = [("cpu_percent", at, value) for at, value in cpu]
    lags = {
        name: [(number(row, "at") - origin, 1000 * number(row, "lag_p99_s")) for row in rows]
        for name, rows in record.loads.items()
    }
    worst = sorted(lags, key=lambda name: (-max(value for _, value in lags[name]), name))[:MOST_PROCESSES]
    for index, name in enumerate(worst):
        times, values = zip(*lags[name], strict=True)
        right.plot(times, values, color=JOBS[index % len(JOBS)], linewidth=1, label=name)
        hovers.points(right, times, values, [f"{name}, {seconds(at)} s: {value:.0f} ms" for at, value in lags[name]])
    right.axhline(1000 * STALL_S, color=LOSS, linewidth=0.7, linestyle=(0, (3, 3)))
    right.set_ylim(0, None)
    right.set_title("event loops late by, ms (p99 of 5 s)")
    for axes in (left, right):
        axes.set_xlim(window[0], max(window[1], window[0] + 1.0))
        axes.set_xlabel(CLOCK)
        axes.grid(axis="y")
    if worst:
        right.legend(fontsize=SMALLEST_PT, labelcolor=QUIET, loc="upper left", bbox_to_anchor=(1, 1), handlelength=1)
    figure.tight_layout()
    rows += [(f"lag_ms {name}", at, value) for name, points in lags.items() for at, value in points]
    return Drawing("host", "How busy the machine was", figure, ("series", "at_s", "value"), rows, hovers)
