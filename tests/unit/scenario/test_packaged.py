"""Scenarios that come with the testbed, in a checkout and in a wheel."""

from pathlib import Path

import pytest

from testbed.scenario import ScenarioError, load, packaged

ROOT = Path(__file__).parents[3]


def test_a_checkout_has_them_in_examples() -> None:
    assert packaged.packaged_folder() == ROOT / "examples"
    assert {"quick", "three-jobs"} <= packaged.packaged_scenarios().keys()


def test_a_wheel_has_them_in_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "packaged").mkdir()
    (tmp_path / "packaged" / "quick.yaml").touch()
    monkeypatch.setattr(packaged, "_FOLDERS", (tmp_path / "packaged", tmp_path / "examples"))
    assert packaged.packaged("quick") == tmp_path / "packaged" / "quick.yaml"
    monkeypatch.setattr(packaged, "_FOLDERS", (tmp_path / "nowhere",))
    with pytest.raises(ScenarioError, match="are not installed"):
        packaged.packaged_folder()


def test_names() -> None:
    with pytest.raises(
        ScenarioError, match=r"^quik: no such file, and no such scenario comes with the testbed; did you mean quick\?"
    ):
        packaged.packaged("quik")


def test_a_file_comes_before_a_name(folder: Path) -> None:
    assert packaged.named("quick") == ROOT / "examples" / "quick.yaml"
    assert packaged.named("other.yaml") == Path("other.yaml")
    Path("quick").touch()
    assert packaged.named("quick") == Path("quick")


def test_what_is_neither_is_told_with_what_was_meant(folder: Path) -> None:
    with pytest.raises(ScenarioError, match=r"^three-job: no such file, .*; did you mean three-jobs\?"):
        packaged.named("three-job")
    for text in ("three-jobs.yaml", "examples/three-jbos.yml"):
        with pytest.raises(ScenarioError, match=rf"^{text}: no such file; did you mean three-jobs\? It comes with"):
            packaged.named(text)
    with pytest.raises(ScenarioError, match=r"; known are asynchronous, biased-compute, .*, quick, .*, three-jobs$"):
        packaged.named("nowhere-near")
    Path("mine").mkdir()
    with pytest.raises(
        ScenarioError, match=r"^mine: is a folder, not a scenario file; name a scenario file; `venn new`"
    ):
        packaged.named("mine")
    Path("mine", "study.yaml").touch()
    with pytest.raises(ScenarioError, match=r"is a folder, not a scenario file; name the file in it: mine/study.yaml"):
        packaged.named("mine")


@pytest.mark.parametrize("name", sorted(packaged.packaged_scenarios()))
def test_each_is_right(name: str) -> None:
    scenario = load(packaged.packaged(name))
    assert scenario.name == name
