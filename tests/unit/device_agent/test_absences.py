"""What a timeline leaves of a device's own intervals."""

import math
from itertools import islice

import pytest

from device_agent.spec import Absence, AbsenceKind, Ending, Interval, always, generated, without
from venn.wire.notation import parse_distribution

OWN = [Interval(1, 0, 10), Interval(2, 20, 30, Ending.CRASH), Interval(3, 40, 50)]


def test_nothing_is_taken_away() -> None:
    assert list(without(OWN, ())) == OWN


@pytest.mark.parametrize(
    ("how", "ends"),
    [
        (AbsenceKind.LEAVE, Ending.GOODBYE),
        (AbsenceKind.CRASH, Ending.CRASH),
        (AbsenceKind.DISCONNECT, Ending.CUT),
        (AbsenceKind.SUSPEND, Ending.SILENT),
        (AbsenceKind.PARTITION, Ending.SILENT),
    ],
)
def test_a_session_that_is_cut_in_two(how: AbsenceKind, ends: Ending) -> None:
    assert list(without(OWN[:1], [Absence(4, 6, how)])) == [Interval(1, 0, 4, ends), Interval(2, 6, 10)]


def test_over_several_sessions() -> None:
    left = list(without(OWN, [Absence(5, 25, AbsenceKind.LEAVE), Absence(28, 45, AbsenceKind.CRASH)]))
    assert left == [Interval(1, 0, 5), Interval(2, 25, 28, Ending.CRASH), Interval(3, 45, 50)]


def test_before_it_first_comes_and_for_good() -> None:
    assert list(without(always(), [Absence(0, 7, AbsenceKind.LEAVE)])) == [Interval(1, 7, math.inf)]
    gone = [Absence(7, math.inf, AbsenceKind.LEAVE)]
    assert list(without(always(), gone)) == [Interval(1, 0, 7)]
    endless = generated(1, "a", parse_distribution("exp(2s)"), parse_distribution("exp(1s)"), 0.0)
    assert all(each.end_s <= 7 for each in without(endless, gone))  # it ends


def test_in_a_gap_it_changes_nothing() -> None:
    assert list(without(OWN, [Absence(12, 15, AbsenceKind.CRASH)])) == OWN


def test_to_a_file_and_back() -> None:
    for absence in (Absence(1.5, 2.5, AbsenceKind.SUSPEND), Absence(0.0, math.inf, AbsenceKind.LEAVE)):
        assert Absence.from_json(absence.to_json()) == absence
    assert list(islice(without(OWN, [Absence(0, math.inf, AbsenceKind.LEAVE)]), 1)) == []
