"""What lies on disk before anything starts, and where."""

import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from device_agent.spec import Absence, AbsenceKind, read_population
from testbed.live.backend.prepare import SWARM, prepare
from testbed.runfolder.paths import RunFolder
from testbed.scenario import Scenario
from testbed.scenario.backends import OUTSIDE, BackendSpec
from testbed.simulate.build import device_specs
from testbed.world.timeline import Entry, Verb
from venn.wire.errors import UsageError
from venn.wire.requirements import parse_selector

NOW = datetime(2026, 5, 12, 14, 3, 11)


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_devices_are_dealt_to_their_hosts(scenario: Scenario, folder: RunFolder) -> None:
    made = prepare(scenario, folder)
    assert [(host.name, host.single, len(host.devices)) for host in made.hosts] == [
        (SWARM, False, 5),
        ("bench-01", True, 1),
        ("bench-02", True, 1),
    ]
    assert [row["device"] for row in rows(folder.population)] == [device.device for device in made.devices]
    assert [row["process"] for row in rows(made.hosts[1].population)] == ["bench-01"]
    assert {row["session"] for row in rows(folder.population)} == {"4s"}  # 8 s x 0.5


def test_data_is_split_over_all_devices_and_held_out(scenario: Scenario, folder: RunFolder) -> None:
    made = prepare(scenario, folder)
    shares = [np.load(device.data["marks"]) for device in made.devices]
    held_out = np.load(made.held_out["marks"])
    assert all(len(share["y"]) for share in shares)
    assert sum(len(share["y"]) for share in shares) + len(held_out["y"]) == 60
    assert len(held_out["y"]) == 12


def test_the_same_seed_prepares_the_same(scenario: Scenario, tmp_path: Path) -> None:
    told = []
    for name in ("one", "two"):
        folder = RunFolder(tmp_path / name)
        prepare(scenario, folder)
        told.append(folder.population.read_text().replace(str(folder.root), ""))
    assert told[0] == told[1]


def test_data_that_cannot_be_read_is_named_by_its_key(scenario: Scenario, folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "marks.npz").write_bytes(b"nothing")
    with pytest.raises(UsageError) as caught:
        prepare(scenario, folder)
    assert caught.value.where.startswith("data.marks")


def test_a_run_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = RunFolder.create(None, name="small", policy="venn", now=NOW)
    assert made.root == tmp_path / "runs" / "2026-05-12-140311-small-venn"
    assert made.root.is_dir()
    assert RunFolder.create(Path("empty"), name="small", policy="venn", now=NOW).root == tmp_path / "empty"


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    (tmp_path / "file").touch()
    for place, reason in (("full", "NOT_EMPTY"), ("file", "NOT_EMPTY"), ("file/below", "NO_FOLDER")):
        with pytest.raises(UsageError) as caught:
            RunFolder.create(tmp_path / place, name="small", policy="venn", now=NOW)
        assert caught.value.reason == reason


def test_keys_do_not_stay(folder: RunFolder) -> None:
    folder.keys.mkdir()
    (folder.keys / "admin").write_text("00")
    folder.forget_keys()
    folder.forget_keys()
    assert not folder.keys.exists()


def test_a_process_of_its_own_is_really_suspended_and_a_device_of_a_swarm_plays_it(
    scenario: Scenario, folder: RunFolder
) -> None:
    entry = Entry(Verb.SUSPEND, parse_selector("all"), 2.0, for_s=3.0)
    made = prepare(scenario.model_copy(update={"churn": (entry,)}), folder)
    absences = {device.device: device.absences for device in made.devices}
    hit = {action.target for action in made.timeline}
    assert absences["bench-01"] == ()
    assert hit >= {device for device, gone in absences.items() if gone}
    assert any(device.startswith("phones") for device in hit)
    for device, gone in absences.items():
        if device in hit and device.startswith("phones"):
            assert gone == (Absence(1.0, 2.5, AbsenceKind.SUSPEND),)  # the time scale is a half
    [row] = [row for row in rows(folder.population) if row["device"] == "bench-01"]
    assert row["absences"] == []


@pytest.mark.parametrize("verb", [Verb.SUSPEND, Verb.DISCONNECT, Verb.PARTITION])
@pytest.mark.parametrize("outside", [True, False])
def test_a_verb_is_done_by_the_backend_or_played_by_the_device(
    scenario: Scenario, folder: RunFolder, monkeypatch: pytest.MonkeyPatch, verb: Verb, outside: bool
) -> None:
    """No fleet has a limited link: that is of no account to a backend that names no ``outside_of``."""
    spec = BackendSpec(name="process", outside=frozenset({verb} if outside else OUTSIDE - {verb}))
    monkeypatch.setattr(Scenario, "backend_spec", spec)
    bench = scenario.fleets["bench"].model_copy(update={"session": None, "gap": None})
    entry = Entry(verb, parse_selector("all"), 2.0, for_s=3.0)
    made = prepare(scenario.model_copy(update={"churn": (entry,), "fleets": {"bench": bench}}), folder)
    for device in made.devices:
        assert device.absences == (() if outside else (Absence(1.0, 2.5, AbsenceKind(verb)),))
        assert (verb in made.carried[device.device]) is outside


def test_what_is_done_as_well_is_played_too(
    scenario: Scenario, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = BackendSpec(name="process", as_well=frozenset({Verb.PARTITION}))
    monkeypatch.setattr(Scenario, "backend_spec", spec)
    entry = Entry(Verb.PARTITION, parse_selector("all"), 2.0, for_s=3.0)
    made = prepare(scenario.model_copy(update={"churn": (entry,)}), folder)
    assert {device.absences for device in made.devices} == {(Absence(1.0, 2.5, AbsenceKind.PARTITION),)}
    assert set(made.carried.values()) == {frozenset((Verb.PARTITION, Verb.LIMIT))}


@pytest.mark.parametrize("limit", ["", "up"])
def test_the_links_of_processes_are_cut_only_where_they_have_a_relay(
    scenario: Scenario, folder: RunFolder, limit: str
) -> None:
    fleets = {name: each.model_copy(update={"up": 1e6} if limit else {}) for name, each in scenario.fleets.items()}
    entry = Entry(Verb.DISCONNECT, parse_selector("all"), 2.0, for_s=3.0)
    made = prepare(scenario.model_copy(update={"churn": (entry,), "fleets": fleets}), folder)
    assert {bool(device.absences) for device in made.devices} == {not limit}
    assert {Verb.DISCONNECT in verbs for verbs in made.carried.values()} == {bool(limit)}


def test_devices_of_a_trace_are_there_as_it_says_live_and_simulated(
    scenario: Scenario, folder: RunFolder, tmp_path: Path
) -> None:
    """What an agent reads from its population file is what the simulator has."""
    rows_of = [
        "device,start_s,end_s",
        "phones-01,-4,10",
        *(f"phones-{number:02},{number},20" for number in range(2, 6)),
    ]
    (tmp_path / "trace.csv").write_text("\n".join([*rows_of, "phones-01,12,30"]) + "\n")
    phones = scenario.fleets["phones"].model_copy(
        update={"trace": tmp_path / "trace.csv", "session": None, "gap": None}
    )
    traced = scenario.model_copy(update={"fleets": {**scenario.fleets, "phones": phones}})
    prepare(traced, folder)
    [agent] = read_population(folder.population, only="phones-01")
    live = [(each.start_s, each.end_s) for each in agent.intervals()]
    assert live == [(0.0, 5.0), (6.0, 15.0)]  # the time scale is a half
    [simulated] = [device for device in device_specs(traced) if device.device == "phones-01"]
    assert [(each.start_s, each.end_s) for each in simulated.intervals()] == live
