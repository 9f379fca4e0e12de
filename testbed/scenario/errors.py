"""What is wrong in a scenario: every problem with its place, the first one as the error's own line."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.scenario.places import KeyPath
from venn.wire.errors import UsageError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. ``where`` is ``file:line: path.to.key`` as far as it is known."""

    where: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        fix = f"; {self.fix}" if self.fix else ""
        return f"{self.where}: {self.message}{fix}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem at a key; the loader adds its place in the file."""

    path: KeyPath
    message: str
    fix: str = ""


class ScenarioError(UsageError):
    """A scenario that cannot be used. ``problems`` are all that were found, in the order of the file; never empty."""

    def __init__(self, problems: Sequence[Problem], reason: str = "SCENARIO") -> None:
        first = problems[0]
        super().__init__(reason, first.message, where=first.where, fix=first.fix)
        self.problems = tuple(problems)
