"""From a scenario to what is simulated."""

from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from coordinator.engine.model import Repeat, StragglerRule
from coordinator.policies.fifo import Fifo
from coordinator.policies.registry import load_policy
from device_agent.spec import DeviceSpec, Ending
from device_agent.spec import read_population as as_agents_read_it
from testbed.scenario import load
from testbed.scenario.loader import parse
from testbed.scenario.model import Scenario
from testbed.scenario.packaged import packaged
from testbed.simulate.build import build
from testbed.simulate.run import simulate
from testbed.world.arrays import Matching
from testbed.world.fleets import expand, write_population
from venn.wire.errors import UsageError

TEXT = """
version: 1
name: small
seed: 5
backend: sim
duration: 200s
time_scale: 0.5
match: at check-in
noise: 0.2
requirements: {big: memory >= 4 GB}
data: {digits: {source: sklearn-digits}}
jobs:
  late: {demand: 3, rounds: 2, deadline: 20s, arrives: 8s, requirement: big, data: digits, workload: {compute: 3s},
         repeat: allow}
  soon: {demand: 2, max_rounds: 4, deadline: 10s, lease: 30s, min_response: 55%, over_commit: 10%, stragglers: revoke}
every_device: {session: exp(8s), gap: exp(4s), crash: 30%}
fleets:
  plain: {count: 3, cpu: 2, memory: 2 GB, tasks_per_session: 1}
  fine: {count: 2, cpu: 4..8, memory: 8 GB, tasks_per_day: 7, labels: {site: lab}}
  fixed: {count: 1, session: null, gap: null, crash: 0%}
"""


@pytest.fixture
def scenario() -> Scenario:
    return parse(TEXT)


def agents(scenario: Scenario, folder: Path) -> list[DeviceSpec]:
    """The devices as the agents of a live run would read them."""
    devices = expand(scenario.fleet_specs(), seed=scenario.seed, time_scale=scenario.time_scale, data={})
    write_population(folder / "population.jsonl", devices)
    return as_agents_read_it(folder / "population.jsonl")


def test_jobs_are_what_their_drivers_would_submit(scenario: Scenario) -> None:
    soon, late = build(scenario).jobs
    assert (late.spec.job, late.arrives_s, late.rounds) == ("testbed/late/sim", 4.0, 2)
    assert (soon.spec.job, soon.arrives_s, soon.rounds) == ("testbed/soon/sim", 0.0, 4)
    assert (late.spec.rounds, soon.spec.rounds) == (2, None)
    assert (late.spec.deadline_s, late.spec.lease_s, late.spec.workload.compute_s) == (10.0, 10.0, 1.5)
    assert (soon.spec.deadline_s, soon.spec.lease_s) == (5.0, 15.0)
    assert (soon.spec.min_response, soon.spec.over_commit) == (Fraction(11, 20), Fraction(1, 10))
    assert (soon.spec.stragglers, soon.spec.demand) == (StragglerRule.REVOKE, 2)
    assert (soon.spec.repeat, late.spec.repeat) == (Repeat.ONCE, Repeat.ALLOW)
    assert (late.spec.requirement_name, str(late.spec.requirement)) == ("big", "memory >= 4000000000 and data = digits")
    assert (soon.spec.requirement_name, str(soon.spec.requirement)) == ("all", "all")


def test_devices_are_there_when_their_agents_would_be(scenario: Scenario, tmp_path: Path) -> None:
    made = build(scenario)
    block = next(made.trace())
    devices = agents(scenario, tmp_path)
    assert list(made.names) == [device.device for device in devices]
    assert made.devices == len(devices)
    for number, device in enumerate(devices):
        mine = block.device == number
        asked = list(islice(device.intervals(), int(mine.sum())))
        assert block.start_s[mine].tolist() == [each.start_s for each in asked]
        assert block.end_s[mine].tolist() == [each.end_s for each in asked]
        assert block.interval[mine].tolist() == [each.number for each in asked]
        assert block.crash[mine].tolist() == [each.ends is not Ending.GOODBYE for each in asked]
        assert block.slow[mine].tolist() == [1 / device.numbers["cpu"]] * int(mine.sum())
    assert (np.diff(block.start_s) >= 0).all()


def test_what_devices_can_do(scenario: Scenario) -> None:
    made = build(scenario)
    block = next(made.trace())
    kind = {made.names[device]: made.kinds[kind] for device, kind in zip(block.device, block.kind, strict=True)}
    limits = {made.names[device]: made.limits[kind] for device, kind in zip(block.device, block.kind, strict=True)}
    assert len(made.kinds) == 4  # three plain devices are one kind, two fine ones differ in their cpu
    assert kind["plain-01"] is kind["plain-03"]
    assert kind["plain-02"].numbers == {"cpu": 2.0, "memory": 2e9}
    assert kind["fine-01"].labels["site"] == {"lab"}
    assert kind["fine-01"].labels["data"] == {"digits"}
    assert (limits["plain-01"], limits["fine-02"], limits["fixed-01"]) == ((1, 0), (0, 7), (0, 0))


def test_the_rest(scenario: Scenario) -> None:
    made = build(scenario)
    assert (made.matching, made.noise_sigma, made.until_s) == (Matching.AT_CHECK_IN, 0.2, 200.0)
    assert (made.settings.seed, made.settings.policy) == (5, "venn")


def test_a_device_without_sessions_is_always_there() -> None:
    text = "version: 1\nname: tiny\nbackend: sim\njobs: {a: {demand: 2, rounds: 3, deadline: 9s}}\n"
    text += "fleets: {fixed: {count: 2}}\n"
    made = build(parse(text.replace("deadline: 9s", "deadline: 9s, workload: {compute: 2s}")))
    (block,) = made.trace()
    assert block.end_s.tolist() == [np.inf, np.inf]
    assert simulate(made, Fifo()).ended_s.tolist() == [6.0]


def test_drawn_jobs_and_scales() -> None:
    text = TEXT.replace(
        "noise: 0.2", "scale: 2\nrounds_scale: 0.5\ndrawn_jobs: {count: 2, arrives: exp(10s), repeat: allow}"
    )
    made = build(parse(text))
    assert len(made.jobs) == 4
    by_name = {job.spec.job.split("/")[1]: job for job in made.jobs}
    assert (by_name["late"].spec.demand, by_name["late"].rounds) == (6, 1)
    assert made.devices == 12


def test_a_population_that_is_too_small_for_a_job() -> None:
    text = "version: 1\nname: tiny\nbackend: sim\npopulation: {count: 300}\n"
    text += "jobs: {a: {demand: 300, rounds: 3, deadline: 10m, requirement: cpu >= 7}}\n"
    with pytest.raises(UsageError, match=r"jobs.a.demand: a round asks for 300 devices, and only \d+ can"):
        build(parse(text))
    assert build(parse(text.replace("demand: 300,", "demand: 300, repeat: allow,"))).devices == 300
    assert build(parse(text.replace("cpu >= 7", "all"))).devices == 300


def test_a_population_in_place_of_fleets() -> None:
    text = "version: 1\nname: tiny\nbackend: sim\n"
    text += "jobs: {a: {demand: 2, rounds: 3, deadline: 10m, requirement: cpu >= 7}}\n"
    made = build(parse(text + "population: {count: 300, tasks_per_session: 1, tasks_per_day: 2}\n"))
    assert (made.devices, made.names, len(made.kinds)) == (300, (), 2)
    assert (made.tasks_per_session, made.tasks_per_day, made.limits) == (1, 2, ())
    assert not np.isnan(simulate(made, Fifo()).ended_s).any()


def test_it_runs(scenario: Scenario) -> None:
    outcome = simulate(build(scenario), Fifo(), validate=True)
    assert outcome.digest == simulate(build(scenario), Fifo()).digest
    assert outcome.wall_s > 0
    assert outcome.path == "events"


def test_the_packaged_demo_shows_what_a_policy_is_worth() -> None:
    means = {}
    for policy in ("fifo", "venn"):
        scenario = load(packaged("three-jobs"), ["backend=sim", f"policy={policy}"])
        outcome = simulate(build(scenario), load_policy(policy))
        arrivals = [job.arrives_s for job in build(scenario).jobs]
        means[policy] = float(np.mean(outcome.ended_s - arrivals))
    assert means["venn"] < means["fifo"]  # an unfinished job would make it NaN
