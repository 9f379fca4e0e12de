"""The generated phones, and when they are there, against what is known of real ones."""

import numpy as np

from testbed.population.compared import Compared, Kind, Row, drawn_from, percentiles
from testbed.population.copula import PERCENTILES
from testbed.population.day import DAY_S
from testbed.population.describe_sessions import describe_generated
from testbed.population.phones import (
    CORRELATIONS,
    LINK_LOG_SIGMA,
    LINK_MEAN_BIT_S,
    MARGINALS,
    SHARES,
    Phones,
    phones,
)
from testbed.population.sessions import PHONES
from venn.wire.notation import LogNormal


def describe_phones(count: int, days: float, seed: int) -> tuple[Compared, ...]:
    """``count`` phones, and their sessions of so many days."""
    return (*describe_made(phones(count, seed)), *describe_generated(PHONES, count, days * DAY_S, seed))


def describe_made(made: Phones) -> tuple[Compared, ...]:
    """The phones alone."""
    marginals = [
        percentiles(each.name, each.unit, each.asked, getattr(made, each.name), PERCENTILES) for each in MARGINALS
    ]
    link = LogNormal(LINK_MEAN_BIT_S / np.exp(LINK_LOG_SIGMA**2 / 2), LINK_LOG_SIGMA)
    return (
        *marginals,
        drawn_from("link", "Mbit/s", link, made.link, 1e6),
        _correlations(made),
        _regions(made),
    )


def _correlations(made: Phones) -> Compared:
    def of(one: str, other: str) -> float:
        return float(np.corrcoef(np.log(getattr(made, one)), np.log(getattr(made, other)))[0, 1])

    rows = (Row(f"{one}, {other}", asked, of(one, other)) for (one, other), asked in CORRELATIONS.items())
    return Compared("correlations of logarithms", "", Kind.PARTS, tuple(rows))


def _regions(made: Phones) -> Compared:
    found = made.regions()
    rows = (Row(name, 100 * share, 100 * float((found == name).mean())) for name, share in SHARES.items())
    return Compared("regions", "% of phones", Kind.PARTS, tuple(rows))
