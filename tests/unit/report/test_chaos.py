"""The account of a run in chaos: each thing that is broken is in its own row, and what was not done does not count."""

import json
from pathlib import Path

import pytest

from coordinator.engine import events as past
from coordinator.engine.requirements import AllDevices
from testbed.report.chaos import Account, account, account_table
from testbed.report.record import load_run
from testbed.report.summary import summarise
from testbed.world.chaos import Chaos
from tests.unit.report.test_audit import drop_sum, ineligible, leaked, lease_twice_in_sum, two_leases
from tests.unit.report.world import WALL_MS, World

NOTHING = Chaos(60.0, 0, 0, 0, 0)


def fault(verb: str, target: str, at: float, **more: object) -> dict[str, object]:
    return {"verb": verb, "target": target, "at_s": at, "until_s": None, "entry": 0, "at": WALL_MS / 1000 + at, **more}


def account_of(world: World, folder: Path, asked: Chaos, *faults: dict[str, object]) -> Account:
    place = world.write(folder)
    (place / "churn.jsonl").write_text("".join(json.dumps(each) + "\n" for each in faults))
    record = load_run(place)
    return account(record, summarise(record), asked)


def broken(found: Account) -> list[str]:
    return [each.key for each in found.figures if not each.held]


def test_a_clean_run_holds(world: World, tmp_path: Path) -> None:
    faults = [
        fault("crash", "coordinator", 5.5),
        fault("crash", "driver wide", 6.0),
        fault("crash", "a", 7.0),
        fault("suspend", "b", 8.0),
        fault("join", "b", 9.0),  # no loss
        fault("suspend", "driver wide", 9.0),  # no kill
    ]
    assert broken(account_of(world, tmp_path / "one", Chaos(60.0, 1, 1, 0, 2), *faults)) == []
    more = account_of(world, tmp_path / "two", Chaos(60.0, 2, 2, 0, 3), *faults)
    assert broken(more) == ["coordinator_kills", "driver_kills", "device_losses"]
    assert not more.held


def test_a_kill_that_found_nobody_is_none(world: World, tmp_path: Path) -> None:
    missed = fault("crash", "driver wide", 28.0, missed=True)
    assert broken(account_of(world, tmp_path / "run", Chaos(60.0, 0, 1, 0, 0), missed)) == ["driver_kills"]


@pytest.mark.parametrize(
    ("plant", "rows"),
    [
        (drop_sum, ["responses_lost", "other_findings"]),
        (lease_twice_in_sum, ["responses_counted_twice", "other_findings"]),
        (leaked, ["leases_leaked"]),
        (ineligible, ["leases_leaked", "ineligible_leases"]),
        (two_leases, ["leases_leaked", "other_findings"]),
    ],
)
def test_what_is_broken_has_its_row(world: World, tmp_path: Path, plant: object, rows: list[str]) -> None:
    assert callable(plant)
    plant(world)
    assert broken(account_of(world, tmp_path / "run", NOTHING)) == rows


def test_the_first_lease_is_one_of_the_coordinator_that_came_back(tmp_path: Path) -> None:
    world = World()
    world.device("a", cpu=2.0)
    world.job(1.0, "wide", AllDevices(), label="any", demand=2, rounds=1)
    attempt = world.open(2.0, "wide", 1)
    world.check_in(3.0, "a")
    kill = fault("crash", "coordinator", 10.0)
    none = account_of(world, tmp_path / "none", NOTHING, kill)
    assert none.first_lease_s == ()
    assert none.to_json()["first_lease_after_kill_max_s"] is None
    world.lease(10.5, "a", attempt)  # granted before it was killed, by a clock that is not quite that of the wall
    world.hear(12.0, past.CoordinatorRestarted(False))
    world.device("b", cpu=2.0)
    world.check_in(13.0, "b")
    world.lease(14.0, "b", attempt)
    found = account_of(world, tmp_path / "run", NOTHING, kill)
    assert found.first_lease_s == pytest.approx((4.0,))


def test_the_table_names_each_figure(world: World, tmp_path: Path) -> None:
    from rich.console import Console

    console = Console(width=100)
    with console.capture() as captured:
        console.print(account_table(account_of(world, tmp_path / "run", Chaos(60.0, 0, 0, 2, 0))))
    said = captured.get()
    assert "broker kills" in said
    assert "NOT HELD" in said
    assert "acknowledged responses lost" in said
