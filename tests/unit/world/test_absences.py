"""Timelines on a handful of devices, worked by hand."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from device_agent.spec import Absence, AbsenceKind
from testbed.testing.worlds import Session, world
from testbed.world import absences as expanding
from testbed.world.absences import Expansion, expand_timeline
from testbed.world.states import RESTART_S, Roster
from testbed.world.timeline import Entry, LinkChange, Pool, Verb
from venn.wire.errors import UsageError
from venn.wire.requirements import Selector, parse_rate_of, parse_selector


def entry(verb: str, of: str, at: float, to: float | None = None, lasts: float | None = None) -> Entry:
    kind = Verb(verb)
    return Entry(kind, parse_rate_of(of) if kind is Verb.CHURN else parse_selector(of), at, to, lasts)


ALWAYS = ((0.0, math.inf),)


def roster(*sessions: Sequence[tuple[float, float]]) -> Roster:
    """Devices with these sessions, (start, end): every other one is `even`, the first two are in the lab."""
    rows = [Session(start, end, device) for device, own in enumerate(sessions) for start, end in own]
    rows.sort(key=lambda row: row.start)
    numbers = range(len(sessions))

    def meant(selector: Selector) -> Pool:
        of = {"": numbers, "even": numbers[::2], "odd": numbers[1::2], "site": numbers[:2]}
        return np.array(of[selector.name], np.int64)

    return Roster(len(sessions), world([], rows).trace, meant, [f"d-{number}" for number in numbers])


def always(count: int) -> Roster:
    return roster(*[ALWAYS] * count)


def expand(entries: Sequence[Entry], devices: Roster, seed: int = 1, scale: float = 1.0) -> Expansion:
    return expand_timeline(entries, devices, seed=seed, scale=scale)


def told(found: Expansion) -> list[tuple[float, str, str]]:
    return [(action.at_s, action.verb.value, action.target) for action in found.actions]


def test_selectors_mean_devices() -> None:
    def of(text: str) -> list[str]:
        return [target for _, _, target in told(expand([entry("leave", text, 5)], always(5)))]

    assert of("all") == ["d-0", "d-1", "d-2", "d-3", "d-4"]
    assert of("odd") == ["d-1", "d-3"]
    assert of("site=lab") == ["d-0", "d-1"]
    assert len(of("60% of all")) == 3
    assert len(of("2 of even")) == 2


def test_a_crash_that_says_not_for_how_long_ends_the_session() -> None:
    found = expand([entry("crash", "all", 4)], roster([(0, 10), (15, 20)]))
    assert found.absences == {0: [Absence(4, 10, AbsenceKind.CRASH)]}
    found = expand([entry("crash", "all", 4)], always(1))
    assert found.absences == {0: [Absence(4, 4 + RESTART_S, AbsenceKind.CRASH)]}


def test_who_is_in_no_session_cannot_crash_but_can_be_cut_off() -> None:
    late = roster([(10, 20)], [(10, 20)])
    assert told(expand([entry("crash", "all", 4), entry("suspend", "all", 5, lasts=3)], late)) == []
    assert len(told(expand([entry("partition", "all", 4, lasts=8)], late))) == 2


def test_those_in_a_session_are_taken_first() -> None:
    devices = roster(*[[(30, 40)]] * 3, *[[(0, 20)]] * 3)
    found = expand([entry("leave", "3 of all", 4)], devices)
    assert [target for _, _, target in told(found)] == ["d-3", "d-4", "d-5"]


def test_who_is_away_is_not_acted_on() -> None:
    found = expand([entry("leave", "all", 2, lasts=5), entry("crash", "all", 4), entry("crash", "all", 8)], always(1))
    assert told(found) == [(2, "leave", "d-0"), (8, "crash", "d-0")]


def test_leave_until_join_and_disconnect_until_reconnect() -> None:
    entries = [entry("leave", "even", 2), entry("disconnect", "odd", 3), entry("join", "all", 6)]
    found = expand([*entries, entry("reconnect", "all", 9)], always(2))
    assert found.absences == {0: [Absence(2, 6, AbsenceKind.LEAVE)], 1: [Absence(3, 9, AbsenceKind.DISCONNECT)]}
    assert told(found)[2:] == [(6, "join", "d-0"), (9, "reconnect", "d-1")]
    for_good = expand([entry("leave", "even", 2)], always(1))
    assert for_good.absences[0][0].until_s == math.inf
    assert for_good.actions[0].until_s is None


def test_a_link_is_changed_once_at_a_time() -> None:
    def limit(of: str, at: float, lasts: float | None) -> Entry:
        return Entry(Verb.LIMIT, parse_selector(of), at, None, lasts, LinkChange(up=1e6))

    found = expand([limit("odd", 2, 4), limit("all", 3, 9), limit("all", 6, None), entry("leave", "all", 4)], always(4))
    limits = [(action.at_s, action.target, action.until_s) for action in found.actions if action.verb is Verb.LIMIT]
    assert limits == [(2, "d-1", 6), (2, "d-3", 6), (3, "d-0", 12), (3, "d-2", 12)]  # then all are away
    assert len(found.absences) == 4
    again = expand([limit("odd", 2, 4), limit("all", 6, None)], always(4)).actions
    assert [action.target for action in again] == ["d-1", "d-3", "d-0", "d-1", "d-2", "d-3"]


def test_who_joins_was_not_there() -> None:
    found = expand([entry("join", "3 of all", 5, to=10)], always(5))
    assert len(found.absences) == len(found.actions) == 3
    for (absence,) in found.absences.values():
        assert absence.from_s == 0.0
        assert 5 <= absence.until_s < 10


def test_who_joins_at_the_start_was_never_away() -> None:
    found = expand([entry("join", "all", 0)], always(3))
    assert told(found) == [(0, "join", "d-0"), (0, "join", "d-1"), (0, "join", "d-2")]
    assert found.absences == {}
    found = expand([entry("join", "2 of all", 0), entry("join", "all", 5)], always(5))
    assert [at for at, _, _ in told(found)] == [0, 0, 5, 5, 5]
    assert list(found.absences.values()) == [[Absence(0, 5, AbsenceKind.LEAVE)]] * 3
    at_once = expand([entry("join", "all", 0), entry("leave", "all", 0), entry("join", "all", 0)], always(1))
    assert told(at_once) == [(0, "join", "d-0"), (0, "leave", "d-0")]
    assert at_once.absences == {0: [Absence(0, math.inf, AbsenceKind.LEAVE)]}


def test_a_storm_hits_its_part_in_three_ways() -> None:
    found = expand([entry("churn", "20%/min of all", 10, to=70, lasts=5)], always(30))
    assert len(found.actions) == 6
    assert sorted(action.verb for action in found.actions) == ["crash"] * 2 + ["disconnect"] * 2 + ["suspend"] * 2
    assert all(10 <= action.at_s < 70 for action in found.actions)


@pytest.mark.parametrize(("verb", "lasts"), [("flap", 2.0), ("on-off", 3.0), ("diurnal", 20.0)])
def test_generators_stay_within_their_time(verb: str, lasts: float) -> None:
    found = expand([entry(verb, "50% of all", 10, to=50, lasts=lasts)], always(4))
    assert len(found.absences) == 2
    for absences in found.absences.values():
        assert all(10 <= each.from_s < each.until_s <= 50 for each in absences)
        assert all(one.until_s <= other.from_s for one, other in pairwise(absences))
        assert len(absences) >= 2


def test_flapping_is_away_and_there_for_as_long() -> None:
    (absences,) = expand([entry("flap", "all", 0, to=10, lasts=1)], always(1)).absences.values()
    assert {each.how for each in absences} == {AbsenceKind.DISCONNECT}
    assert [each.until_s - each.from_s for each in absences] == pytest.approx([1.0] * len(absences))
    assert [b.from_s - a.from_s for a, b in pairwise(absences)] == pytest.approx([2.0] * (len(absences) - 1))


def test_time_scale_multiplies_every_time() -> None:
    (action,) = expand([entry("leave", "all", 10, lasts=4)], always(1), scale=0.5).actions
    assert (action.at_s, action.until_s) == (5.0, 7.0)


def test_programs_come_by_themselves() -> None:
    found = expand([entry("crash", "driver a", 5), entry("suspend", "coordinator", 3, lasts=2)], always(1))
    assert told(found) == [(3, "suspend", "coordinator"), (5, "crash", "driver a")]
    assert not found.absences


@pytest.mark.parametrize(
    "late",
    [entry("leave", "all", 9), entry("leave", "all", 9, to=12), entry("flap", "1 of all", 9, to=99, lasts=1)],
)
def test_a_timeline_that_is_too_large(monkeypatch: pytest.MonkeyPatch, late: Entry) -> None:
    monkeypatch.setattr(expanding, "MOST_ACTIONS", 9)
    with pytest.raises(UsageError, match="the timeline comes to more than 9 actions") as caught:
        expand([entry("leave", "5 of all", 5, lasts=1), late], always(5))
    assert caught.value.where == "churn.1"
