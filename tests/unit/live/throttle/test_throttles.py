"""Which means holds which limit, on machines that can more and less."""

from pathlib import Path

import pytest

from testbed.live.throttle.cgroup import Trees
from testbed.live.throttle.means import Machine, checks_of
from testbed.live.throttle.throttles import Plan, make_plan, outside_of
from testbed.scenario.loader import parse
from testbed.world.limits import Limits
from testbed.world.timeline import Verb

JOB = """\
import numpy as np
from job_driver import Job, Result

job = Job(initial=lambda rng: {"w": np.zeros(3)}, on_device=lambda model, task: Result(dict(model)))
"""


def machine(*, groups: str = "", cable: str = "", netem: str = "", cores: int = 8) -> Machine:
    """What refuses each of its means; nothing, if empty."""
    checks = checks_of(2, {"cpu": groups, "memory": groups}, cable, netem or cable)
    return Machine(cores, 8 * 10**9, Trees(2, {}), tuple(checks))


def plan(tmp_path: Path, fleet: str, on: Machine, demand: int = 2) -> Plan:
    (tmp_path / "job.py").write_text(JOB)
    job = f"{{file: job.py, demand: {demand}, rounds: 1, deadline: 9s}}"
    text = f"version: 1\nname: small\njobs:\n  only: {job}\nfleets:\n  pi: {{{fleet}}}\n"
    return make_plan(parse(text, folder=tmp_path), on)


LINK = "up: 1 Mbit/s, delay: 20ms"
ALONE = "count: 2, processes: 2"


def test_the_strongest_means_of_a_whole_machine(tmp_path: Path) -> None:
    made = plan(tmp_path, f"{ALONE}, cores: 0.5, memory_limit: 1 GB, loss: 1%, {LINK}", machine())
    fleet = made.fleets["pi"]
    assert (fleet.cpu, fleet.memory) == ("cgroup v2", "cgroup v2")
    assert (fleet.rate, fleet.delay, fleet.loss) == ("tc", "netem", "netem")
    assert not made.problems


def test_what_the_kernel_holds_of_a_link_is_read_back_from_it(tmp_path: Path) -> None:
    fleet, limits = f"{ALONE}, loss: 1%, {LINK}", Limits(up_bits=1e6, delay_s=0.02, loss=0.01)
    whole = plan(tmp_path, fleet, machine()).fleets["pi"]
    assert whole.by_kernel(limits) == {"up": 1e6, "down": None, "delay": 0.02, "jitter": 0.0, "loss": 0.01}
    without = plan(tmp_path, fleet, machine(netem="no netem")).fleets["pi"]
    assert without.by_kernel(limits) == {"up": 1e6, "down": None}


def test_a_machine_without_netem_relays_delays_and_loses_nothing(tmp_path: Path) -> None:
    made = plan(tmp_path, f"{ALONE}, loss: 1%, {LINK}", machine(netem="no netem"))
    fleet = made.fleets["pi"]
    assert (fleet.rate, fleet.delay, fleet.loss) == ("tc", "relay", "stall in the relay")
    (problem,) = made.problems
    told = "fleets.pi.loss: 1% cannot be enforced; in place of each loss a relay can stall for 0.2 s; no netem"
    assert str(problem).startswith(told)
    assert problem.exit_code == 3


def test_devices_whose_links_the_timeline_changes_have_links(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    text = """\
version: 1
name: small
jobs: {only: {file: job.py, demand: 2, rounds: 1, deadline: 9s}}
fleets: {pi: {count: 2, processes: 2}, phone: {count: 2, delay: 20ms}, other: {count: 2}}
churn: [{at: 1s, limit: pi, up: 1 Mbit/s}, {at: 1s, limit: 1 of phone, link: 3g, delay: 1s, for: 5s}]
"""
    scenario = parse(text, folder=tmp_path)
    made = make_plan(scenario, machine(netem="no netem"))
    assert {name: (each.rate, each.delay, each.linked) for name, each in made.fleets.items()} == {
        "pi": ("tc", "", True),
        "phone": ("relay", "relay", True),
    }
    assert made.fleets["pi"].limits == Limits()
    assert made.fleets["phone"].changes == (Limits(up_bits=768e3, down_bits=1.6e6, delay_s=1.0, jitter_s=0.06),)
    assert {name for name in scenario.fleets if Verb.DISCONNECT in outside_of(scenario, name)} == {"pi", "phone"}
    assert outside_of(scenario, "other") == {Verb.SUSPEND}


def test_a_plain_user_has_the_duty_cycle_and_the_relay(tmp_path: Path) -> None:
    made = plan(tmp_path, f"{ALONE}, cores: 0.5, memory_limit: 1 GB, {LINK}", machine(groups="not root", cable="no"))
    fleet = made.fleets["pi"]
    assert (fleet.cpu, fleet.memory, fleet.rate, fleet.delay) == ("duty cycle", "rlimit", "relay", "relay")
    assert not fleet.namespace


def test_a_swarm_is_relayed(tmp_path: Path) -> None:
    made = plan(tmp_path, f"count: 2, {LINK}", machine())
    assert (made.fleets["pi"].rate, made.fleets["pi"].delay) == ("relay", "relay")


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("cores: 9", "9 cores are more than the 8 of this machine"),
        ("memory_limit: 9 GB", "9 GB are more than this machine has"),
        ("cores: 4", "2 devices at work at once have 8.00 cores"),
    ],
)
def test_more_than_the_machine_has_is_a_problem(tmp_path: Path, limit: str, message: str) -> None:
    made = plan(tmp_path, f"{ALONE}, {limit}", machine())
    assert message in str(made.problems[0])


def test_devices_that_cannot_work_at_once_are_not_summed(tmp_path: Path) -> None:
    assert not plan(tmp_path, "count: 20, processes: 20, cores: 3", machine(), demand=2).problems


def test_nothing_is_planned_where_nothing_is_limited(tmp_path: Path) -> None:
    assert plan(tmp_path, "count: 2", machine()).fleets == {}
