from pathlib import Path

from coordinator.engine.requirements import AllDevices, Comparison, Every
from testbed.report.draw_devices import diagram
from testbed.report.history import read_history
from testbed.runfolder.journal import read_journal
from tests.unit.report.contended import ContendedRun
from tests.unit.report.world import World


def test_devices_are_cut_into_the_cells_of_the_diagram(tmp_path: Path) -> None:
    history = read_history(read_journal(ContendedRun().run().write(tmp_path) / "events.jsonl"))
    found = diagram(history)
    assert [(group.name, len(group.devices)) for group in found.groups] == [
        ("any", 60),
        ("roomy", 40),
        ("powerful", 20),
    ]
    assert {region.groups: len(region.devices) for region in found.regions} == {
        ("any",): 20,
        ("any", "roomy"): 20,
        ("any", "roomy", "powerful"): 20,
    }
    assert sum(region.check_ins for region in found.regions) == len(history.sessions)
    assert sum(sum(region.leases.values()) for region in found.regions) == len(history.leases)
    assert all("label-count" not in region.leases for region in found.regions if "powerful" not in region.groups)


def test_two_requirements_of_one_name_are_told_apart(tmp_path: Path) -> None:
    world = World()
    world.device("a", cpu=1.0)
    world.check_in(0.0, "a")
    world.job(0.0, "one", AllDevices(), label="any", demand=1, rounds=1)
    world.job(0.0, "two", Every((AllDevices(), Comparison("cpu", ">", 2.0))), label="any", demand=1, rounds=1)
    found = diagram(read_history(read_journal(world.write(tmp_path) / "events.jsonl")))
    assert [group.name for group in found.groups] == ["all", "all and cpu > 2"]
