"""The relay of a container, with nobody but its two pipes to talk to."""

import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest

from testbed.live.throttle import container
from testbed.live.throttle.relay import LinkSpec
from testbed.world.limits import Relayed
from venn.wire.errors import CannotEnforceError, PeerError

# It outlives whoever has started it, on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
SLOW = Relayed(up_bits=4e5, down_bits=None, delay_s=0.3, jitter_s=0.1, stall=0.02)


@pytest.fixture
def pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Whoever runs this test stays who it is; no relay outlives it."""
    monkeypatch.setattr(container, "as_user", nullcontext)
    monkeypatch.setattr(container, "dropped", list)
    yield tmp_path / "pipes"
    for child in psutil.Process().children():
        if str(tmp_path) in " ".join(child.cmdline()):
            child.kill()
            child.wait()


def start(pipes: Path, spec: LinkSpec) -> str:
    folder = pipes.parent
    return container.start_relay(spec, folder / "links.json", folder / "counts.json", pipes=pipes)


def test_it_is_held_to_other_limits_and_says_so(pipes: Path) -> None:
    assert not container.has_relay(pipes)
    assert start(pipes, LinkSpec(delay_s=0.1)).startswith("127.0.0.1:")
    assert container.has_relay(pipes)
    for to in (SLOW, Relayed(up_bits=None, down_bits=None, delay_s=0.0, jitter_s=0.0, stall=0.0)):
        container.limit_relay(to, pipes=pipes)


def test_one_that_has_ended_holds_nothing(pipes: Path) -> None:
    start(pipes, LinkSpec())
    [process] = [child for child in psutil.Process().children() if str(pipes.parent) in " ".join(child.cmdline())]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pytest.raises(CannotEnforceError, match="is not there"):
        container.limit_relay(SLOW, pipes=pipes)
    start(pipes, LinkSpec())  # as its container does that starts again
    container.limit_relay(SLOW, pipes=pipes)


def test_without_one_nothing_is_held(pipes: Path) -> None:
    with pytest.raises(CannotEnforceError, match="is not there"):
        container.limit_relay(SLOW, pipes=pipes)


def test_one_that_cannot_start_says_how_it_ended(pipes: Path) -> None:
    with pytest.raises(PeerError, match="ended with exit code 2"):
        start(pipes, LinkSpec(host="192.0.2.1"))
