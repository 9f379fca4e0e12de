"""Whatever a timeline says: what it comes to is in order, repeatable, and hits nobody who is away."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, pairwise, takewhile
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from device_agent.spec import AbsenceKind, Ending, Interval, generated, without
from testbed.testing.worlds import Session, world
from testbed.world import absences
from testbed.world.absences import Expansion, expand_timeline
from testbed.world.states import OVER, WHILE_THERE, Roster, States
from testbed.world.timeline import ENDLESS, GENERATORS, MOMENTS, Entry, Pool, Selection, Verb
from venn.wire.notation import parse_distribution
from venn.wire.requirements import Selector, parse_rate_of, parse_selector

COUNT = 12
SELECTORS = ("all", "25% of all", "5 of all", "near", "50% of site=lab", "far")


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    verb = draw(st.sampled_from(list(Verb)))
    start = draw(st.integers(0, 40)) / 2
    over = verb in GENERATORS or draw(st.booleans())
    lasting = verb not in MOMENTS and (verb not in ENDLESS or draw(st.booleans()))
    of = parse_rate_of("300%/min of all") if verb is Verb.CHURN else parse_selector(draw(st.sampled_from(SELECTORS)))
    to = start + draw(st.integers(4, 40)) / 2 if over else None
    return Entry(verb, of, start, to, draw(st.integers(1, 4)) / 2 if lasting else None)


def own(device: int) -> Iterator[Interval]:
    """The sessions of a device by itself."""
    return generated(3, f"d-{device}", parse_distribution("exp(6s)"), parse_distribution("exp(2s)"), 0.2)


def fleet() -> list[Session]:
    """The sessions of all devices up to time 120, in order."""
    rows = [
        Session(each.start_s, each.end_s, device, crash=each.ends is not Ending.GOODBYE)
        for device in range(COUNT)
        for each in takewhile(lambda each: each.start_s < 120, own(device))
    ]
    return sorted(rows, key=lambda row: (row.start, row.device))


class Watched(States):
    """Looks at every device for each selection, as nobody could who had a million."""

    def __init__(self, rows: Sequence[Session], roster: Roster, selections: Sequence[Selection], seed: int) -> None:
        super().__init__(roster, selections, seed)
        self._rows = rows
        self._changed: dict[int, float] = {}  # until when a device's link is
        self._absent: set[int] = set()  # from the start, and have not joined yet

    def stay_away(self, device: int) -> None:
        super().stay_away(device)
        self._absent.add(device)

    def choose(self, selection: Selection) -> Sequence[int]:
        now, chosen = selection.at_s, super().choose(selection)
        pool = [selection.of] if isinstance(selection.of, int) else selection.of.tolist()
        there = {row.device for row in self._rows if row.start <= now < row.end}
        able = [device for device in pool if self._able(selection, device, there)]
        assert len(set(chosen)) == len(chosen) == min(selection.count, len(able))
        assert set(chosen) <= set(able)
        first = there.intersection(able)
        assert len(first.intersection(chosen)) == min(len(first), len(chosen)) or isinstance(selection.of, int)
        if selection.verb is Verb.JOIN:
            self._absent.difference_update(chosen)
        if selection.verb is Verb.LIMIT:
            lasting = math.inf if selection.for_s is None else selection.for_s
            self._changed.update(dict.fromkeys(chosen, now + lasting))
        return chosen

    def _able(self, selection: Selection, device: int, there: set[int]) -> bool:
        away = self.away(device, selection.at_s)
        if selection.verb in OVER:
            since = away is not None and (away.from_s < selection.at_s or device in self._absent)
            return away is not None and since and away.how in OVER[selection.verb]
        if away is not None or (selection.verb is Verb.LIMIT and selection.at_s < self._changed.get(device, 0.0)):
            return False
        return selection.verb not in WHILE_THERE or device in there


def meant(selector: Selector) -> Pool:
    pools = {"": range(COUNT), "near": range(4), "far": range(4, COUNT), "site": range(1, COUNT, 2)}
    return np.array(pools[selector.name], np.int64)


def expand(timeline: list[Entry], seed: int, rows: Sequence[Session] | None = None) -> Expansion:
    """The timeline on devices with these sessions, a few to a block; None: on those of ``fleet``."""
    rows = fleet() if rows is None else rows
    roster = Roster(COUNT, world([], rows, blocks=3).trace, meant, [f"d-{number}" for number in range(COUNT)])
    with patch.object(absences, "States", partial(Watched, rows)):
        return expand_timeline(timeline, roster, seed=seed, scale=1.0)


TIMELINES = st.lists(entries(), max_size=6)


@given(TIMELINES, st.integers(0, 5))
def test_the_same_again_and_in_order(timeline: list[Entry], seed: int) -> None:
    found = expand(timeline, seed)
    assert found == expand(timeline, seed)
    assert [each.at_s for each in found.actions] == sorted(each.at_s for each in found.actions)
    for each in found.actions:
        last = timeline[each.entry].to_s
        assert timeline[each.entry].from_s <= each.at_s <= (each.at_s if last is None else last)


@given(TIMELINES, st.integers(0, 5))
def test_nobody_is_acted_on_while_away(timeline: list[Entry], seed: int) -> None:
    found = expand(timeline, seed)
    begun = Counter(each.target for each in found.actions if each.verb.value in set(AbsenceKind))
    for device, gone in found.absences.items():
        assert all(one.from_s < one.until_s <= other.from_s for one, other in pairwise(gone))
        stayed_away = bool(gone) and gone[0].from_s == 0.0 and len(gone) == begun[f"d-{device}"] + 1
        assert stayed_away or len(gone) == begun[f"d-{device}"]


@given(TIMELINES, st.integers(0, 5))
def test_intervals_stay_apart_and_ascend(timeline: list[Entry], seed: int) -> None:
    for device, gone in expand(timeline, seed).absences.items():
        left = list(islice(without(own(device), gone), 20))
        assert [each.number for each in left] == list(range(1, len(left) + 1))
        assert all(one.end_s <= other.start_s for one, other in pairwise(left))
        for each in left:
            assert each.start_s < each.end_s
            assert all(each.end_s <= one.from_s or each.start_s >= one.until_s for one in gone)


@given(st.integers(1, 100), st.sampled_from(["leave", "disconnect", "partition"]), st.integers(0, 9))
def test_parts_are_exact(percent: int, verb: str, seed: int) -> None:
    entry = Entry(Verb(verb), parse_selector(f"{percent}% of all"), 5.0)
    assert len(expand([entry], seed).actions) == int(COUNT * percent / 100 + 0.5)
