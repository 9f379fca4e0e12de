"""Random small worlds whose programs are killed and stand still, and whose devices get out of reach: the invariants
hold, and no response is lost."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.engine.model import LeaseEnd
from coordinator.engine.model import Outcome as Decided
from coordinator.policies.registry import load_policy
from testbed.report.audit import audit
from testbed.report.history import read_history
from testbed.report.record import load_run
from testbed.runfolder.paths import RunFolder
from testbed.simulate.build import simulated_settings
from testbed.simulate.model import Break, Cut, Outcome, Simulation
from testbed.simulate.run import simulate
from testbed.simulate.run.recorded import KeptJournal, keep_unheard
from tests.simulation.test_random_worlds import POLICIES, chooser, random_world

OUT_OF_REACH = (Cut.DISCONNECT, Cut.SUSPEND, Cut.PARTITION)


def broken_world(seed: int) -> Simulation:
    """In whole seconds, as everything else there: that a program dies with something else is the rule."""
    made, pick = random_world(seed), chooser(seed + 1)
    whom = (None, *(job.spec.job for job in made.jobs))
    breaks = []
    for _ in range(1 + pick(7)):
        at, lasts, still = float(pick(60)), float(pick(3) * pick(20)), not pick(3)
        breaks.append(Break(at, at + (lasts or float(still)), whom[pick(2) and pick(len(whom))], stands_still=still))
    ends = [
        (device, end)
        for block in made.trace()
        for device, end in zip(block.device.tolist(), block.end_s.tolist(), strict=True)
    ]
    cuts = {one: OUT_OF_REACH[pick(3)] for one in ends if not pick(3)}
    return replace(
        made,
        settings=simulated_settings(seed, "test", silent=bool(cuts)),
        breaks=tuple(sorted(breaks, key=lambda one: one.at_s)) if pick(4) else (),
        cuts=cuts if pick(3) else {},
    )


def kept(made: Simulation, policy: str, root: Path) -> Outcome:
    """As ``venn run --backend sim`` keeps it."""
    folder = RunFolder(root)
    journal = KeptJournal(folder, made.settings, "random")
    outcome = simulate(made, load_policy(policy), journal=journal.hear, validate=True)
    journal.close(killed=outcome.killed)
    keep_unheard(folder, outcome)
    folder.manifest.write_text(json.dumps({"name": "random"}))
    return outcome


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from(POLICIES))
@example(416, "fifo")  # a driver dies while the coordinator stands still, which has its last word yet to hear
def test_nothing_is_lost_and_nothing_counts_twice(seed: int, policy: str) -> None:
    made = broken_world(seed)
    with TemporaryDirectory() as folder:
        outcome = kept(made, policy, Path(folder))
        record = load_run(Path(folder))
    found = audit(record, simulated=True)
    assert found.findings == ()
    assert found.lost == found.counted_twice == 0
    unheard = sum(one.outcome is Decided.COUNTED for one in outcome.unheard)
    assert found.responses == outcome.leases[LeaseEnd.COUNTED] + unheard
    assert found.leases.granted == sum(outcome.leases.values()) + outcome.live
    assert record.journal.digest in ("", outcome.digest)
    told = [
        (one.round, one.attempt, one.ended_at, one.status.value == "closed", one.responses)
        for job in read_history(record.journal).jobs.values()
        for one in job.attempts
        if one.ended_at is not None
    ]
    attempts = outcome.attempts
    columns = (attempts.round, attempts.attempt, attempts.ended_s, attempts.closed, attempts.counted)
    assert sorted(told) == sorted(zip(*(column.tolist() for column in columns), strict=True))
    assert simulate(made, load_policy(policy)).digest == outcome.digest
