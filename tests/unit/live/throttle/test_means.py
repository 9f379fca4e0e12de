"""What the doctor makes of trials that went and trials that were refused."""

from testbed.live.throttle.cgroup import NONE
from testbed.live.throttle.means import FIELDS, Machine, checks_of


def test_every_field_has_a_means_where_all_trials_went() -> None:
    machine = Machine(2, 10**9, NONE, tuple(checks_of(1, {"cpu": "", "memory": ""}, "", "")))
    assert [machine.means(field) for field in FIELDS] == ["cgroup", "cgroup", "tc", "netem", "netem", "relay"]


def test_what_was_refused_is_told_with_a_fix() -> None:
    refused = {"cpu": "EPERM", "memory": "EPERM"}
    machine = Machine(2, 10**9, NONE, tuple(checks_of(2, refused, "tc refused", "tc refused")))
    assert machine.means("cpu") == "duty cycle"
    assert machine.means("loss") is None
    assert machine.why_not("loss").startswith("tc refused; run as root")
    assert machine.why_not("cpu").startswith("EPERM; run as root")
    assert all(";" in each.says for each in machine.checks if not each.passed)
