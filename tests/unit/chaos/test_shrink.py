"""Cutting a failing script down, with a world that fails by a rule of its own."""

from testbed.chaos.outcome import Outcome, Violation
from testbed.chaos.script import Kind, Script, generate
from testbed.chaos.shrink import described, shrink


def failed(script: Script) -> Outcome:
    return Outcome(script, Violation("LOST", "a response", 3000.0))


def test_what_is_not_needed_for_the_violation_is_left_out() -> None:
    script = generate(5, hours=2.0)
    wanted = {fault for fault in script.faults if fault.at < 3000}
    needed = sorted(wanted, key=lambda fault: fault.at)[1:3]

    def run(smaller: Script) -> Outcome:
        return failed(smaller) if set(needed) <= set(smaller.faults) else Outcome(smaller)

    found = shrink(failed(script), run)
    assert list(found.script.faults) == needed
    assert len(found.script.jobs) == len(found.script.devices) == 1
    assert found.script.hours < 1.0


def test_another_violation_is_no_reason_to_go_on_with_a_script() -> None:
    script = generate(5, hours=2.0)

    def run(smaller: Script) -> Outcome:
        return Outcome(smaller, Violation("STUCK", "otherwise", 1.0))

    assert shrink(failed(script), run).script == script


def test_no_more_worlds_are_run_than_allowed() -> None:
    runs = []

    def run(smaller: Script) -> Outcome:
        runs.append(smaller)
        return Outcome(smaller)

    shrink(failed(generate(5)), run, most_runs=7)
    assert len(runs) == 7


def test_a_failing_script_is_described_in_lines() -> None:
    lines = list(described(failed(generate(5))))
    assert lines[0].startswith("seed 5, policy ")
    assert lines[-1] == "then: LOST at 3000.000 s: a response"
    assert any(Kind.KILL.value in line for line in lines)
