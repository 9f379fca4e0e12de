"""The flags that a run's programs are started with: those of docs/by-hand.md, and times scaled once."""

from pathlib import Path

from testbed.live.backend import commands
from testbed.live.backend.prepare import DeviceHost
from testbed.runfolder.paths import RunFolder
from testbed.scenario import Scenario
from testbed.scenario.model import Confine

EPOCH = 1000.25


def flags(words: list[str]) -> dict[str, list[str]]:
    """Flag -> its values."""
    found: dict[str, list[str]] = {}
    for index, word in enumerate(words):
        if word.startswith("--"):
            following = words[index + 1] if index + 1 < len(words) and not words[index + 1].startswith("--") else ""
            found.setdefault(word, []).append(following)
    return found


def job_flags(name: str, scenario: Scenario, folder: RunFolder, held_out: Path | None) -> dict[str, list[str]]:
    words = commands.job(name, scenario, folder, to="127.0.0.1:9", run="run", held_out=held_out, epoch=EPOCH)
    assert words[:3] == ["job", "run", str(scenario.jobs[name].file)]
    return flags(words)


def test_the_coordinator(scenario: Scenario, folder: RunFolder) -> None:
    words = commands.coordinator(scenario, folder, validate=True)
    found = flags(words)
    assert words[0] == "coordinator"
    assert found["--listen"] == ["127.0.0.1:0"]
    assert (found["--policy"], found["--seed"], found["--name"]) == (["venn"], ["7"], ["small"])
    assert found["--dir"] == [str(folder.root)]
    assert "--validate" in found
    assert "--validate" not in flags(commands.coordinator(scenario, folder, validate=False))


def test_a_job_has_its_times_scaled_once(scenario: Scenario, folder: RunFolder) -> None:
    found = job_flags("narrow", scenario, folder, None)
    assert (found["--deadline"], found["--compute"], found["--lease"]) == (["4s"], ["1.5s"], ["3s"])
    assert found["--start-at"] == ["1000.750"]  # it arrives after 1 s x 0.5
    assert (found["--demand"], found["--over-commit"], found["--min-response"]) == (["1"], ["100%"], ["80%"])
    assert (found["--requirement"], found["--requirement-name"]) == (["memory >= 4 GB"], ["roomy"])
    assert (found["--max-rounds"], found["--stragglers"]) == (["4"], ["revoke"])
    assert "--deterministic" in found
    assert not {"--rounds", "--data", "--held-out", "--param"} & found.keys()


def test_a_job_with_data_and_parameters(scenario: Scenario, folder: RunFolder) -> None:
    found = job_flags("wide", scenario, folder, Path("held_out.npz"))
    assert (found["--rounds"], found["--data"], found["--held-out"]) == (["2"], ["marks"], ["held_out.npz"])
    assert found["--param"] == ["epochs=40", "fast=true", 'name="a b"']
    assert found["--requirement"] == ["all"]
    assert (found["--owner"], found["--name"], found["--run"]) == (["testbed"], ["wide"], ["run"])
    assert not {"--max-rounds", "--deterministic", "--lease"} & found.keys()


def test_a_device_process_and_a_swarm(scenario: Scenario, folder: RunFolder) -> None:
    alone = DeviceHost("bench-01", (), single=True, population=Path("one.jsonl"))
    swarm = DeviceHost("swarm", (), single=False, population=Path("many.jsonl"))
    one = commands.devices(alone, scenario, folder, to="127.0.0.1:9", epoch=EPOCH)
    many = commands.devices(swarm, scenario, folder, to="127.0.0.1:9", epoch=EPOCH)
    assert (one[0], many[0]) == ("agent", "swarm")
    assert (flags(one)["--from"], flags(many)["--from"]) == (["one.jsonl:bench-01"], ["many.jsonl"])
    assert {"--model-time", "--crash-kills"} <= flags(one).keys()
    for words, host in ((one, "bench-01"), (many, "swarm")):
        assert flags(words)["--epoch"] == ["1000.250"]
        assert flags(words)["--allow-code"] == [str(scenario.jobs["wide"].file)]  # each file once
        assert flags(words)["--dir"] == [str(folder.root / "devices" / host)]


def test_what_job_code_may_use_is_told_to_devices_as_the_scenario_says(scenario: Scenario, folder: RunFolder) -> None:
    swarm = DeviceHost("swarm", (), single=False, population=Path("many.jsonl"))
    confine = Confine(level="required", memory="2 GB", disk="64 MB", files=100, processes=9)  # type: ignore[arg-type]
    asked = scenario.model_copy(update={"confine": confine})
    found = flags(commands.devices(swarm, asked, folder, to="127.0.0.1:9", epoch=EPOCH))
    assert (found["--confine"], found["--task-memory"], found["--task-disk"]) == (["required"], ["2 GB"], ["64 MB"])
    assert (found["--task-files"], found["--task-processes"]) == (["100"], ["9"])
    assert "--confine" not in flags(commands.devices(swarm, scenario, folder, to="127.0.0.1:9", epoch=EPOCH))


def test_a_device_whose_time_is_real_models_none(scenario: Scenario, folder: RunFolder) -> None:
    alone = DeviceHost("bench-01", (), single=True, population=Path("one.jsonl"))
    words = commands.devices(
        alone, scenario, folder, to="127.0.0.1:9", epoch=EPOCH, throttle=["--throttle", "t.json"], measured=True
    )
    assert flags(words)["--throttle"] == ["t.json"]
    assert "--model-time" not in words


def test_a_driver_resumes_with_the_same_flags() -> None:
    assert commands.resumed(["job", "run"]) == ["job", "run", "--resume"]
    assert commands.resumed(commands.resumed(["job", "run"])) == ["job", "run", "--resume"]
