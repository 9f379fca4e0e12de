"""Profiles: those that come with the testbed, those that extend them, and what is wrong with some."""

import json
from pathlib import Path

import pytest

from testbed.cli.main import main
from testbed.world.profiles import FIELDS, load_profile, packaged_profiles
from venn.wire.errors import UsageError

DEVICES = {"pi-zero-2", "pi-4", "pi-5", "phone-low", "phone-mid", "phone-high", "tablet"}
LINKS = {"wifi", "lte", "3g", "satellite", "ethernet"}


@pytest.mark.parametrize("name", sorted(DEVICES | LINKS))
def test_each_packaged_profile_is_whole_and_says_its_sources(name: str) -> None:
    found = load_profile(name)
    assert found.about
    assert all(value.source for value in found.values.values())
    least = set(FIELDS) - {"delay", "jitter", "loss"} if name in DEVICES else {"up", "down"}
    assert least <= set(found.values)


def test_all_are_listed() -> None:
    assert set(packaged_profiles()) == DEVICES | LINKS


def test_a_faster_pi_has_the_higher_score_and_the_more_cores() -> None:
    slow, middle, fast = (load_profile(name).values for name in ("pi-zero-2", "pi-4", "pi-5"))
    for key in ("cpu", "cores"):
        assert float(slow[key].value) < float(middle[key].value) < float(fast[key].value)


def test_a_profile_extends_another_and_overrides_one_field(tmp_path: Path) -> None:
    (tmp_path / "hot.yaml").write_text("extends: pi-4\ncores: 0.1\n")
    hot, pi = load_profile("hot.yaml", folder=tmp_path), load_profile("pi-4")
    assert hot.values["cores"].value == 0.1
    assert {**hot.values, "cores": None} == {**pi.values, "cores": None}
    assert hot.about == pi.about


def test_another_link_replaces_the_whole_link(tmp_path: Path) -> None:
    (tmp_path / "wired.yaml").write_text("extends: phone-low\nlink: ethernet\nup: 10 Mbit/s\n")
    values = load_profile("wired.yaml", folder=tmp_path).values
    assert values["down"] == load_profile("ethernet").values["down"]
    assert values["up"].value == "10 Mbit/s"
    assert "delay" not in values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: pi-9\n", "there is no profile 'pi-9'"),
        ("extends: mine.yaml\n", "extends itself"),
        ("up: -4 Mbit/s\n", "'-4 Mbit/s' is below 0"),
        ("up: 4\n", "'4' has no unit"),
        ("up: 0 Mbit/s\n", "'0 Mbit/s' is not above 0"),
        ("loss: 100%\n", "leaves nothing"),
        ("cores: yes please\n", "'yes please' is"),
        ("speed: 4\n", "speed is not a key of a profile"),
        ("cores: {value: 1, sorce: me}\n", "other keys than value and source"),
        ("cores: [1]\n", "cores is not a value"),
        ("- 1\n", "is not a profile"),
        ("a: [\n", "is not YAML"),
        ("about: 2026-02-30\n", "is not YAML: day is out of range for month"),
        ("about: &a [1]\nlink: *a\n", "an alias has no meaning in a profile"),
        ("cores: " + "[" * 1000 + "\n", "nested deeper than 10 levels"),
        ("cores: " + "9" * 5000 + "\n", "is not YAML"),
        ("# " + "x" * 100_000, "is larger than 100 kB"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UsageError) as told:
        load_profile("mine.yaml", folder=tmp_path)
    assert message in str(told.value)
    assert told.value.fix


def test_the_command_prints_each_value_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "show", "pi-4", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["values"]["cores"]["value"] == 0.25
    assert shown["values"]["up"]["profile"] == "wifi"
    assert main(["profile", "list"]) == 0
    assert "satellite" in capsys.readouterr().out


def test_an_unknown_profile_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "show", "pi-44"]) == 2
    assert "did you mean pi-4" in capsys.readouterr().err
