"""Devices of a fleet: names, capabilities, labels, hosts, and what they do not depend on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from device_agent.spec import DeviceSpec, read_population
from testbed.world.fleets import FleetSpec, expand, write_population
from venn.wire.errors import UsageError
from venn.wire.notation import Distribution, NotationError, Unit, parse_distribution


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


# -- devices that are each another


PHONES = FleetSpec(name="crowd", count=40, devices="phones")


@pytest.fixture
def lab(tmp_path: Path) -> FleetSpec:
    """Three devices, of which the file knows two."""
    file = tmp_path / "lab.csv"
    file.write_text("device,cpu,memory,soc\na,2,4e9,snap\nb,7,,exynos\n")
    return FleetSpec(name="lab", count=3, devices=str(file))


def test_phones_differ_and_report_what_a_generated_phone_reports() -> None:
    devices = expanded(PHONES)
    assert set(devices["crowd-01"].numbers) == {"cpu", "memory", "fp16", "inference", "os", "link"}
    assert len({device.numbers["cpu"] for device in devices.values()}) == 40


def test_a_phone_depends_on_its_seed_fleet_and_number_alone() -> None:
    alone = expanded(PHONES)
    assert expanded(BENCH, replace(PHONES, count=90))["crowd-07"].numbers == alone["crowd-07"].numbers
    assert expanded(replace(PHONES, name="others"))["others-07"].numbers != alone["crowd-07"].numbers
    assert expanded(PHONES, seed=8)["crowd-07"].numbers != alone["crowd-07"].numbers


def test_devices_of_a_file_come_in_its_order_and_again(lab: FleetSpec) -> None:
    first, second, third = expanded(lab).values()
    assert first.numbers == {"cpu": 2.0, "memory": 4e9}
    assert first.labels == {"soc": ("snap",), "fleet": ("lab",)}
    assert second.numbers == {"cpu": 7.0}
    assert third.numbers == first.numbers


def test_what_the_fleet_says_itself_goes_before(lab: FleetSpec) -> None:
    stated = replace(lab, memory=drawn("8 GB", "bytes"), labels={"soc": ("own",)})
    devices = expanded(stated).values()
    assert [device.numbers["memory"] for device in devices] == [8e9] * 3
    assert [device.numbers["cpu"] for device in devices] == [2.0, 7.0, 2.0]
    assert {device.labels["soc"] for device in devices} == {("own",)}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("device,memory\na,4e9\n", "device 1 reports no cpu"),
        ("device,cpu\na,2\nb,0\n", "device 2 reports 0 as its cpu"),
        ("device,cpu,fleet\na,2,x\n", "device 1 has the label fleet"),
    ],
)
def test_a_file_that_no_devices_can_be_made_of(lab: FleetSpec, text: str, told: str) -> None:
    Path(lab.devices or "").write_text(text)
    with pytest.raises(UsageError, match=told) as caught:
        expanded(lab)
    assert caught.value.where == "fleets.lab.devices"


def test_a_fleet_can_state_the_cpu_that_a_file_has_not(lab: FleetSpec) -> None:
    Path(lab.devices or "").write_text("device,memory\na,4e9\n")
    assert expanded(replace(lab, cpu=drawn("4", "number")))["lab-02"].numbers == {"cpu": 4.0, "memory": 4e9}
