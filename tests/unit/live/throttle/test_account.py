"""What is made of the files that containers leave: the devices that there were, and how they were limited."""

import json
from pathlib import Path

import numpy as np
import pytest

from device_agent.spec import read_population
from testbed.live.compose import POOL, make_replica
from testbed.live.throttle.account import gather
from testbed.report.host import read_emulation
from testbed.runfolder.paths import RunFolder
from venn.wire.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    place = RunFolder(tmp_path)
    place.data("digits").mkdir(parents=True)
    y = np.repeat(np.arange(10), 40)
    np.savez(place.data("digits") / POOL, x=np.arange(400.0)[:, None], y=y)
    return place


def replica(folder: RunFolder, host: str, profile: str = "phone-low") -> str:
    return make_replica(folder, profile=profile, host=host, data="digits", samples=50, evenness=3.0)


def held(folder: RunFolder, name: str, *rows: tuple[str, str, float | None, str]) -> None:
    keys = ("key", "asked", "read_back", "means")
    limits = [dict(zip(keys, row, strict=True)) for row in rows]
    (folder.device_host(name) / "limits.json").write_text(json.dumps({"limits": limits, "degraded": []}))


def emulation(folder: RunFolder) -> dict[str, object]:
    return dict(json.loads((folder.root / "emulation.json").read_text()))


def test_each_replica_has_a_share_of_its_own_which_its_name_alone_decides(folder: RunFolder) -> None:
    shares = []
    for host in ("aaaa", "bbbb"):
        with np.load(folder.device_host(replica(folder, host)) / "digits.npz") as share:
            shares.append(share["x"].ravel().tolist())
    assert len(set(shares[0])) == len(shares[0]) == 50
    assert shares[0] != shares[1]
    (folder.device_host("phone-low-aaaa") / "digits.npz").unlink()
    with np.load(folder.device_host(replica(folder, "aaaa")) / "digits.npz") as share:
        assert share["x"].ravel().tolist() == shares[0]


def test_what_all_devices_of_a_kind_lack_is_said_once(folder: RunFolder) -> None:
    for host in ("aaaa", "bbbb"):
        told = {"limits": [], "degraded": ["VENN_LOSS: no"] + ["VENN_UP: no"] * (host == "bbbb")}
        (folder.device_host(replica(folder, host)) / "limits.json").write_text(json.dumps(told))
    gather(folder, cores=8)
    assert emulation(folder)["degraded"] == ["2 devices of phone-low: VENN_LOSS: no", "phone-low-bbbb: VENN_UP: no"]


def test_a_replica_is_what_its_profile_says(folder: RunFolder) -> None:
    name = replica(folder, "aaaa", "pi-4")
    (device,) = read_population(folder.device_host(name) / "population.jsonl")
    assert (device.device, device.fleet, device.process) == ("pi-4-aaaa", "pi-4", "pi-4-aaaa")
    assert device.numbers == {"cpu": 3.0, "memory": 4e9}
    assert device.labels == {"fleet": ("pi-4",), "data": ("digits",)}


def test_without_data_a_replica_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read") as told:
        replica(RunFolder(tmp_path), "aaaa")
    assert str(tmp_path) in told.value.where
    assert "venn compose attend" in told.value.fix


def test_the_report_reads_what_was_gathered(folder: RunFolder) -> None:
    one, two, other = replica(folder, "1"), replica(folder, "2"), replica(folder, "3", "pi-4")
    held(folder, one, ("cores", "0.2", 0.2, "cpus"), ("up", "1 Mbit/s", 1e6, "tc"))
    held(folder, two, ("cores", "0.2", 0.201, "cpus"), ("up", "1 Mbit/s", None, "relay"))
    gather(folder, cores=2)
    assert {device.device for device in read_population(folder.population)} == {one, two, other}
    told = read_emulation(folder.root, devices=3, processes=3)
    assert told.cpu == "cpus on 2 devices, else modelled"
    assert [(row.key, row.read_back, row.means) for row in told.limits] == [
        ("cores", 0.201, "cpus"),  # the one that is furthest from what was asked
        ("up", 1e6, "tc and relay"),
    ]
    assert told.degraded == ()


def test_more_cores_than_there_are_is_said(folder: RunFolder) -> None:
    for host in ("1", "2"):
        held(folder, replica(folder, host), ("cores", "0.9", 0.9, "cpus"))
    gather(folder, cores=2)
    assert emulation(folder)["degraded"] == [
        "all devices together have 1.80 cores and this machine 1.5 for them: not all are reached"
    ]


def test_bytes_that_went_past_the_relay_are_said(folder: RunFolder) -> None:
    name = replica(folder, "1")
    held(folder, name, ("up", "1 Mbit/s", None, "relay"))
    own = folder.device_host(name)
    (own / "links-counts.json").write_text(json.dumps({"*": {"up": 90, "down": 500, "connections": 1}}))
    (own / "receipts.jsonl").write_text(json.dumps({"device": name, "uploaded": 100, "downloaded": 400}) + "\n")
    gather(folder, cores=2)
    assert emulation(folder)["degraded"] == [f"{name}: moved bytes past its link"]
