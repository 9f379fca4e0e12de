"""Devices that are known one by one: those of fleets."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from device_agent.availability import Interval
from testbed.churn.wishes import Pool, Wish, generator
from testbed.churn.world import World
from venn.wire.notation import Selector, Whom


@dataclass(frozen=True, slots=True)
class Member:
    """A device that can be selected."""

    device: str
    fleet: str
    labels: Mapping[str, tuple[str, ...]]
    sessions: Iterator[Interval]  # its own, in order; read as far as the timeline goes


class Members:
    """What ``expand_timeline`` takes, of members numbered in their order."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    def pool(self, selector: Selector) -> Pool:
        """Those that a selector means, before it takes a part of them."""
        return np.array([number for number, one in enumerate(self._members) if _meant(selector, one)], np.int64)

    def world(self, wanted: Sequence[Wish], seed: int) -> World:
        """Nothing has been done so far."""
        return _MembersWorld(self._members, seed)


def _meant(selector: Selector, member: Member) -> bool:
    match selector.whom:
        case Whom.ALL:
            return True
        case Whom.FLEET:
            return member.fleet == selector.name
        case Whom.LABEL:
            return selector.value in member.labels.get(selector.name, ())
        case Whom.COORDINATOR | Whom.BROKER | Whom.DRIVER:
            return False
        case _:
            assert_never(selector.whom)


class _MembersWorld(World):
    """Looks at one device after the other, in a new order for each wish."""

    def __init__(self, members: Sequence[Member], seed: int) -> None:
        super().__init__()
        self._members = members
        self._seed = seed
        self._read: list[list[Interval]] = [[] for _ in members]  # of each device's own sessions, so far

    def name(self, device: int) -> str:
        return self._members[device].device

    def choose(self, wish: Wish, turn: int) -> Sequence[int]:
        if isinstance(wish.of, int):
            return [wish.of] if self.can(wish, wish.of) else []
        chosen: list[int] = []
        spare: list[int] = []
        for device in generator(self._seed, wish.entry, f"turn {turn}").permutation(wish.of).tolist():
            if len(chosen) == wish.count:
                break
            if self.can(wish, device):
                (spare if self.session_end(device, wish.at_s) is None else chosen).append(device)
        return [*chosen, *spare[: wish.count - len(chosen)]]

    def session_end(self, device: int, at: float) -> float | None:
        read = self._read[device]
        while not read or read[-1].start_s <= at:
            following = next(self._members[device].sessions, None)
            if following is None:
                break
            read.append(following)
        index = bisect_right(read, at, key=lambda each: each.start_s) - 1
        return read[index].end_s if index >= 0 and at < read[index].end_s else None
