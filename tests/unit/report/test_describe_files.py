"""Populations of scenarios and of files in figures."""

import math
import pickle
from pathlib import Path

import numpy as np
import pytest

from testbed.report.draw_devices import drawings
from testbed.report.population import Compared, Kind, Spread, describe_file, describe_population, over_the_day
from testbed.scenario.requirements import requirement_of
from testbed.world.population import PopulationSpec


def by_name(found: tuple[Compared, ...]) -> dict[str, dict[str, float]]:
    return {each.name: {row.at: row.made for row in each.rows} for each in found}


def asked_nothing(found: tuple[Compared, ...]) -> bool:
    return all(math.isnan(row.asked) and each.worst is None for each in found for row in each.rows)


def test_a_file_of_devices(tmp_path: Path) -> None:
    (tmp_path / "phones.csv").write_text("device,cpu,memory,site\na,1,4e9,lab\nb,3,,lab\nc,5,,\nd,7,8e9,home\n")
    found = describe_file(tmp_path / "phones.csv")
    told = by_name(found)
    assert told["cpu"]["50 %"] == 4
    assert told["memory"]["50 %"] == 6  # GB, of those that report it
    assert told["devices"] == {"all": 4}
    assert told["reported by"] == {"cpu": 100, "memory": 50, "site": 75}
    assert told["site"] == {"lab": 50, "home": 25}
    assert asked_nothing(found)


def test_of_a_label_with_many_values_the_most_frequent(tmp_path: Path) -> None:
    rows = "".join(f"d{n},v{n if n < 20 else 19}\n" for n in range(25))
    (tmp_path / "phones.csv").write_text(f"device,model\n{rows}")
    values = by_name(describe_file(tmp_path / "phones.csv"))["model"]
    assert len(values) == 13
    assert values["v19"] == 24
    assert values["others"] == pytest.approx(32)


def test_a_file_of_sessions(tmp_path: Path) -> None:
    hour = 3600
    lines = (f"{name},{day * 24 * hour + 3 * hour},{day * 24 * hour + 4 * hour}" for day in range(3) for name in "ab")
    (tmp_path / "sessions.csv").write_text("device,start_s,end_s\n" + "\n".join(lines))
    found = describe_file(tmp_path / "sessions.csv")
    told = by_name(found)
    assert told["session"]["50 %"] == pytest.approx(60, rel=0.003)
    assert told["gap"]["5 %"] == pytest.approx(23 * 60, rel=0.003)
    assert told["it holds"] == {"sessions": 6, "devices": 2, "days": pytest.approx(2 + 4 / 24)}
    assert told["check-ins"]["mean"] == pytest.approx(6 / 2 / (2 + 4 / 24))
    assert told["check-ins over the day"]["03:00"] > 10
    assert told["check-ins over the day"]["04:00"] == 0
    assert asked_nothing(found)


def test_dictionaries_of_fedscale(tmp_path: Path) -> None:
    trace = {1: {"active": [0, 60], "inactive": [60, 60]}, 2: {"active": [5], "inactive": [30]}}
    (tmp_path / "trace").write_bytes(pickle.dumps(trace))
    told = by_name(describe_file(tmp_path / "trace"))
    assert told["it holds"]["left out, without any length"] == 1
    assert "gap" not in told  # no device comes twice
    (tmp_path / "capacity").write_bytes(pickle.dumps({1: {"computation": 162.0, "communication": 8000}}))
    told = by_name(describe_file(tmp_path / "capacity"))
    assert told["inference"]["50 %"] == pytest.approx(162)  # ms
    assert told["link"]["50 %"] == pytest.approx(8)  # Mbit/s


def test_the_percentiles_of_a_stream_are_near_the_true_ones() -> None:
    values = np.random.default_rng(1).lognormal(6, 1.5, 20_000)
    spread = Spread()
    for part in np.split(values, 10):
        spread.add(part)
    rows = spread.described("x").rows
    true = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]) / 60
    np.testing.assert_allclose([row.made for row in rows], true, rtol=0.005)


def test_hours_that_were_not_seen_are_not_shown() -> None:
    assert [row.at for row in over_the_day(np.ones(24), 300.0).rows] == ["00:00", "01:00"]
    assert [row.made for row in over_the_day(np.zeros(12), 300.0).rows] == [0]


def test_a_population_of_phones_with_its_requirements() -> None:
    requirements = {"all": requirement_of("all"), "fast": requirement_of("cpu >= 7")}
    found = describe_population(PopulationSpec(count=10**8), requirements, most=2000, days=1.0, seed=1)
    told = by_name(found)
    assert told["eligible"]["all"] == 100
    assert told["eligible"]["fast"] == pytest.approx(50, abs=3)
    kinds = {each.kind for each in found}
    assert kinds == set(Kind)
    assert len(drawings(found)) == 3


def test_a_population_of_files(tmp_path: Path) -> None:
    (tmp_path / "phones.csv").write_text("device,cpu\na,1\nb,9\n")
    (tmp_path / "sessions.csv").write_text("device,start_s,end_s\nb,1,2\n")
    spec = PopulationSpec(devices=tmp_path / "phones.csv", sessions=tmp_path / "sessions.csv")
    found = describe_population(spec, {"fast": requirement_of("cpu >= 7")}, most=100, days=1.0, seed=1)
    assert by_name(found)["eligible"] == {"fast": 50}
    assert asked_nothing(found)
    assert drawings(found)
