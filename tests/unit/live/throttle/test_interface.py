"""Which interface of a container is shaped."""

from pathlib import Path

import pytest

from testbed.live.throttle.interface import own
from testbed.live.throttle.namespace import RefusedError


def interfaces(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir()
    return folder


@pytest.mark.parametrize("name", ["eth0", "eth3"])  # the number grows each time that it is given back
def test_it_is_the_one_that_leads_out(tmp_path: Path, name: str) -> None:
    assert own(interfaces(tmp_path, "lo", "ifb0", name)) == name


@pytest.mark.parametrize(
    ("names", "said"),
    [(["lo"], "the container has no network"), (["eth0", "eth1"], "the container has eth0 beside eth1")],
)
def test_without_or_with_another_nothing_is_shaped(tmp_path: Path, names: list[str], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        own(interfaces(tmp_path, *names))
