"""What a scenario comes to as containers, without an engine: the Compose file, and what goes in and out."""

import io
import json
import shlex
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

pytest.importorskip("docker")

from docker.errors import APIError

from testbed.live.backend.prepare import Capacity, check_fits, need, prepare
from testbed.live.containers.compose import Layout, changed_variables, packed, scale_flags, unpack, write_project
from testbed.live.containers.container import Container, settings
from testbed.live.containers.engine import check_image, obeyed
from testbed.live.throttle.account import not_held, write_held
from testbed.live.throttle.cgroup import NONE
from testbed.live.throttle.means import NETEM, RELAY, Check, Machine
from testbed.live.throttle.throttles import make_plan
from testbed.report.host import read_emulation
from testbed.runfolder.paths import RunFolder
from testbed.scenario import Scenario, parse
from testbed.world.limits import Limits
from venn.wire.errors import CannotEnforceError, PeerError
from venn.wire.process import LABEL

MARK = "p12-s34"
TEXT = """\
version: 1
name: two
policy: {policy}
backend: compose
jobs:
  wide: {{file: job.py, demand: 1, rounds: 1, deadline: 8s, data: marks, params: {{price: 2$}}}}
data:
  marks: {{source: marks.npz, split: iid, held_out: 20%}}
fleets:
  slow: {{count: 3, cpu: 1, cores: 0.2, memory_limit: 256 MB, up: 2 Mbit/s, delay: 40ms}}
  free: {{count: 1, cpu: 4}}
"""
CHECKS = (("cpu", "cpus"), ("memory", "mem_limit"), ("rate", RELAY), ("delay", NETEM))
MACHINE = Machine(4, 8 * 10**9, NONE, tuple(Check(field, means, True, "") for field, means in CHECKS))


@pytest.fixture
def two(scenario: Scenario, tmp_path: Path) -> Scenario:
    """``scenario`` has made the job file and the data."""
    (tmp_path / "mine.py").write_text("class Mine: pass\n")
    return parse(TEXT.format(policy="fifo"), folder=tmp_path)


@pytest.fixture
def layout(two: Scenario, folder: RunFolder) -> Layout:
    return Layout(two, folder, prepare(two, folder), allow_degraded=False)


def test_the_compose_file_holds_a_service_per_fleet_and_marks_all(layout: Layout) -> None:
    services = layout.services(port=40_000, validate=True)
    document = yaml.safe_load(write_project(services, "an-image", MARK, ["docker-compose", "up"]))
    assert document.keys() == {"services", "networks"}  # no top-level name: docker-compose 1.29 refuses it
    assert list(document["services"]) == ["coordinator", "job-wide", "fleet-slow", "fleet-free"]
    assert all(each["labels"] == {LABEL: MARK} for each in document["services"].values())
    assert document["networks"]["default"]["labels"] == {LABEL: MARK}
    slow, free = document["services"]["fleet-slow"], document["services"]["fleet-free"]
    assert (slow["cpus"], slow["mem_limit"], slow["cap_add"]) == (0.2, 256_000_000, ["NET_ADMIN"])
    assert slow["environment"] == {
        "VENN_CORES": "0.2",
        "VENN_MEMORY_LIMIT": "256 MB",
        "VENN_UP": "2 Mbit/s",
        "VENN_DELAY": "40ms",
        "VENN_LIMITS": "/venn",
    }
    assert not {"cpus", "mem_limit", "cap_add", "user", "environment"} & free.keys()
    assert ("--model-time" in free["command"], "--model-time" in slow["command"]) == (True, False)
    assert document["services"]["coordinator"]["ports"] == ["127.0.0.1:40000:9700"]
    assert "price=2$$" in document["services"]["job-wide"]["command"].replace('"', "")
    assert "broker" not in document["services"]  # nobody breaks it
    assert scale_flags(services) == ["--scale", "fleet-slow=3"]


@pytest.mark.parametrize("command", [("docker-compose",), ("docker", "compose")], ids=" ".join)
def test_this_generation_of_compose_takes_it(layout: Layout, folder: RunFolder, command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None or subprocess.run([*command, "version"], check=False).returncode != 0:
        pytest.skip(f"there is no `{' '.join(command)}` here")
    services = layout.services(port=40_000, validate=True)
    folder.compose.write_text(write_project(services, "an-image", MARK, ["docker-compose", "up"]))
    words = [*command, "--file", str(folder.compose), "config"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    read = yaml.safe_load(done.stdout)["services"]["job-wide"]["command"]  # a text, or a list, with dollars doubled
    words = shlex.split(read) if isinstance(read, str) else read
    assert [word.replace("$$", "$") for word in words] == services["job-wide"].command


def test_each_part_has_a_container_and_only_its_own_files(layout: Layout, folder: RunFolder) -> None:
    places = layout.places()
    assert places["coordinator"] == ("coordinator", 1)
    assert places["driver wide"] == ("job-wide", 1)
    assert (places["slow-01"], places["slow-03"]) == (("fleet-slow", 1), ("fleet-slow", 3))
    keys = {f"/venn/keys/{role}.key" for role in ("device", "job", "admin")}
    assert layout.files("coordinator").keys() == keys
    driver = layout.files("driver wide")
    assert driver.keys() == {"/venn/keys/job.key", "/venn/code/wide/job.py", "/venn/data/marks/held_out.npz"}
    device = layout.files("slow-02")
    [share] = device.keys() - {"/venn/keys/device.key", "/venn/population.jsonl"}
    assert json.loads(device["/venn/population.jsonl"])["data"] == {"marks": share}


def test_a_fleet_whose_links_change_is_told_to_what(two: Scenario, folder: RunFolder) -> None:
    slower = "churn: [{at: 1s, limit: slow, delay: 90ms}, {at: 2s, limit: all, link: ethernet}]"
    changing = parse(two.dump().replace("churn: []", slower))
    layout = Layout(changing, folder, prepare(changing, folder), allow_degraded=True)
    services = layout.services(port=1, validate=False)
    slow, free = services["fleet-slow"], services["fleet-free"]
    assert [each["VENN_DELAY"] for each in json.loads(slow.environment["VENN_CHANGES"]) if "VENN_DELAY" in each] == [
        "90ms",
        "40ms",
    ]
    assert json.loads(free.environment["VENN_CHANGES"]) == [{"VENN_UP": "100 Mbit/s", "VENN_DOWN": "100 Mbit/s"}]
    assert free.link
    assert free.environment["VENN_ALLOW_DEGRADED"] == "true"


def test_a_link_that_is_changed_is_told_what_is_not_limited_any_more() -> None:
    assert changed_variables(Limits(up_bits=1e6)) == {
        "VENN_UP": "1 Mbit/s",
        **dict.fromkeys(("VENN_DOWN", "VENN_DELAY", "VENN_JITTER", "VENN_LOSS"), ""),
    }


def test_a_timeline_that_breaks_the_broker_has_one(two: Scenario, folder: RunFolder) -> None:
    broken = parse(two.dump().replace("churn: []", "churn: [{at: 1s, crash: broker, for: 2s}]"))
    layout = Layout(broken, folder, prepare(broken, folder), allow_degraded=False)
    document = yaml.safe_load(write_project(layout.services(port=1, validate=False), "an-image", MARK, []))
    assert document["services"]["broker"]["command"].startswith("broker /venn/keys/broker ")
    assert layout.places()["broker"] == ("broker", 1)
    assert layout.files("broker").keys() == {"/venn/keys/broker"}


def test_a_policy_of_ones_own_goes_with_its_path(scenario: Scenario, folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine: pass\n")
    two = parse(TEXT.format(policy="mine.py:Mine"), folder=tmp_path)
    layout = Layout(two, folder, prepare(two, folder), allow_degraded=False)
    assert layout.files("coordinator")[str(tmp_path / "mine.py")] == b"class Mine: pass\n"


def test_what_is_packed_is_the_users_and_keys_are_secret() -> None:
    with tarfile.open(fileobj=io.BytesIO(packed({"/venn/keys/job.key": b"t", "/venn/a/b": b"xy"}))) as tar:
        entries = {entry.name: entry for entry in tar}
        assert list(entries) == ["venn", "venn/a", "venn/keys", "venn/keys/job.key", "venn/a/b"]
        assert all((entry.uid, entry.gid) == (1000, 1000) for entry in entries.values())
        assert (entries["venn/keys/job.key"].mode, entries["venn/a/b"].mode) == (0o600, 0o644)


def test_what_comes_back_stays_in_its_folder_and_what_was_put_in_does_not_come(tmp_path: Path) -> None:
    files = {"/venn/keys/job.key": b"t", "/venn/jobs/x/log": b"1", "/venn/../out": b"2", "/venn/venn.toml": b"3"}
    text = packed(files)
    unpack((text[at : at + 100] for at in range(0, len(text), 100)), tmp_path / "run")
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {"run/jobs/x/log"}
    assert (tmp_path / "run/jobs/x/log").read_bytes() == b"1"


def test_a_driver_that_is_resumed_twice_is_told_once(tmp_path: Path) -> None:
    part = Container(
        "job x", Mock(), lambda: None, log=tmp_path / "log", settings=settings("job.run", {"start-at": 1.0})
    )
    part.resume()
    part.resume()
    assert tomllib.loads(part._settings) == {"job": {"run": {"start-at": 1.0, "resume": True}}}


def test_settings_are_a_table_of_flags() -> None:
    assert settings("agent", {"from": "a:b", "epoch": 1.5}) == '[agent]\nfrom = "a:b"\nepoch = 1.5\n'


# -- limits


def limits_json(folder: Path, **read_back: float | None) -> None:
    means = {"cores": "cpus", "memory_limit": "mem_limit", "up": "tc", "delay": "relay"}
    asked = {"cores": "0.2", "memory_limit": "256 MB", "up": "2 Mbit/s", "delay": "40ms"}
    rows = [{"key": key, "asked": asked[key], "read_back": read_back.get(key), "means": means[key]} for key in means]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "limits.json").write_text(json.dumps({"limits": rows, "degraded": []}))


def test_what_a_container_says_of_its_limits_is_written_down(two: Scenario, folder: RunFolder) -> None:
    prepared = prepare(two, folder)
    slow = [device for device in prepared.devices if device.fleet == "slow"]
    limits_json(folder.device_host("slow-01"), cores=0.2, memory_limit=256e6, up=2e6)
    write_held(folder, slow, ["something"])
    told = read_emulation(folder.root, devices=4, processes=4)
    assert {limit.key: (limit.read_back, limit.means) for limit in told.limits} == {
        "cores": (0.2, "cpus"),
        "memory_limit": (256e6, "mem_limit"),
        "up": (2e6, "tc"),
        "delay": (None, "relay"),
    }
    assert told.degraded == ("something",)


def test_a_device_that_had_sessions_must_say_what_was_in_force(two: Scenario, folder: RunFolder) -> None:
    slow = [device for device in prepare(two, folder).devices if device.fleet == "slow"]
    assert not_held(folder, slow, restarted=()) == []  # none got so far
    (folder.device_host("slow-02") / "sessions.jsonl").touch()
    assert not_held(folder, slow, restarted=()) == ["slow-02: does not say which limits were in force"]


def test_bytes_past_the_relay_are_noticed_unless_it_began_anew(two: Scenario, folder: RunFolder) -> None:
    slow = [device for device in prepare(two, folder).devices if device.fleet == "slow"]
    own = folder.device_host("slow-01")
    limits_json(own, cores=0.2)
    (own / "links-counts.json").write_text('{"*": {"up": 960, "down": 1000}}')
    for moved, problems in ((1000, 0), (1100, 1)):
        (own / "receipts.jsonl").write_text(
            json.dumps({"device": "slow-01", "uploaded": 1000, "downloaded": moved}) + "\n"
        )
        assert len(not_held(folder, slow, restarted=())) == problems
        assert not_held(folder, slow, restarted={"slow-01"}) == []


def test_a_fleet_larger_than_memory_is_refused_with_what_would_fit(two: Scenario, folder: RunFolder) -> None:
    prepared = prepare(two, folder)
    asked = need(two, prepared, cores=4)
    check_fits(two, asked, Capacity(4, asked.memory_bytes, 1000))
    with pytest.raises(CannotEnforceError, match=r"4 containers take about .* are free: 2 would fit"):
        check_fits(two, asked, Capacity(4, asked.memory_bytes - 100_000_000, 1000))


def test_limits_of_memory_are_summed_against_the_machine(two: Scenario) -> None:
    [problem] = make_plan(two, Machine(4, 600_000_000, NONE, MACHINE.checks)).problems
    assert str(problem).startswith("fleets: 3 devices may take 768 MB of memory, more than this machine has: 2 fit")


def test_a_name_that_no_image_can_have_is_one_line() -> None:
    client = Mock()
    client.images.get.side_effect = APIError("400 Client Error", explanation="invalid reference format")
    with pytest.raises(CannotEnforceError, match=r"VENN_IMAGE: .* invalid reference format; name one"):
        check_image(client)


def test_what_the_engine_refuses_is_one_line() -> None:
    with pytest.raises(PeerError, match="a did not start: no space") as caught, obeyed("a did not start"):
        raise APIError("500 Server Error", explanation="no space")
    assert caught.value.exit_code == 4
