"""A container from within: the user that its root becomes, and its relay.

The relay is started by the container's entrypoint, and held to other limits by a later one. Whoever started it has
become the device by then. So it takes orders from a named pipe and answers into another; both belong to its user alone.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from device_agent.throttle import ANY
from testbed.world.limits import Relayed
from venn.wire.errors import CannotEnforceError, PeerError

if TYPE_CHECKING:
    from testbed.live.throttle.relay import LinkSpec

USER = 1000
HOME = Path("/home/venn")
_DROP = (
    *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"),
    *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"),
)


def dropped(command: Sequence[str]) -> list[str]:
    """The command that runs a command as the user, without capabilities."""
    return [*_DROP, *command] if os.getuid() == 0 else list(command)


@contextmanager
def as_user() -> Iterator[None]:
    """Let root be the user, so that what it makes belongs to the user."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(USER)
    os.seteuid(USER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


PIPES = HOME / "relay"
ORDERS, ANSWERS = "orders", "answers"
ANSWER_WITHIN_S = 10.0  # a container may be slow
MOST_BYTES = 65_536  # of an answer


def start_relay(spec: "LinkSpec", links: Path, counts: Path, *, pipes: Path = PIPES) -> str:
    """Start the relay and return its address. It reads ``links`` and writes ``counts``. Raises PeerError."""
    from testbed.live.throttle.relay import write_specs  # most containers have none

    with as_user():
        write_specs(links, {ANY: spec})
        pipes.mkdir(exist_ok=True)
        for name in (ORDERS, ANSWERS):
            (pipes / name).unlink(missing_ok=True)
            os.mkfifo(pipes / name, 0o600)
    command = [sys.executable, "-m", "testbed.cli.main", "relay", str(links), "--counts", str(counts)]
    both = os.O_RDWR  # it has both ends of either, so that none ends when we or a later one go
    with _opened(pipes / ANSWERS, os.O_RDONLY | os.O_NONBLOCK) as answers:
        with _opened(pipes / ORDERS, both) as its_orders, _opened(pipes / ANSWERS, both) as its_answers:
            relay = subprocess.Popen(dropped(command), stdin=its_orders, stdout=its_answers)
        os.set_blocking(answers, True)
        line = _line(answers)
    if not line:
        raise PeerError("RELAY", f"the relay of this container ended with exit code {relay.wait()}")
    return str(json.loads(line)["listening"][ANY])


def has_relay(pipes: Path = PIPES) -> bool:
    """Whether this container has a relay."""
    return pipes.exists()


def limit_relay(to: Relayed, *, pipes: Path = PIPES) -> None:
    """Give the relay other limits, and wait until it says that they are in force. Raises CannotEnforceError."""
    order = {"device": ANY, "do": "limit", "to": to}
    try:
        with (
            _opened(pipes / ANSWERS, os.O_RDONLY | os.O_NONBLOCK) as answers,
            _opened(pipes / ORDERS, os.O_WRONLY | os.O_NONBLOCK) as orders,  # refused if nobody reads
        ):
            with suppress(BlockingIOError):
                os.read(answers, MOST_BYTES)  # what it said to one that did not wait for it
            os.write(orders, json.dumps(order).encode() + b"\n")
            said = _answer(answers)
    except OSError as error:
        message = f"the relay of this container is not there: {error.strerror}"
        raise CannotEnforceError("NOT_IN_FORCE", message, where="relay") from error
    if {key: said.get(key) for key in to} != to:
        raise CannotEnforceError("NOT_IN_FORCE", f"the link should be {to}, and is {said}", where="relay")


def _answer(answers: int) -> dict[str, object]:
    ready, _, _ = select.select([answers], [], [], ANSWER_WITHIN_S)
    said = json.loads(_line(answers)) if ready else {}
    return said if isinstance(said, dict) else {}


def _line(pipe: int) -> bytes:
    """Read one line of the relay, which writes it as a whole; empty if it has ended."""
    return os.read(pipe, MOST_BYTES)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """Open a pipe as its user: root of a container has no right to what is not its own (DAC_OVERRIDE)."""
    with as_user():
        descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
