"""Chaos as a timeline: as much as was asked for, from the seed alone, in entries that a scenario can have."""

from collections import Counter
from itertools import pairwise

import pytest

from testbed.world.chaos import LOSSES, Chaos
from testbed.world.timeline import Entry, Verb
from venn.wire.requirements import PROGRAMS, Selector, Whom

TEN_MINUTES = Chaos(600.0, 20, 20, 0, 500)
JOBS = ("a", "b", "c", "d")


def of(entry: Entry) -> Selector:
    assert isinstance(entry.of, Selector)
    return entry.of


def test_it_has_as_many_faults_as_were_asked_for() -> None:
    entries = TEN_MINUTES.entries(JOBS, 200, 7)
    kills = Counter(str(entry.of) for entry in entries if entry.verb is Verb.CRASH and of(entry).whom in PROGRAMS)
    assert kills == {"coordinator": 20, **{f"driver {job}": 5 for job in JOBS}}
    losses = Counter[Verb]()
    for entry in entries:
        if of(entry).whom is Whom.ALL:
            losses[entry.verb] += of(entry).count or 0
    assert losses == dict.fromkeys(LOSSES, 100)
    stopped = {of(entry).whom for entry in entries if entry.verb is Verb.SUSPEND}
    assert stopped == {Whom.COORDINATOR, Whom.DRIVER, Whom.ALL}


def test_a_broker_is_there_only_where_it_is_to_be_killed() -> None:
    def of_broker(kills: int) -> list[Verb]:
        entries = Chaos(60.0, 1, 1, kills, 5).entries(JOBS, 20, 7)
        return [entry.verb for entry in entries if of(entry).whom is Whom.BROKER]

    assert of_broker(0) == []
    assert of_broker(3).count(Verb.CRASH) == 3


def test_it_comes_from_the_seed_alone() -> None:
    assert TEN_MINUTES.entries(JOBS, 200, 7) == TEN_MINUTES.entries(JOBS, 200, 7)
    assert TEN_MINUTES.entries(JOBS, 200, 7) != TEN_MINUTES.entries(JOBS, 200, 8)


@pytest.mark.parametrize("chaos", [TEN_MINUTES, Chaos(5.0, 3, 2, 1, 7), Chaos(30.0, 200, 0, 0, 0)])
@pytest.mark.parametrize("seed", range(5))
def test_all_of_it_is_over_in_time_and_a_program_is_back_before_its_next_fault(chaos: Chaos, seed: int) -> None:
    entries = chaos.entries(JOBS, 20, seed)
    assert all(entry.end_s <= chaos.duration_s for entry in entries)
    assert [entry.from_s for entry in entries] == sorted(entry.from_s for entry in entries)
    for whom in PROGRAMS:
        spans = [(entry.from_s, entry.end_s) for entry in entries if of(entry).whom is whom]
        assert all(end < start for (_, end), (start, _) in pairwise(spans))


def test_more_losses_than_devices_take_several_entries() -> None:
    entries = Chaos(60.0, 0, 0, 0, 1000).entries(JOBS, 3, 7)
    assert sum(of(entry).count or 0 for entry in entries) == 1000
    assert max(of(entry).count or 0 for entry in entries) == 3
    for entry in entries:  # each spreads its devices over a time
        assert entry.to_s is not None
        assert entry.to_s > entry.from_s
