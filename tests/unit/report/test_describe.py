"""What was made against what was asked."""

import numpy as np
import pytest

from testbed.report.draw_devices import drawings
from testbed.report.population import Compared, Kind, Row, describe_fleets, describe_phones, drawn_from
from testbed.world.fleets import FleetSpec
from venn.wire.notation import parse_distribution


@pytest.fixture(scope="module")
def of_phones() -> dict[str, Compared]:
    return {each.name: each for each in describe_phones(5000, 3.0, 1)}


def test_the_phones_are_made_as_asked(of_phones: dict[str, Compared]) -> None:
    for name in ("inference", "link", "session", "gap"):
        for row in of_phones[name].rows[1:-1]:  # the ends of a curve are known from few phones
            assert row.made == pytest.approx(row.asked, rel=0.08), (name, row)
    for name, most in (("correlations of logarithms", 0.03), ("regions", 4.0), ("check-ins", 0.5)):
        assert abs(of_phones[name].worst.made - of_phones[name].worst.asked) < most


def test_phones_come_back_as_the_day_goes(of_phones: dict[str, Compared]) -> None:
    hours = of_phones["return of those that are away"]
    assert [row.at for row in hours.rows] == [f"{hour:02}:00" for hour in range(24)]
    for row in hours.rows:
        assert row.made == pytest.approx(row.asked, rel=0.12)


def test_a_gap_that_is_cut_off_by_the_end_makes_the_others_no_shorter(of_phones: dict[str, Compared]) -> None:
    last = of_phones["gap"].rows[-1]
    assert last.made == pytest.approx(last.asked, rel=0.03)


def test_fleets_by_what_they_draw() -> None:
    fleet = FleetSpec(
        name="budget",
        count=200,
        cpu=parse_distribution("1..4", "number"),
        memory=parse_distribution("2 GB", "bytes"),
        session=parse_distribution("exp(8s)"),
        gap=parse_distribution("4s"),
    )
    found = {each.name: each for each in describe_fleets([fleet], seed=1, time_scale=0.5)}
    assert list(found) == ["budget cpu", "budget session"]  # what is constant is what it is
    assert found["budget cpu"].rows[2].asked == 2.5
    median = found["budget session"].rows[2]
    assert median.asked == pytest.approx(4 * np.log(2))
    assert median.made == pytest.approx(median.asked, rel=0.1)


def test_the_worst_row_is_the_one_to_look_at() -> None:
    rows = (Row("5 %", 1.0, 1.5), Row("50 %", 100.0, 110.0))
    assert Compared("x", "", Kind.PERCENTILES, rows).worst is rows[0]
    assert Compared("x", "", Kind.PARTS, rows).worst is rows[1]
    nothing = drawn_from("x", "s", parse_distribution("exp(8s)"), np.empty(0))
    assert all(row.made == 0 for row in nothing.rows)


def test_figures_show_every_row(of_phones: dict[str, Compared]) -> None:
    made = drawings(list(of_phones.values()))
    assert [drawing.name for drawing in made] == ["population-percentiles", "population-parts", "population-hours"]
    assert sum(len(drawing.rows) for drawing in made) == sum(len(each.rows) for each in of_phones.values())
    assert drawings([]) == []
