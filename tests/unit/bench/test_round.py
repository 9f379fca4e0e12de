"""``venn bench round`` holds each repetition against the bare one beside it."""

from testbed.bench.rounds import measured


def test_the_ratio_is_of_pairs() -> None:
    """Where the machine is twice as slow for one pair, its ratio is the same."""
    quiet = ([18.0, 20.0, 22.0], [4.0, 5.0, 6.0])
    busy = ([36.0, 40.0, 44.0], [8.0, 10.0, 12.0])
    found = measured([quiet, busy, quiet])
    assert found.ratio == 0.25
    assert found.figures == {"round_ms": 22.0, "round_p95_ms": 44.0}
    assert found.baseline == {"round_ms": 6.0, "round_p95_ms": 12.0}
