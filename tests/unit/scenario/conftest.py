"""A scenario that shows every part of the format, and what is told of a wrong one."""

from pathlib import Path

import pytest

from testbed.scenario import Scenario, ScenarioError, load

# The file of the product's description, with its churn.
THREE_JOBS = """\
version: 1
name: three-jobs
seed: 7
policy: venn              # see `venn policy list`, or FILE.py:NAME for your own
backend: process          # real processes here; sim = virtual time; compose = containers
duration: 4m              # give up after this

requirements:             # which devices may serve a job; jobs with the same one form a job group
  any:      all
  roomy:    memory >= 4 GB
  powerful: memory >= 4 GB and cpu >= 7

data:                     # split over all devices; each keeps its own share, a fifth is held out
  digits: {source: sklearn-digits, split: dirichlet(3.0), held_out: 20%}

every_job:                # what each job below inherits
  {data: digits, min_response: 80%, deadline: 15s, workload: {compute: 4s}}
jobs:
  handwriting:            # learns to read digits, on any device
    {file: digits.py, requirement: any, demand: 20, rounds: 18, params: {epochs: 40}}
  tablet-pen:             # the same, on fewer devices, arriving later
    {file: digits.py, requirement: roomy, demand: 16, rounds: 15, params: {epochs: 40}, arrives: 5s}
  label-count:            # a histogram, no learning, on the scarcest devices
    {file: labels.py, requirement: powerful, demand: 10, over_commit: 20%, rounds: 8, arrives: 10s}

every_device:             # a task takes its compute time divided by the device's cpu
  session: exp(8s)        # stays about this long (exponential, mean 8 s) ...
  gap: exp(4s)            # ... is gone about this long, and comes back
  crash: 30%              # of the sessions end without a goodbye
  tasks_per_session: 1
fleets:
  budget:   {count: 48, cpu: 1..4,  memory: 2 GB}
  midrange: {count: 32, cpu: 4..6,  memory: 6 GB}
  flagship: {count: 20, cpu: 7..16, memory: 12 GB}
  bench:    {count: 4, cpu: 8, memory: 8 GB, processes: 4}   # a process each; the others share one

churn:                    # on top of the sessions (comes with the emulation issue)
  - {at: 30s, crash: 25% of flagship}
  - {at: 45s, disconnect: 30% of budget, for: 10s}

expect:                   # exit code 1 if one of these does not hold
  - unfinished_jobs == 0
  - jobs.handwriting.accuracy >= 0.90
  - jobs.tablet-pen.accuracy >= 0.90
  - responses_lost == 0
"""
_HEAD, _REST = THREE_JOBS.split("churn:", 1)
PLAIN = _HEAD + _REST[_REST.index("expect:") :]  # without churn


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the two job files."""
    for name in ("digits.py", "labels.py"):
        (tmp_path / name).write_text("job = ...\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def three_jobs(folder: Path) -> Scenario:
    return write(folder, PLAIN)


def write(folder: Path, text: str) -> Scenario:
    (folder / "three-jobs.yaml").write_text(text)
    return load("three-jobs.yaml")


def problems(text: str | bytes, *overrides: str) -> list[str]:
    """What is told of a scenario.yaml in the current folder."""
    Path("scenario.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ScenarioError) as caught:
        load("scenario.yaml", overrides)
    assert caught.value.exit_code == 2
    assert str(caught.value) == str(caught.value.problems[0])
    return [str(problem) for problem in caught.value.problems]
