"""Carries a run's timeline out, and writes down each action at its time.

Devices know their own absences from their population file, so that nothing has to be told to them in time: a process
that crashes kills itself, a swarm's device cuts its connections. What a process cannot do to itself is done here: it is
stopped and goes on again (SIGSTOP, SIGCONT, with all that it has started), and drivers are killed.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from testbed.churn.timeline import Action, Verb
from testbed.live.parts import Part
from venn.wire.files import JsonLines


class Injector:
    """``run`` once. ``program`` finds what an action sends its signal to: None if its target takes care of itself."""

    def __init__(self, actions: Sequence[Action], path: Path, program: Callable[[Action], Part | None]) -> None:
        self._steps = sorted(_steps(actions), key=lambda step: step[0])
        self._path, self._program = path, program
        self._stopped: dict[str, Part] = {}  # by target
        self.killed: list[str] = []  # targets, each as often as it was

    async def run(self, epoch: float) -> None:
        """Until the timeline is over, or cancelled: then nothing stands still any more. Raises PeerError if the disk
        is full. ``epoch`` is the Unix time at which the run's clock starts.
        """
        with JsonLines(self._path) as lines:
            try:
                for at_s, action in self._steps:
                    await asyncio.sleep(epoch + at_s - time.time())
                    if at_s == action.at_s:
                        self._begin(action)
                        lines.write({**action.to_json(), "at": round(time.time(), 6)})
                    else:
                        self._go_on(action.target)
            finally:
                for target in list(self._stopped):
                    self._go_on(target)

    def _begin(self, action: Action) -> None:
        program = self._program(action)
        if program is None or not program.running:
            return
        if action.verb is Verb.SUSPEND:
            program.signal_all(signal.SIGSTOP)
            self._stopped[action.target] = program
        elif action.verb is Verb.CRASH:
            self._go_on(action.target)
            self.killed.append(action.target)
            program.signal_all(signal.SIGKILL)

    def _go_on(self, target: str) -> None:
        if program := self._stopped.pop(target, None):
            program.signal_all(signal.SIGCONT)


def _steps(actions: Sequence[Action]) -> Iterator[tuple[float, Action]]:
    """Each action at its time, and once more when it is over if something must be done then."""
    for action in actions:
        yield action.at_s, action
        if action.verb is Verb.SUSPEND and action.until_s is not None:
            yield action.until_s, action
