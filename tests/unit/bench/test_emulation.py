"""How figures of limits become one ratio."""

import pytest

from testbed.bench import emulation
from testbed.bench.figures import Figures, Untested, folded
from testbed.runfolder.summary import Summary
from venn.wire.errors import UsageError


@pytest.mark.parametrize(
    ("got", "asked", "ratio"), [(0.9, 1.0, 0.9), (1.25, 1.0, 0.8), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)]
)
def test_too_much_is_as_bad_as_too_little(got: float, asked: float, ratio: float) -> None:
    assert folded(got, asked) == pytest.approx(ratio)


def test_the_worst_counts() -> None:
    figures = Figures(lambda text: None)
    figures.add("up_mbit_s", 0.96, 1.0)
    figures.add("delay_ms", 21.0, 20.0)
    figures.add("upload_leases_revoked", 0, 0)
    assert figures.worst == pytest.approx(20 / 21)


async def test_a_backend_that_does_not_run_here_is_untested_and_costs_no_other_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*_: object, **__: object) -> Summary:
        raise UsageError("USAGE", "the image is of another version", fix="make image")

    monkeypatch.setattr(emulation, "_run", refuse)
    figures = Figures(lambda text: None)
    untested = await emulation._upload(["compose"], figures, lambda text: None)
    assert untested == [Untested("uploads, backend compose", "the image is of another version; make image")]
    assert figures.got == {}  # nothing was lost of what was not there
