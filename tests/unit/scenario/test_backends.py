"""Backends of any package: those that are there, and those that cannot be used."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from testbed.scenario import backends
from testbed.scenario.backends import BUILT_IN, SIM, backend_names, backend_spec, needs_of_backends
from testbed.world.limits import LINK
from venn.wire.errors import UsageError


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
        ("no_such_package:SPEC", "the backend other cannot be loaded: No module named 'no_such_package'"),
        ("json:SPEC", "the backend other cannot be loaded: module 'json' has no attribute 'SPEC'"),
        ("json:dumps", "the entry point of the backend other names no BackendSpec"),
    ],
)
def test_one_that_cannot_be_loaded_is_told_and_hinders_no_other(
    installed: dict[str, EntryPoint], names: str, told: str
) -> None:
    installed["other"] = EntryPoint("other", names, "venn.backends")
    with pytest.raises(UsageError, match=told):
        backend_spec("other")
    assert ("other", [("package", "", f"{told}; install its package again")]) in list(needs_of_backends())
    assert backend_spec("process").name == "process"


def test_what_its_code_needs_is_told_with_what_to_install() -> None:
    spec = backends.BackendSpec(name="other", make="no_such_package:make", requires="other[sdk]")
    with pytest.raises(UsageError) as caught:
        spec.load(spec.make)
    assert "backend: other needs the Python package no_such_package" in str(caught.value)
    assert caught.value.fix == "pip install 'other[sdk]'"
