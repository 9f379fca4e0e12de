"""``venn chaos run`` before anything runs: which timeline it makes, and what it refuses."""

from pathlib import Path

import pytest

from testbed.cli.chaos_run import in_chaos
from testbed.cli.main import main
from testbed.scenario import load, parse
from testbed.scenario.packaged import packaged
from testbed.world.chaos import Chaos

TEN_MINUTES = Chaos(600.0, 20, 20, 0, 500)


def refused(words: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> bool:
    assert main(["chaos", "run", "chaos", "--json", *words]) == 2
    return f'"{code}"' in capsys.readouterr().out


def test_the_packaged_scenario_takes_ten_minutes_of_faults() -> None:
    scenario = load(packaged("chaos"))
    assert (scenario.devices, len(scenario.jobs)) == (200, 4)
    whole = in_chaos(scenario, TEN_MINUTES)
    shares = [str(entry.of) for entry in whole.churn]
    assert shares.count("coordinator") >= 20
    assert whole == in_chaos(scenario, TEN_MINUTES)
    for name, job in scenario.jobs.items():  # a driver that has ended cannot be killed
        fastest = max(4.0, *(float(str(fleet.cpu)) for fleet in scenario.fleets.values()))
        assert (job.rounds or 0) * job.workload.compute / fastest >= 600, name


def test_what_a_run_wrote_down_is_the_same_timeline_again() -> None:
    whole = in_chaos(load(packaged("chaos")), TEN_MINUTES)
    assert parse(whole.dump(), source="scenario.yaml").churn == whole.churn


def test_the_entries_of_the_scenario_stay_and_the_seed_changes_those_of_chaos() -> None:
    own = ["churn=[{at: 1s, crash: 1 of bench}]"]
    scenario = load(packaged("chaos"), own)
    whole = in_chaos(scenario, TEN_MINUTES)
    assert whole.churn[:1] == scenario.churn
    assert whole.churn != in_chaos(load(packaged("chaos"), [*own, "seed=8"]), TEN_MINUTES).churn


def test_times_are_those_of_the_clock_whatever_the_time_scale() -> None:
    whole = in_chaos(load(packaged("chaos"), ["time_scale=0.5"]), TEN_MINUTES)
    last = max(entry.end_s for entry in whole.churn) * 0.5
    assert 540 < last <= 600


def test_what_cannot_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(["--duration", "30m"], "TOO_LONG", capsys)
    assert refused(["--duration", "1s"], "TOO_SHORT", capsys)
    assert refused(["--backend", "sim"], "SIMULATED", capsys)
    assert main(["chaos", "run", "chaos", "--driver-kills", "-1"]) == 2
    assert "--driver-kills" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
