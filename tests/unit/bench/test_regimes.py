"""``venn bench regimes``, in miniature."""

from itertools import islice

import numpy as np
import pytest

from testbed.bench import regimes
from testbed.bench.regimes import DAY_S, DAYS, World, among_commuters, among_strangers
from testbed.scenario import load
from testbed.scenario.packaged import named
from testbed.simulate.build import build


class Here:
    """In place of a pool of processes."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, function: object, *arguments: object) -> object:
        from concurrent.futures import Future

        future: Future[object] = Future()
        future.set_result(function(*arguments))  # type: ignore[operator]
        return future


def test_every_policy_is_measured_in_every_regime(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [each for each in regimes.regimes() if each.name in ("even", "even, half asynchronous", "strangers, low")]
    monkeypatch.setattr(regimes, "SEEDS", (1, 2))
    monkeypatch.setattr(regimes, "SCALES", ("scale=0.004", "rounds_scale=0.004"))
    monkeypatch.setattr(regimes, "regimes", lambda: [one for one in some if one.world is None])
    monkeypatch.setattr(regimes, "ProcessPoolExecutor", Here)
    said: list[str] = []
    measured = regimes.run(said.append)
    for regime in ("even", "even, half asynchronous"):
        for policy in regimes.POLICIES:
            mean, low, high = (measured.figures[f"{regime}: {policy} mean{part}"] for part in ("", " low", " high"))
            assert 0 < low <= mean <= high
    assert any(line.startswith("| even | ") for line in said)  # the rule was chosen on it
    assert any(line.startswith("| even, half asynchronous * | ") for line in said)
    assert measured.ratio > 0


def test_the_regimes_are_what_they_are_called() -> None:
    found = {each.name: each for each in regimes.regimes()}
    assert len(found) == 3 * len(regimes.CHANGES) + 14
    assert set(regimes.CHOSEN_ON) <= found.keys()
    scales = ("scale=0.004", "rounds_scale=0.004")
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr(regimes, "SCALES", scales)
        unknown = found["even x3, rounds unknown"].simulation(1)
        half = found["even, half asynchronous"].simulation(1)
        links = found["even, links"].simulation(1)
    assert all(job.spec.rounds is None for job in unknown.jobs)
    assert [job.spec.asynchronous is not None for job in half.jobs[:4]] == [False, True, False, True]
    assert all(job.spec.workload.download_bytes == 20_000_000 for job in links.jobs)


@pytest.mark.parametrize(("among", "sigma"), [(among_strangers, 1.0), (among_commuters, 1.17)])
def test_another_world_goes_on_for_ever(among: World, sigma: float) -> None:
    made = build(load(named("even"), ["scale=0.004", "rounds_scale=0.004"]))
    strange = among(made, 5)
    first, second = islice(strange.trace(), 2)
    assert np.all(np.diff(first.start_s) >= 0)
    assert np.all(first.end_s > first.start_s)
    assert first.end_s.max() <= DAYS * DAY_S <= second.start_s.min() + DAYS * DAY_S
    order = np.lexsort((first.start_s, first.device))
    device, start, end = first.device[order], first.start_s[order], first.end_s[order]
    assert np.all((device[1:] != device[:-1]) | (start[1:] >= end[:-1]))
    assert 3.0 < len(first) / DAYS / strange.devices < 4.0
    assert abs(np.log(first.byte_s).std() - sigma) < 0.1  # of the links
    again = next(among(made, 5).trace())
    assert np.array_equal(first.start_s, again.start_s)
