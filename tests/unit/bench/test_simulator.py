"""``venn bench simulator``, in miniature."""

import pytest

from testbed.bench import simulator
from testbed.bench.simulator import crowded

SCALES = ("scale=0.002", "rounds_scale=0.002")


def test_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(simulator, "BY_EVENTS", 300)
    monkeypatch.setattr(simulator, "crowded", lambda _: crowded(SCALES))
    monkeypatch.setattr(
        simulator, "_of_a_fresh_process", lambda say: simulator.bulk_figures((0.0005, 0.001), SCALES, say)
    )
    measured = simulator.run(said.append)
    figures = measured.figures
    assert measured.name == "simulator"
    for name in ("venn_nomatch_checkins_per_s", "venn_checkins_per_s"):
        assert figures[name] > 0 < figures[f"{name}_at_0.001m"]
        assert measured.baseline[name] > 0
    for policy in simulator.POLICIES:  # the baseline schedules
        assert measured.baseline[f"{policy}_leases_per_checkin"] > 0.5
        assert measured.baseline[f"{policy}_checkins_per_plan"] < 300
    for name in ("checkins_per_plan", "trace_rows_per_s", "peak_mib", "even_full_s", "even_full_checkins"):
        assert figures[name] > 0
    assert len(said) > 8
