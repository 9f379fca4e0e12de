"""Devices from flags and from population.jsonl; what is wrong is said in one line, with its place."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from device_agent import flags, machine
from device_agent.artifacts import ArtifactStore
from device_agent.connection import FirstContact
from device_agent.flags import Flags
from device_agent.machine import AllowedCode, kept_identity, parse_allowed
from device_agent.spec import DeviceSpec, Interval, read_population
from job_driver.bundle import pack
from testbed.world.fleets import write_population
from venn.wire.calls import Backoff
from venn.wire.chunks import digest_of
from venn.wire.errors import UsageError

WRITTEN = DeviceSpec(
    device="flagship-07",
    fleet="flagship",
    seed=7,
    numbers={"cpu": 9.1, "memory": 12e9},
    labels={"fleet": ("flagship",), "data": ("digits",)},
    data={"digits": Path("/data/share-0007.npz")},
    session="exp(8s)",
    gap="exp(4s)",
    crash=0.3,
    tasks_per_session=1,
    tasks_per_day=0,
    process=None,
)


def test_a_device_is_read_as_the_testbed_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "population.jsonl"
    write_population(path, [WRITTEN])
    [device] = read_population(path, only="flagship-07")
    assert (device.device, device.seed, device.crash, device.tasks_per_session) == ("flagship-07", 7, 0.3, 1)
    assert device.data == WRITTEN.data
    message = device.capabilities()
    assert dict(message.numbers) == {"cpu": 9.1, "memory": 12e9}
    assert list(message.labels["data"].values) == ["digits"]
    first = next(device.intervals())
    assert isinstance(first, Interval)
    with pytest.raises(UsageError, match="has no device pen"):
        read_population(path, only="pen")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "x"}, "is not a device: seed: it is not a whole number"),
        ({"seed": 2**63}, "is not a device: seed: it is not a whole number"),
        ({"numbers": 3}, "is not a device: numbers: it is not an object"),
        ({"numbers": {"cpu": 10**400}}, "is not a device: numbers: it is not a number"),
        ({"numbers": {"cpu": math.nan}}, "cpu is nan, which is not a finite number"),
        ({"labels": "[" * 100_000}, "is not a device"),
        ({"session": 3}, "is not a device: session: it is not null"),
        ({"session": "3"}, "has no unit"),
        ({"gap": "exp(8 GB)"}, "has an unknown unit"),
        ({"trace": [[3.0, 1.0]]}, "its sessions are not in order of time"),
        ({"trace": [[0.0, 5.0], [4.0, 6.0]]}, "its sessions are not in order of time"),
        ({"trace": [[0.0, math.inf]]}, "its sessions are not in order of time"),
        ({"absences": [[4.0, 1.0, "crash"]]}, "it begins at 4.0 s and ends at 1.0 s"),
        ({"absences": [[1.0, None, "crash"], [2.0, 3.0, "leave"]]}, "its absences are not in order of time"),
        ({"absences": [[1.0, 2.0, "vanish"]]}, "is not a device: absences"),
        ({"tasks_per_day": -1}, "may work on -1 tasks"),
        ({"tasks_per_session": 2**40}, "may work on 1099511627776 tasks"),
        ({"device": "a b"}, "is not a device name"),
        ({"crash": 1.5}, "crash 1.5 is not between"),
    ],
)
def test_a_bad_line_of_a_population_is_refused_by_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "population.jsonl"
    good = WRITTEN.to_json()
    path.write_text(f"{json.dumps(good)}\n{json.dumps({**good, **change})}\n")
    with pytest.raises(UsageError, match=message) as error:
        read_population(path)
    assert f"{path}:2" in error.value.where


def test_an_absent_population_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_population(tmp_path / "none.jsonl")


def test_a_gap_needs_sessions() -> None:
    with pytest.raises(UsageError, match="a gap needs sessions"):
        DeviceSpec(device="a", gap="4s")


def test_flags_become_a_device(tmp_path: Path) -> None:
    share = tmp_path / "share-0001.npz"
    share.touch()
    given = Flags(session="exp(8s)", crash="30%", seed=7, tasks_per_session=1)
    data = flags.parse_data([f"digits={share}"])
    device = given.device("a", {"cpu": 2.0}, flags.parse_labels(["site=lab", "site=attic"]), data)
    assert device.crash == 0.3
    assert device.labels == {"site": ("lab", "attic"), "data": ("digits",)}


@pytest.mark.parametrize("distribution", ["soon", "exp(x)"])
def test_a_bad_distribution_is_refused(distribution: str) -> None:
    with pytest.raises(UsageError):
        Flags(session=distribution).device("a", {}, {}, {})


def test_pairs_and_files_are_checked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not NAME=VALUE"):
        flags.parse_labels(["site"])
    with pytest.raises(UsageError, match="there is no such file"):
        flags.parse_data([f"digits={tmp_path / 'none.npz'}"])


@pytest.mark.parametrize("word", ["", "\x1b[31m", "\u202elab", "l\u200bab", "\udcff", "ü" * 65])
def test_labels_that_no_coordinator_takes_are_refused_here(word: str) -> None:
    for numbers, labels in (({word: 1.0}, {}), ({}, {word: ("lab",)}), ({}, {"site": ("lab", word)})):
        with pytest.raises(UsageError, match="neither the name nor the value of a label") as caught:
            DeviceSpec(device="a", numbers=numbers, labels=labels)
        assert str(caught.value).isprintable()


def test_shares_are_dealt_in_order_and_must_suffice(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"share-{number:04}.npz").touch()
    (tmp_path / "held_out.npz").touch()
    dealt = flags.assign_data({"digits": tmp_path}, 2)
    assert [own["digits"].name for own in dealt] == ["share-0001.npz", "share-0002.npz"]
    with pytest.raises(UsageError, match="too few for 3 devices"):
        flags.assign_data({"digits": tmp_path}, 3)


def test_an_identity_is_made_once_and_kept(tmp_path: Path) -> None:
    name = kept_identity(tmp_path / "state")
    assert DeviceSpec(device=name)
    assert kept_identity(tmp_path / "state") == name
    assert kept_identity(tmp_path / "other") != name


def test_only_code_that_was_named_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("job = None\n")
    digest = digest_of(pack(file))
    for named in (str(file), digest.hex(), digest.hex().upper()):
        allowed = parse_allowed([named], coordinator="10.0.0.1:1", insecure=False)
        assert allowed.admits(digest)
        assert not allowed.admits(bytes(32))
    bundle = tmp_path / "job.zip"
    bundle.write_bytes(pack(file))
    assert parse_allowed([str(bundle)], coordinator="127.0.0.1:1", insecure=False).admits(digest)
    assert not AllowedCode().admits(digest)


def test_any_code_is_for_loopback_or_a_network_of_ones_own(tmp_path: Path) -> None:
    assert parse_allowed(["any"], coordinator="127.0.0.1:1", insecure=False).admits(bytes(32))
    assert parse_allowed(["any"], coordinator="10.0.0.1:1", insecure=True).admits(bytes(32))
    with pytest.raises(UsageError, match="would let anyone"):
        parse_allowed(["any"], coordinator="10.0.0.1:1", insecure=False)
    with pytest.raises(UsageError, match="neither a digest nor a file"):
        parse_allowed([str(tmp_path / "none.py")], coordinator="127.0.0.1:1", insecure=False)


def test_backoff_grows_to_its_limit_with_full_jitter_and_is_reproducible() -> None:
    one, other = (Backoff(random.Random(7), first_s=1.0, most_s=8.0) for _ in range(2))
    waits = [one.next_s() for _ in range(200)]
    assert waits == [other.next_s() for _ in range(200)]
    assert waits[0] <= 1 < max(waits[:10])
    assert max(waits) <= 8
    assert min(waits[10:]) < 1
    one.reset()
    assert one.next_s() <= 1


def test_a_coordinator_that_was_never_met_is_tried_for_a_while_and_one_that_was_for_ever() -> None:
    contact = FirstContact(10.0)
    assert [contact.failed(now) for now in (100.0, 109.9, 110.0)] == [False, False, True]
    contact.met = True
    assert not contact.failed(1000.0)


def test_the_store_keeps_one_copy_and_what_was_used_last() -> None:
    store = ArtifactStore(most_bytes=10)
    first = store.put(b"a", b"12345")
    assert store.put(b"a", b"12345") is first
    store.put(b"b", b"67890")
    assert store.get(b"a") is first
    store.put(b"c", b"abc")
    assert (store.get(b"a"), store.get(b"b"), store.get(b"c")) == (b"12345", None, b"abc")
    store.put(b"d", b"larger than all that it keeps")
    assert store.get(b"d") is not None
    assert store.get(b"a") is None


def test_a_machine_is_probed() -> None:
    numbers = machine.measured_numbers()
    assert numbers["cpu"] > 0
    assert numbers["memory"] > 1e8
    assert machine.os_level("6.1.0-rpi7") == 6.1
    assert machine.os_level("23.5.0") == 23.5
    assert machine.os_level("unknown") is None
    packages = machine.importable_packages()
    assert "numpy" in packages
    assert len(packages) <= 64


def test_devices_spread_over_the_window_that_they_were_told_however_often_they_have_failed() -> None:
    backoffs = [Backoff(random.Random(seed)) for seed in range(1000)]
    for _ in range(3):
        waits = sorted(backoff.next_s(20.0) for backoff in backoffs)
        assert 0 <= waits[0] < 1
        assert 19 < waits[-1] <= 20
        assert waits[500] == pytest.approx(10.0, abs=1.0)
    assert Backoff(random.Random(1), first_s=0.25).next_s(0.1) <= 0.25  # a narrower one than its own is of no use
