import json

import pytest

from testbed.bench import fidelity
from testbed.bench.figures import Measured, Untested
from testbed.cli.main import main

NONE = (Untested("other", "there is none"),)


@pytest.mark.parametrize(("saturated", "code"), [((), 0), (("process 1: the processor was busy",), 1)])
def test_figures_of_a_host_that_was_too_busy_end_with_1(
    saturated: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Measured("fidelity", {"jct_s": 2.0}, {"jct_s": 1.9}, 0.95, untested=NONE, saturated=saturated)
    monkeypatch.setattr(fidelity, "run", lambda say: measured)
    assert main(["bench", "fidelity", "--json"]) == code
    printed = json.loads(capsys.readouterr().out)
    assert printed["saturated"] == list(saturated)
    assert printed["untested"] == [{"what": "other", "why": "there is none"}]
    assert main(["bench", "fidelity"]) == code
    out = capsys.readouterr().out
    assert "untested: other: there is none" in out
    assert ("TOO BUSY" in out) is bool(saturated)


def test_fidelity_runs_on_one_backend_if_it_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []

    def run(say: object, backends: object) -> Measured:
        asked.append(backends)
        return Measured("fidelity", {"jct_s": 2.0}, {}, 1.0)

    monkeypatch.setattr(fidelity, "run", run)
    assert main(["bench", "fidelity", "--backend", "process"]) == 0
    assert asked == [["process"]]
    assert main(["bench", "fidelity", "--backend", "proces"]) == 2
    assert "did you mean process?" in capsys.readouterr().err
    assert main(["bench", "emulation", "--backend", "process"]) == 2
    assert "emulation does not run on a backend 'process'" in capsys.readouterr().err
