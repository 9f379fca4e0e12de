"""Devices of a fleet: names, capabilities, labels, hosts, and what they do not depend on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.population import DeviceSpec, FleetSpec, expand, read_population, write_population
from venn.wire.errors import UsageError
from venn.wire.notation import Distribution, NotationError, parse_distribution
from venn.wire.notation.distributions import Unit


def drawn(text: str, unit: Unit = "duration") -> Distribution:
    return parse_distribution(text, unit)


FLAGSHIP = FleetSpec(
    name="flagship",
    count=20,
    cpu=drawn("7..16", "number"),
    memory=drawn("12 GB", "bytes"),
    labels={"site": ("lab", "roof")},
    session=drawn("exp(8s)"),
    gap=drawn("lognormal(4s; 1.5)"),
    crash=0.3,
    tasks_per_session=1,
)
BENCH = FleetSpec(name="bench", count=4, cpu=drawn("8", "number"), processes=4)


def expanded(
    *fleets: FleetSpec, seed: int = 7, time_scale: float = 1.0, data: Mapping[str, Sequence[Path]] | None = None
) -> dict[str, DeviceSpec]:
    return {device.device: device for device in expand(fleets, seed=seed, time_scale=time_scale, data=data or {})}


def test_names_are_numbered_within_the_fleet() -> None:
    names = list(expanded(FLAGSHIP, replace(BENCH, count=100, processes=1)))
    assert names[:2] == ["flagship-01", "flagship-02"]
    assert names[19:21] == ["flagship-20", "bench-001"]
    assert names[-1] == "bench-100"


def test_capabilities_are_drawn_for_each_device() -> None:
    devices = expanded(FLAGSHIP)
    cpus = [device.numbers["cpu"] for device in devices.values()]
    assert len(set(cpus)) == 20
    assert all(7 <= cpu <= 16 for cpu in cpus)
    assert {device.numbers["memory"] for device in devices.values()} == {12e9}
    assert all("os" not in device.numbers for device in devices.values())


def test_a_device_depends_on_its_own_fleet_and_number_alone() -> None:
    alone = expanded(FLAGSHIP)
    assert expanded(BENCH, FLAGSHIP)["flagship-07"] == alone["flagship-07"]
    assert expanded(replace(FLAGSHIP, count=60))["flagship-07"] == alone["flagship-07"]
    with_os = expanded(replace(FLAGSHIP, os=drawn("6..13", "number")))
    assert with_os["flagship-07"].numbers["cpu"] == alone["flagship-07"].numbers["cpu"]


def test_another_seed_or_fleet_gives_other_devices() -> None:
    cpu = expanded(FLAGSHIP)["flagship-07"].numbers["cpu"]
    assert expanded(FLAGSHIP, seed=8)["flagship-07"].numbers["cpu"] != cpu
    assert expanded(replace(FLAGSHIP, name="other"))["other-07"].numbers["cpu"] != cpu


def test_labels_name_the_fleet_and_the_data() -> None:
    shares = [Path(f"share-{number:04d}.npz") for number in range(1, 25)]
    devices = expanded(FLAGSHIP, BENCH, data={"digits": shares})
    assert devices["flagship-07"].labels == {"site": ("lab", "roof"), "fleet": ("flagship",), "data": ("digits",)}
    assert devices["flagship-07"].data == {"digits": Path("share-0007.npz").absolute()}
    assert devices["bench-04"].data == {"digits": Path("share-0024.npz").absolute()}
    assert "data" not in expanded(BENCH)["bench-01"].labels


def test_the_time_scale_is_in_the_sessions() -> None:
    device = expanded(FLAGSHIP, time_scale=0.5)["flagship-01"]
    assert (device.session, device.gap) == ("exp(4s)", "lognormal(2s; 1.5)")
    always = expanded(BENCH, time_scale=0.5)["bench-01"]
    assert (always.session, always.gap) == (None, None)


def test_a_column_of_a_file_is_not_scaled(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("stay\n5\n9\n")
    fleet = replace(BENCH, session=parse_distribution("times.csv:stay", folder=tmp_path))
    assert expanded(fleet)["bench-01"].session == f"{tmp_path}/times.csv:stay"
    with pytest.raises(NotationError, match="cannot be scaled"):
        expanded(fleet, time_scale=0.5)


def test_hosts() -> None:
    assert {device.process for device in expanded(FLAGSHIP).values()} == {None}
    assert [device.process for device in expanded(BENCH).values()] == list(expanded(BENCH))
    halves = [device.process for device in expanded(replace(BENCH, processes=2)).values()]
    assert halves == ["bench-process-1"] * 2 + ["bench-process-2"] * 2


@pytest.mark.parametrize(
    ("fleets", "says"),
    [
        ((), "fleets: there is no device"),
        ((replace(BENCH, count=0, processes=1),), "fleets: there is no device"),
        ((replace(BENCH, processes=5),), "fleets.bench.processes: 5 processes cannot host 4 devices; at most 4"),
        ((replace(BENCH, labels={"fleet": ("x",)}),), "fleets.bench: the label fleet is set for every device"),
    ],
)
def test_fleets_that_no_devices_can_be_made_of(fleets: tuple[FleetSpec, ...], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        expanded(*fleets)
    assert str(caught.value).startswith(says)


def test_a_population_survives_its_file(tmp_path: Path) -> None:
    shares = [tmp_path / f"share-{number:04d}.npz" for number in range(1, 25)]
    devices = list(expanded(FLAGSHIP, BENCH, data={"digits": shares}).values())
    write_population(tmp_path / "population.jsonl", devices)
    assert read_population(tmp_path / "population.jsonl") == devices


@pytest.mark.parametrize("line", ["{}", "7", "nonsense", '{"device": "a", "fleet": "b", "seed": "x"}'])
def test_a_line_that_is_no_device_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "population.jsonl"
    write_population(path, expanded(BENCH).values())
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UsageError, match=r"population\.jsonl:5: is not a device"):
        read_population(path)


def test_a_population_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.jsonl: cannot be read: No such file"):
        read_population(tmp_path / "none.jsonl")
