"""What it costs that a coordinator can be trusted: its journal on the disk before anything leaves, encryption, and its
restart.

``durable_over_not`` is full device cycles per second with ``--durability turn`` over those with ``off``, and
``tls_over_plain`` those over TLS, with ``off``, over the same in clear. The three coordinators run beside each other
and work in turn. The restart is timed on the journal that the first one has left: with its newest snapshot, and from
the first event on.
"""

import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path

from coordinator.service.policy import policy_of
from coordinator.service.restore import restore
from coordinator.service.segments import snapshot_path, snapshots
from testbed.bench.coordinator import Counter, cycling
from testbed.bench.figures import Measured, Say, in_folder, parts
from venn.wire.authority import make_authority
from venn.wire.keys import ensure_keys
from venn.wire.trust import kept_trust

REPETITIONS = 16  # short ones, so that what else the machine does is the same for both
CYCLES = 3_000  # per repetition


async def _measured(folder: Path, say: Say) -> Measured:
    durable, without, encrypted = folder / "durable", folder / "off", folder / "tls"
    for place in (durable, without, encrypted):
        place.mkdir()
    make_authority(encrypted / "keys")
    flags = ("--keep-journal", "all", "--durability")
    seconds: list[tuple[float, ...]] = []
    async with AsyncExitStack() as stack:
        counters: list[Counter] = []
        for place, durability in ((durable, "turn"), (without, "off"), (encrypted, "off")):
            running = await stack.enter_async_context(parts(place, *flags, durability))
            made = cycling(running.address, ensure_keys(running.keys), kept_trust(running.keys))
            counters.append(await stack.enter_async_context(made))
        for repetition in range(REPETITIONS):
            took = tuple([(await counter.until(CYCLES))[0] for counter in counters])
            seconds.append(took)
            turn, off, tls = (f"{CYCLES / each:,.0f}/s" for each in took)
            say(f"{repetition + 1} of {REPETITIONS}: cycles durable {turn}, without {off}, with TLS {tls}")
    restart_s, anew_s, events = _restarts(durable)
    say(f"restart after {events:,} events: {restart_s:.2f} s, without a snapshot {anew_s:.2f} s")
    ratio = statistics.median(off / turn for turn, off, _ in seconds)
    off_per_s = CYCLES / statistics.median(off for _, off, _ in seconds)
    return Measured(
        name="trust",
        figures={
            "durable_over_not": ratio,
            "durable_cycles_per_s": CYCLES / statistics.median(turn for turn, _, _ in seconds),
            "tls_over_plain": statistics.median(off / tls for _, off, tls in seconds),
            "tls_cycles_per_s": CYCLES / statistics.median(tls for _, _, tls in seconds),
            "restart_events": events,
            "restart_s": restart_s,
        },
        baseline={"durable_cycles_per_s": off_per_s, "tls_cycles_per_s": off_per_s, "restart_s": anew_s},
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
    """Measure; about three minutes."""
    return in_folder(lambda folder: _measured(folder, say))
