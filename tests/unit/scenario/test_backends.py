"""Backends of any package: those that are there, and those that cannot be used."""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

import pytest

from testbed.cli import machine
from testbed.cli.main import main
from testbed.live.throttle.means import NOTHING
from testbed.scenario import backends, parse
from testbed.scenario.backends import BUILT_IN, SIM, Need, backend_names, backend_spec, needs_of_backends
from testbed.world.limits import LINK
from venn.wire.errors import UsageError

STANDING = Path(__file__).parents[2] / "standing"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, EntryPoint]]:
    """The entry points, to be added to."""
    found = dict(backends._installed())
    backend_spec.cache_clear()
    monkeypatch.setattr(backends, "_installed", lambda: found)
    yield found
    backend_spec.cache_clear()


def test_the_built_in_ones_are_there_and_say_what_they_enforce() -> None:
    assert set(BUILT_IN) <= set(backend_names())
    assert backend_names()[0] == "process"
    assert backend_names()[-1] == "sim"
    process, compose = backend_spec("process"), backend_spec("compose")
    assert process.limits == compose.limits == {"cores", "memory_limit", *LINK}
    assert SIM.limits == set(LINK)
    assert [process.code_here, compose.code_here, compose.each_device] == [True, False, "container"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("no_such_package:SPEC", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_package'"),
        ("json:SPEC", "cannot be loaded: AttributeError: module 'json' has no attribute 'SPEC'"),
        ("json:dumps", "cannot be loaded: its entry point names one of type function, not a BackendSpec"),
    ],
)
def test_one_that_cannot_be_loaded_is_told_and_hinders_no_other(
    installed: dict[str, EntryPoint], names: str, told: str
) -> None:
    installed["other"] = EntryPoint("other", names, "venn.backends")
    with pytest.raises(UsageError) as caught:
        backend_spec("other")
    assert str(caught.value) == f"the backend other (entry point other = {names}) {told}; install its package again"
    assert str(needs_of_backends()[1]["other"]) == str(caught.value)
    assert backend_spec("process").name == "process"


def test_what_its_code_needs_is_told_with_what_to_install() -> None:
    spec = backends.BackendSpec(name="other", make="no_such_package:make", requires="other[sdk]")
    with pytest.raises(UsageError) as caught:
        spec.load(spec.make)
    assert "backend: other needs the Python package no_such_package" in str(caught.value)
    assert caught.value.fix == "pip install 'other[sdk]'"


def module_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A module ``rack_backend`` of this text, which is found."""
    (tmp_path / "rack_backend.py").write_text(
        "from testbed.scenario.backends import BackendSpec, Leftover, Need\n" + text
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "rack_backend", raising=False)


SPEC = "RACK = BackendSpec(name='rack', checks='rack_backend:checks', leftovers='rack_backend:leftovers')\n"


@pytest.mark.parametrize(
    ("text", "told", "loads"),
    [
        ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero", False),
        ("undefined", "cannot be loaded: NameError: name 'undefined' is not defined", False),
        ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3", False),
        ("RACK = BackendSpec(name='other')", "its BackendSpec has the name 'other'; both must be the same", False),
        ("from testbed.world.timeline import Verb\nRACK = BackendSpec(name='rack', outside=frozenset({Verb.LEAVE}))",
         "ValueError: outside has leave, and can have disconnect, partition, suspend", False),
        (SPEC, "cannot load rack_backend:checks: AttributeError", True),
        (SPEC + "def checks(): raise KeyError('PLACE')\nleftovers = checks", "its checks: KeyError: 'PLACE'", True),
        (SPEC + "def checks(): yield 'a', 'b', ''\nleftovers = checks", "checks gives one of type tuple, not a Need",
         True),
        (SPEC + "def checks(): yield Need('a', 'b', 'c')\nleftovers = checks",
         "ValueError: the need a has both found and missing", True),
        (SPEC + "def checks(): yield Need('a')\nleftovers = checks", "the need a has neither found nor missing", True),
    ],
)  # fmt: skip
def test_a_faulty_one_is_told_by_doctor_and_down_and_hinders_no_other(
    installed: dict[str, EntryPoint],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    told: str,
    loads: bool,
) -> None:
    module_of(tmp_path, monkeypatch, text)
    installed["rack"] = EntryPoint("rack", "rack_backend:RACK", "venn.backends")
    monkeypatch.setattr(machine, "probe", lambda: NOTHING)
    if loads:
        assert backend_spec("rack").name == "rack"
    else:
        with pytest.raises(UsageError) as caught:
            backend_spec("rack")
        assert told in str(caught.value)
    assert main(["doctor", "--json"]) == 1
    doctor = json.loads(capsys.readouterr().out)
    assert told in doctor["faults"]["rack"]["message"]
    assert "entry point rack = rack_backend:RACK" in doctor["faults"]["rack"]["message"]
    assert doctor["faults"]["rack"]["fix"]
    assert "compose" in doctor["backends"]
    assert main(["down", "--dry-run"]) == 4
    assert "FAULTY   rack" in capsys.readouterr().out


def test_down_goes_on_with_the_others_whatever_one_raises(
    installed: dict[str, EntryPoint],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    removes = "def remove(): raise KeyError('gone')\n"
    module_of(tmp_path, monkeypatch, SPEC + removes + "def leftovers(): yield Leftover('rack', 'two', 'p1-s0', remove)")
    installed["rack"] = EntryPoint("rack", "rack_backend:RACK", "venn.backends")
    (tmp_path / "broken_backend.py").write_text("undefined")
    installed["broken"] = EntryPoint("broken", "broken_backend:SPEC", "venn.backends")
    assert main(["down", "--json", "--of", "p1-s0"]) == 4
    said = json.loads(capsys.readouterr().out)
    assert said["removed"] == [{"kind": "rack", "name": "two", "mark": "p1-s0", "failed": "KeyError: 'gone'"}]
    assert list(said["faults"]) == ["broken"]


def test_the_package_of_a_faulty_one_is_named(installed: dict[str, EntryPoint], tmp_path: Path) -> None:
    folder = tmp_path / "rack_devices-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: rack-devices\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[venn.backends]\nrack = json:nothing\n")
    [installed["rack"]] = Distribution.at(folder).entry_points
    with pytest.raises(UsageError) as caught:
        backend_spec("rack")
    assert "(entry point rack = json:nothing of the package rack-devices) cannot be loaded" in caught.value.message
    assert caught.value.fix == "correct its package, or remove it: pip uninstall rack-devices"


def test_what_its_functions_raise_in_a_run_is_told(
    installed: dict[str, EntryPoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module_of(tmp_path, monkeypatch, "def make(run): raise KeyError('PLACE')")
    spec = backends.BackendSpec(name="rack")
    with pytest.raises(UsageError, match=r"the backend rack failed in rack_backend:make: KeyError: 'PLACE'"):
        spec.call("rack_backend:make", None)
    with pytest.raises(UsageError, match=r"the backend rack cannot load rack_backend:none: AttributeError"):
        spec.call("rack_backend:none", None)


@pytest.mark.parametrize("mark", ["", "mine"])
def test_down_takes_only_a_mark(mark: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", "--dry-run", "--of", mark]) == 2
    assert f"--of: {mark!r} is not a mark" in capsys.readouterr().err


@pytest.mark.parametrize("running", [[], ["bench-01"]])
def test_standing_devices_say_what_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: list[str]
) -> None:
    monkeypatch.syspath_prepend(STANDING)
    monkeypatch.setenv("STANDING_DEVICES", str(tmp_path))
    for name in running:
        (tmp_path / name).mkdir()
        (tmp_path / name / "load.jsonl").touch()
    [need] = import_module("standing_devices").checks()
    assert need == (
        Need("devices", found="1 run: bench-01")
        if running
        else Need("devices", missing="no device runs; start their agents")
    )


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (frozenset(), "limit: backend rack cannot limit up, delay; remove it"),
        (frozenset({"up"}), "limit: backend rack cannot limit delay; it can limit up"),
        (frozenset({"up", "delay"}), ""),
    ],
)
def test_a_link_that_it_cannot_limit_is_refused(
    installed: dict[str, EntryPoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: frozenset[str], told: str
) -> None:
    module_of(tmp_path, monkeypatch, f"RACK = BackendSpec(name='rack', limits={limits!r})")
    installed["rack"] = EntryPoint("rack", "rack_backend:RACK", "venn.backends")
    (tmp_path / "job.py").write_text("from job_driver import Job\njob = Job(initial=None, on_device=None)\n")
    text = """\
version: 1
name: small
backend: rack
jobs: {only: {file: job.py, demand: 2, rounds: 1, deadline: 9s}}
fleets: {bench: {count: 2}}
churn: [{at: 1s, limit: bench, up: 1 Mbit/s, delay: 1s}]
"""
    try:
        parse(text, folder=tmp_path)
        said = ""
    except UsageError as error:
        said = str(error)
    assert told in said
    assert bool(told) is ("cannot limit" in said)
