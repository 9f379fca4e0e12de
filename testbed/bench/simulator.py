"""Check-ins per second of the simulator: the even workload at full size, in bulk against event by event.

The baseline is of the workload from its last job's arrival on, with all jobs there: BY_EVENTS check-ins, run in bulk as
well (``_crowded_``). Both paths must give the same digest. (From its beginning on it would measure idling: nothing is
leased before the first job comes, and that is after more check-ins than a baseline can have.)

Seconds are those of one core, without what the trace takes, which is a figure of its own; a first short run compiles.
The speeds that are read are those on the workload as it stands, until all jobs have ended; ``even_full_s`` is all that
this takes under venn, from the scenario on, with the trace. For the speed by length (``_at_``) jobs have so many rounds
that none ends, so that the trace can be as long as one likes; with the small jobs there all the time, plans are five
times as dense. Jobs arrive over the first 3 million check-ins or so: what comes before is faster, having fewer plans.

Memory is that of a process of its own, which simulates in bulk and does nothing else.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from resource import RUSAGE_SELF, getrusage

from coordinator.policies.registry import load_policy
from testbed.bench.figures import Measured, Say
from testbed.scenario import load
from testbed.scenario.packaged import packaged
from testbed.simulate.build import build
from testbed.simulate.compiled.bulk import simulate_in_bulk
from testbed.simulate.events.loop import simulate_events
from testbed.simulate.model import Outcome, Simulation
from testbed.world.arrays import CheckIns
from venn.wire.errors import VennError

WORKLOAD = "even"
MILLIONS = (1, 10, 100)  # check-ins
ROUNDS = 1000  # times as many, for jobs that do not end
BY_EVENTS = 30_000  # check-ins
_ALL = 10**12
POLICIES = {
    "venn_nomatch": "venn-nomatch",
    "venn": "venn",
    "venn_fair": "venn(fairness=1)",
    "venn_plus": "venn-plus",
}


@dataclass(slots=True)
class _Cut:
    """The first rows of a trace, and how long it took to make them."""

    whole: Callable[[], Iterator[CheckIns]]
    rows: int
    seconds: float = 0.0

    def __call__(self) -> Iterator[CheckIns]:
        blocks, left = self.whole(), self.rows
        while left > 0:
            started = time.process_time()
            block = next(blocks)
            self.seconds += time.process_time() - started
            yield block.take(slice(left))
            left -= len(block)


def _endless(scales: Sequence[str]) -> Simulation:
    """The workload with jobs that do not end."""
    made = build(load(packaged(WORKLOAD), scales))
    jobs = (
        replace(job, rounds=job.rounds * ROUNDS, spec=replace(job.spec, rounds=job.rounds * ROUNDS))
        for job in made.jobs
    )
    return replace(made, jobs=tuple(jobs))


def crowded(scales: Sequence[str]) -> Simulation:
    """The workload from its last job's arrival on, with all jobs arriving then."""
    made = build(load(packaged(WORKLOAD), scales))
    last = max(job.arrives_s for job in made.jobs)

    def trace() -> Iterator[CheckIns]:
        for block in made.trace():
            later = block.start_s >= last
            if later.any():
                yield block.take(later)

    return replace(made, jobs=tuple(replace(job, arrives_s=last) for job in made.jobs), trace=trace)


def event_figures(made: Simulation, say: Say) -> dict[str, float]:
    """Event by event, and the same check-ins in bulk. Raises VennError if the two do not decide alike."""
    figures: dict[str, float] = {}
    for name, policy in POLICIES.items():
        speed, outcome, _ = _timed(made, BY_EVENTS, _by_events(policy))
        in_bulk, same, _ = _timed(made, BY_EVENTS, _in_bulk(policy))
        if same.digest != outcome.digest:
            message = f"{policy} decides {outcome.digest} event by event, {same.digest} in bulk"
            raise VennError("BENCHMARK", message, fix="report it: the two paths are to decide alike")
        leases = sum(outcome.leases.values()) + outcome.live
        say(f"{policy}, event by event: {speed:,.0f} check-ins a second, {leases:,} leases")
        figures[f"{name}_checkins_per_s"] = speed
        figures[f"{name}_crowded_in_bulk_checkins_per_s"] = in_bulk
        figures[f"{name}_leases_per_checkin"] = leases / outcome.check_ins
        figures[f"{name}_checkins_per_plan"] = outcome.check_ins / outcome.plans
    return figures


def _timed(made: Simulation, rows: int, run: Callable[[Simulation], Outcome]) -> tuple[float, Outcome, _Cut]:
    """Check-ins per second."""
    cut = _Cut(made.trace, rows)
    started = time.process_time()
    outcome = run(replace(made, trace=cut))
    seconds = time.process_time() - started - cut.seconds
    return outcome.check_ins / seconds, outcome, cut


def _in_bulk(policy: str) -> Callable[[Simulation], Outcome]:
    return lambda made: simulate_in_bulk(made, load_policy(policy))


def _by_events(policy: str) -> Callable[[Simulation], Outcome]:
    return lambda made: simulate_events(made, load_policy(policy))


def bulk_figures(millions: Sequence[float], scales: Sequence[str], say: Say) -> dict[str, float]:
    """The figures that this process measures."""
    figures: dict[str, float] = {}
    say("making the trace, compiling")
    made = _endless(scales)
    for policy in POLICIES.values():
        _timed(made, 20_000, _in_bulk(policy))
    for size in millions:
        for name, policy in POLICIES.items():
            speed, outcome, cut = _timed(made, round(size * 1e6), _in_bulk(policy))
            say(f"{policy}, {size:g} million check-ins: {speed:,.0f} a second")
            figures[f"{name}_checkins_per_s_at_{size:g}m"] = speed
            figures[f"{name}_checkins_per_plan_at_{size:g}m"] = outcome.check_ins / outcome.plans
            figures["trace_rows_per_s"] = cut.rows / max(cut.seconds, 1e-9)
    figures["peak_mib"] = getrusage(RUSAGE_SELF).ru_maxrss / 1024
    for name, policy in POLICIES.items():
        say(f"{policy}: the whole workload, until all jobs have ended")
        started = time.process_time()
        whole = build(load(packaged(WORKLOAD), scales))
        figures[f"{name}_checkins_per_s"], outcome, _ = _timed(whole, _ALL, _in_bulk(policy))
        figures["even_full_s"] = time.process_time() - started
        figures["even_full_checkins"] = float(outcome.check_ins)
        figures["checkins_per_plan"] = outcome.check_ins / outcome.plans
    return figures


def _of_a_fresh_process(say: Say) -> dict[str, float]:
    with subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = list(process.stdout)
    if process.returncode or not lines:
        raise VennError("BENCHMARK", f"the process that simulates ended with {process.returncode}", fix="see above")
    figures: dict[str, float] = json.loads(lines[-1])
    return figures


def run(say: Say) -> Measured:
    """Measure; about four minutes."""
    figures = _of_a_fresh_process(say)
    say(f"baseline: event by event, {BY_EVENTS:,} check-ins")
    baseline = event_figures(crowded(()), say)
    speed = "venn_nomatch_checkins_per_s"
    return Measured("simulator", figures, baseline, figures[speed] / baseline[speed])


def main() -> None:
    """Print the figures as one line of JSON, progress on stderr: the part that runs in a process of its own."""
    figures = bulk_figures(MILLIONS, (), lambda text: print(text, file=sys.stderr, flush=True))  # noqa: T201 - progress
    print(json.dumps(figures))  # noqa: T201 - for the process that started this one


if __name__ == "__main__":
    main()
