"""What it costs that a coordinator can be trusted: its journal on the disk before anything leaves, and its restart.

``durable_over_not`` is full device cycles per second with ``--durability turn`` over those with ``off``, of two
coordinators that run beside each other and work in turn. The restart is timed on the journal that the first one has
left: with its newest snapshot, and from the first event on.
"""

import statistics
import time
from pathlib import Path

from coordinator.service.policy import policy_of
from coordinator.service.restore import restore
from coordinator.service.segments import snapshot_path, snapshots
from testbed.bench.coordinator import cycling
from testbed.bench.figures import Measured, Say, in_folder, parts
from venn.wire.keys import ensure_keys

REPETITIONS = 16  # short ones, so that what else the machine does is the same for both
CYCLES = 3_000  # per repetition


async def _measured(folder: Path, say: Say) -> Measured:
    durable, without = folder / "durable", folder / "off"
    for place in (durable, without):
        place.mkdir()
    flags = ("--keep-journal", "all", "--durability")
    async with parts(durable, *flags, "turn") as ours, parts(without, *flags, "off") as bare:
        counters = cycling(ours.address, ensure_keys(ours.keys)), cycling(bare.address, ensure_keys(bare.keys))
        async with counters[0] as our_counter, counters[1] as bare_counter:
            seconds: list[tuple[float, float]] = []
            for repetition in range(REPETITIONS):
                took = (await our_counter.until(CYCLES))[0], (await bare_counter.until(CYCLES))[0]
                seconds.append(took)
                rates = f"{CYCLES / took[0]:,.0f} cycles/s, without {CYCLES / took[1]:,.0f}/s"
                say(f"{repetition + 1} of {REPETITIONS}: durable {rates}")
    restart_s, anew_s, events = _restarts(durable)
    say(f"restart after {events:,} events: {restart_s:.2f} s, without a snapshot {anew_s:.2f} s")
    ratio = statistics.median(off / turn for turn, off in seconds)
    return Measured(
        name="trust",
        figures={
            "durable_over_not": ratio,
            "durable_cycles_per_s": CYCLES / statistics.median(turn for turn, _ in seconds),
            "restart_events": events,
            "restart_s": restart_s,
        },
        baseline={"durable_cycles_per_s": CYCLES / statistics.median(off for _, off in seconds), "restart_s": anew_s},
        ratio=ratio,
    )


def _restarts(folder: Path) -> tuple[float, float, int]:
    """Seconds until the state is there again, with the newest snapshot and without any; and the events in all."""
    times: list[float] = []
    events = 0
    for _ in range(2):
        began = time.perf_counter()
        restored = restore(folder, policy_of)
        times.append(time.perf_counter() - began)
        assert restored is not None
        events = restored.written.number
        for segment in snapshots(folder):
            snapshot_path(folder, segment).unlink()
    return times[0], times[1], events


def run(say: Say) -> Measured:
    """Measure; about two minutes."""
    return in_folder(lambda folder: _measured(folder, say))
