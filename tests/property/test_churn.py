"""Whatever a timeline says: what it comes to is in order, repeatable, and hits nobody who is away."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from device_agent.availability import AbsenceKind, generated, without
from testbed.world.absences import Expansion, Member, Members, expand_timeline
from testbed.world.timeline import ENDLESS, GENERATORS, MOMENTS, Entry, Verb
from venn.wire.notation import parse_distribution, parse_rate_of, parse_selector

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


def expand(timeline: list[Entry], seed: int) -> Expansion:
    members = [
        Member(
            f"d-{number}",
            "near" if number < 4 else "far",
            {"site": ("lab",)} if number % 2 else {},
            generated(3, f"d-{number}", parse_distribution("exp(6s)"), parse_distribution("exp(2s)"), 0.2),
        )
        for number in range(COUNT)
    ]
    return expand_timeline(timeline, Members(members), seed=seed, scale=1.0)


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
    for device, absences in found.absences.items():
        assert all(one.from_s < one.until_s <= other.from_s for one, other in pairwise(absences))
        stayed_away = bool(absences) and absences[0].from_s == 0.0 and len(absences) == begun[f"d-{device}"] + 1
        assert stayed_away or len(absences) == begun[f"d-{device}"]


@given(TIMELINES, st.integers(0, 5))
def test_intervals_stay_apart_and_ascend(timeline: list[Entry], seed: int) -> None:
    for device, absences in expand(timeline, seed).absences.items():
        own = generated(3, f"d-{device}", parse_distribution("exp(6s)"), parse_distribution("exp(2s)"), 0.2)
        left = [each for each, _ in zip(without(own, absences), range(20), strict=False)]
        assert [each.number for each in left] == list(range(1, len(left) + 1))
        assert all(one.end_s <= other.start_s for one, other in pairwise(left))
        for each in left:
            assert each.start_s < each.end_s
            assert all(each.end_s <= gone.from_s or each.start_s >= gone.until_s for gone in absences)


@given(st.integers(1, 100), st.sampled_from(["leave", "disconnect", "partition"]), st.integers(0, 9))
def test_parts_are_exact(percent: int, verb: str, seed: int) -> None:
    entry = Entry(Verb(verb), parse_selector(f"{percent}% of all"), 5.0)
    assert len(expand([entry], seed).actions) == int(COUNT * percent / 100 + 0.5)
