"""The generated phones against the facts."""

import numpy as np
import pytest

from testbed.world.capabilities import (
    BENCHMARKED,
    CORRELATIONS,
    LINK_LOG_SIGMA,
    LINK_MEAN_BIT_S,
    MARGINALS,
    PERCENTILES,
    SHARE_TOLERANCE,
    SHARES,
    phones,
)

MANY = phones(100_000, seed=1)


@pytest.mark.parametrize("marginal", MARGINALS, ids=lambda marginal: marginal.name)
def test_percentiles(marginal) -> None:  # type: ignore[no-untyped-def]
    """The part of phones up to each value is the percentile; stepped values jump over it."""
    made = np.sort(getattr(MANY, marginal.name))
    for part, value in zip(PERCENTILES, marginal.asked, strict=True):
        below = np.searchsorted(made, value * (1 - 1e-9)) / len(made)
        up_to = np.searchsorted(made, value * (1 + 1e-9), side="right") / len(made)
        assert below - 0.006 <= part <= up_to + 0.006


@pytest.mark.parametrize("pair", CORRELATIONS, ids=", ".join)
def test_correlations_of_logarithms(pair: tuple[str, str]) -> None:
    one, other = (np.log(getattr(MANY, name)) for name in pair)
    assert np.corrcoef(one, other)[0, 1] == pytest.approx(CORRELATIONS[pair], abs=0.01)


def test_regions_are_as_large_as_those_of_the_benchmarked_phones() -> None:
    assert sum(SHARES.values()) == pytest.approx(1)
    assert round(SHARES["high-performance"] * BENCHMARKED) == 417
    regions = MANY.regions()
    assert set(regions) == set(SHARES)
    for name, share in SHARES.items():
        assert abs((regions == name).mean() - share) < SHARE_TOLERANCE, name


def test_the_facts_on_the_cpu_score_contradict_each_other() -> None:
    """Which is why the shares are met with a tolerance: half of the phones are below the median."""
    median = MARGINALS[0].asked[PERCENTILES.index(0.50)]
    assert median < 7
    assert SHARES["high-performance"] + SHARES["compute-rich"] > 0.5


def test_links() -> None:
    assert MANY.link.mean() == pytest.approx(LINK_MEAN_BIT_S, rel=0.02)
    assert np.log(MANY.link).std() == pytest.approx(LINK_LOG_SIGMA, abs=0.01)


def test_a_phone_depends_on_the_seed_and_its_number_alone() -> None:
    some = phones(10, seed=1, first=500)
    assert some.cpu.tolist() == MANY.cpu[500:510].tolist()
    assert some.link.tolist() == MANY.link[500:510].tolist()
    assert phones(10, seed=2, first=500).cpu.tolist() != some.cpu.tolist()


def test_a_phone_reports_base_units() -> None:
    numbers = {name: column[3] for name, column in MANY.columns().items()}
    assert numbers["memory"] == MANY.ram[3] * 1e9
    assert numbers["inference"] == MANY.inference[3] / 1000
    assert numbers["cpu"] == MANY.cpu[3]
    assert set(numbers) == {"cpu", "memory", "fp16", "inference", "os", "link"}
