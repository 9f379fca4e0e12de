import json

import pytest

from testbed.bench import fidelity
from testbed.bench.figures import Benchmark, Measured
from testbed.cli.main import main


@pytest.mark.parametrize(("saturated", "code"), [((), 0), (("process 1: the processor was busy",), 1)])
def test_figures_of_a_host_that_was_too_busy_end_with_1(
    saturated: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Measured("fidelity", {"jct_s": 2.0}, {"jct_s": 1.9}, 0.95, skipped=("other: none",), saturated=saturated)
    monkeypatch.setattr(fidelity, "BENCHMARK", Benchmark("fidelity", "", lambda say: measured))
    assert main(["bench", "fidelity", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["saturated"] == list(saturated)
    assert main(["bench", "fidelity"]) == code
    out = capsys.readouterr().out
    assert "skipped: other: none" in out
    assert ("TOO BUSY" in out) is bool(saturated)
