"""compose.yaml: what both generations of Compose take, what is limited, and who may what."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.live.throttle.throttles import SPARE_CORES
from testbed.world.profiles import FIELDS, load_profile

ROOT = Path(__file__).parents[3]
FLEET = ("pi-4", "phone-mid", "phone-low")
NEEDED = {"SETUID", "SETGID", "SETPCAP", "KILL"}  # to become another user, without capabilities, and be stopped
USUAL = {  # of a container, if nothing is said
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return dict(yaml.safe_load((ROOT / "compose.yaml").read_text())["services"])


@pytest.mark.parametrize("command", [("docker-compose",), ("docker", "compose")], ids=" ".join)
def test_this_generation_of_compose_takes_it(command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None or subprocess.run([*command, "version"], check=False).returncode != 0:
        pytest.skip(f"there is no `{' '.join(command)}` here")
    file = ["--file", str(ROOT / "compose.yaml")]
    done = subprocess.run([*command, *file, "config", "-q"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_scaled_has_nothing_that_only_one_can_have(services: dict[str, dict[str, Any]]) -> None:
    for name in FLEET:
        assert not {"container_name", "ports", "hostname", "deploy"} & services[name].keys()
        assert all(volume.startswith(("./", "/", "${VENN_RUNS:-./")) for volume in services[name]["volumes"])


@pytest.mark.parametrize("name", FLEET)
def test_a_device_is_limited_to_what_its_profile_says(services: dict[str, dict[str, Any]], name: str) -> None:
    service, profile = services[name], load_profile(name).values
    assert service["environment"]["VENN_PROFILE"] == name
    assert f"--profile={name}" in service["command"]
    assert service["cpus"] == FIELDS["cores"](profile["cores"].value)
    assert service["mem_limit"] == FIELDS["memory_limit"](profile["memory_limit"].value)


def test_nothing_is_pulled_where_the_image_has_to_be_built_first(services: dict[str, dict[str, Any]]) -> None:
    assert {service["pull_policy"] for service in services.values()} == {"never"}
    assert [name for name, service in services.items() if "build" in service] == ["testbed"]


def test_the_fleet_fits_on_two_cores(services: dict[str, dict[str, Any]]) -> None:
    assert sum(services[name]["cpus"] * services[name]["scale"] for name in FLEET) <= 2 - SPARE_CORES


def test_nobody_has_more_rights_than_needed(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "network_mode", "pid", "ports"} & service.keys(), name
        if name in FLEET:
            assert service["cap_add"] == ["NET_ADMIN"]
            assert USUAL - set(service["cap_drop"]) == NEEDED
        else:
            assert service["cap_drop"] == ["ALL"]
            assert (service["user"] == "1000") == (name != "testbed")


def test_one_image_is_built_by_one_service(services: dict[str, dict[str, Any]]) -> None:
    assert {service["image"] for service in services.values()} == {"${VENN_IMAGE:-venn-testbed}"}
    assert [name for name, service in services.items() if "build" in service] == ["testbed"]


def test_healthchecks_start_no_interpreter(services: dict[str, dict[str, Any]]) -> None:
    tests = [" ".join(service["healthcheck"]["test"]) for service in services.values() if "healthcheck" in service]
    assert len(tests) == len(FLEET) + 2
    assert not any(word in test for test in tests for word in ("python", "venn "))
