"""Rules of docs/churn.md that hold for any timeline: how many devices, when, and which."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent.spec import AbsenceKind
from tests.unit.world.test_absences import always, entry, expand, roster, told

KINDS = {
    "leave": AbsenceKind.LEAVE,
    "crash": AbsenceKind.CRASH,
    "disconnect": AbsenceKind.DISCONNECT,
    "partition": AbsenceKind.PARTITION,
    "suspend": AbsenceKind.SUSPEND,
}


@given(percent=st.integers(1, 100), devices=st.integers(1, 25))
def test_a_share_is_rounded_half_up(percent: int, devices: int) -> None:
    found = expand([entry("leave", f"{percent}% of all", 5)], always(devices))
    assert len(found.absences) == int(Fraction(percent * devices, 100) + Fraction(1, 2))


@given(wanted=st.integers(1, 8), seed=st.integers(0, 50))
def test_a_time_has_as_many_equal_parts_as_devices_with_one_device_in_each(wanted: int, seed: int) -> None:
    found = expand([entry("leave", f"{wanted} of all", 10, to=50)], always(8), seed=seed)
    times = [at for at, _, _ in told(found)]
    assert [int((at - 10) / 40 * wanted) for at in times] == list(range(wanted))
    assert len({target for _, _, target in told(found)}) == wanted


@pytest.mark.parametrize("verb", KINDS)
def test_each_verb_makes_its_kind_of_absence(verb: str) -> None:
    ((absence,),) = expand([entry(verb, "all", 4, lasts=3)], always(1)).absences.values()
    assert (absence.from_s, absence.until_s, absence.how) == (4, 7, KINDS[verb])


@pytest.mark.parametrize("verb", ["crash", "suspend"])
def test_only_devices_in_a_session_can_be_crashed_or_suspended(verb: str) -> None:
    found = expand([entry(verb, "all", 4, lasts=3)], roster([(0, 9)], [(5, 9)], [(0, 3)]))
    assert [target for _, _, target in told(found)] == ["d-0"]


@given(seed=st.integers(0, 2**40))
def test_the_same_seed_takes_the_same_devices(seed: int) -> None:
    entries = [entry("leave", "30% of all", 2, to=9, lasts=4), entry("crash", "2 of odd", 5)]
    first, again = expand(entries, always(12), seed=seed), expand(entries, always(12), seed=seed)
    assert first.absences == again.absences
    assert first.actions == again.actions
