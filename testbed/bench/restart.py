"""How soon a coordinator that was killed leases again, with 1,000 devices connected, and what work its death loses.

The coordinator, the driver and a swarm of real agents run a packaged job (``testbed.live``). A timeline kills the
coordinator again and again; it is started at once, and reads its journal. Measured is the time from each kill, as it
was written down by who killed it, to the next lease that the coordinator granted, as its journal has it. The baseline
is 5 s, and the ratio is this over the slowest.

Devices of this run never leave by themselves. So each lease that was lost or expired was lost to a kill.
"""

import statistics
from pathlib import Path

from testbed.bench.figures import Measured, Say, in_folder
from testbed.live.run import run_scenario
from testbed.report.chaos import account
from testbed.report.history import History, read_history
from testbed.report.record import RunRecord, load_run
from testbed.report.result import Result
from testbed.runfolder.jsonlines import number
from testbed.scenario.loader import parse
from testbed.scenario.model import Scenario
from testbed.scenario.packaged import packaged_folder
from testbed.world.chaos import Chaos
from venn.wire.errors import PeerError

DEVICES = 1_000
KILLS_AT_S = (30, 50, 70)
LASTS_S = 90
TARGET_S = 5.0
SCENARIO = """\
version: 1
name: restart
duration: 4m
data: {{digits: {{source: sklearn-digits, split: iid, held_out: 20%}}}}
jobs:
  one: {{file: labels.py, data: digits, demand: 40, over_commit: 20%, rounds: 15, deadline: 30s,
        workload: {{compute: 5s}}}}
fleets: {{phones: {{count: {devices}}}}}
churn: [{kills}]
"""


def run(say: Say) -> Measured:
    """Measure; about two minutes."""
    say(f"{DEVICES} devices, {len(KILLS_AT_S)} kills of the coordinator")
    return in_folder(_measure)


async def _measure(folder: Path) -> Measured:
    result = await run_scenario(scenario(DEVICES, KILLS_AT_S), out=folder / "run", quiet=True)
    return measured(result, load_run(result.folder.root))


def scenario(devices: int, kills_at_s: tuple[int, ...]) -> Scenario:
    """One job on devices that never leave, and a timeline that kills the coordinator."""
    kills = ", ".join(f"{{at: {at}s, crash: coordinator}}" for at in kills_at_s)
    return parse(SCENARIO.format(devices=devices, kills=kills), source="restart", folder=packaged_folder())


def measured(result: Result, record: RunRecord) -> Measured:
    """The figures of a run that is over. Raises PeerError if it did not go as the benchmark needs it."""
    summary, kills = result.summary, len(KILLS_AT_S)
    found = account(record, summary, Chaos(LASTS_S, kills, 0, 0, 0))
    broken = [f"{each.what}: {each.got}" for each in found.figures if not each.held]
    if broken or len(found.first_lease_s) < kills:
        raise PeerError("RUN_FAILED", "; ".join(broken) or "a kill was followed by no lease", where="restart")
    slowest = max(found.first_lease_s)
    figures = {
        "first_lease_after_kill_max_s": slowest,
        "first_lease_after_kill_median_s": statistics.median(found.first_lease_s),
        "devices_connected_least": float(_connected(record, read_history(record.journal))),
        "leases_lost": float(summary.leases.lost + summary.leases.expired),
        "responses_lost": float(summary.responses_lost),
        "kills": float(kills),
    }
    baseline = {"first_lease_after_kill_max_s": TARGET_S, "devices_connected_least": float(DEVICES)}
    return Measured("restart", figures, baseline, TARGET_S / slowest, saturated=summary.host.reasons)


def _connected(record: RunRecord, history: History) -> int:
    """The number of devices in a session when the coordinator was killed; the least of all kills."""
    kills = [record.journal.engine_time(number(row, "at")) for row in record.churn]
    sessions = history.sessions.values()
    return min(
        sum(each.started_at <= at and (each.ended_at is None or each.ended_at >= at) for each in sessions)
        for at in kills
    )
