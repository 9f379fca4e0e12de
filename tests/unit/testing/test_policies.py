"""``check_policy`` finds each rule that a policy breaks, and names it."""

from dataclasses import replace

import pytest

from coordinator.engine.ids import RequestId
from coordinator.engine.plan import Plan, View
from coordinator.policies.fifo import Fifo
from testbed.testing.policies import BrokenRule, check_policy


class ChangesTheView(Fifo):
    def plan(self, view: View) -> Plan:
        view.supply.clear()  # type: ignore[attr-defined]
        return super().plan(view)


class ReturnsLists(Fifo):
    def plan(self, view: View) -> Plan:
        return replace(super().plan(view), queues=[])  # type: ignore[arg-type]


class TargetsTooMuch(Fifo):
    def plan(self, view: View) -> Plan:
        return replace(super().plan(view), targets={one.request: one.places + 1 for one in view.requests})


class RestrictsToNothing(Fifo):
    def plan(self, view: View) -> Plan:
        return replace(super().plan(view), tiers={one.request: view.tiers for one in view.requests})


class LeavesOut(Fifo):
    def plan(self, view: View) -> Plan:
        return Plan(queues=(tuple(one.request for one in view.requests[1:]),))


class Remembers(Fifo):
    plans = 0

    def plan(self, view: View) -> Plan:
        self.plans += 1
        (queue,) = super().plan(view).queues or ((),)
        return Plan(queues=(queue[::-1] if self.plans > 3 else queue,))


class ChangesItsPlan(Fifo):
    """The same order, in a mapping that it goes on using."""

    def __init__(self) -> None:
        self.targets: dict[RequestId, int] = {}

    def plan(self, view: View) -> Plan:
        self.targets.clear()
        self.targets.update({one.request: one.places for one in view.requests})
        return replace(super().plan(view), targets=self.targets)


class OrdersByHash(Fifo):
    def plan(self, view: View) -> Plan:
        return Plan(queues=(tuple(one.request for one in sorted(view.requests, key=lambda one: hash(one.job))),))


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (ChangesTheView, "it changes the view"),
        (ReturnsLists, "its queues are not a tuple of tuples"),
        (TargetsTooMuch, "has a target of"),
        (RestrictsToNothing, "is not to be restricted to tier"),
        (LeavesOut, "are in no queue, and no reason says why"),
        (Remembers, "it makes two plans of one view"),
        (ChangesItsPlan, "it changes a plan that it has returned"),
        (OrdersByHash, "its plan depends on the hash seed of the process"),
    ],
)
def test_a_broken_rule_is_named(policy: type[Fifo], rule: str) -> None:
    with pytest.raises(BrokenRule, match=rf"^fifo: .*{rule}"):
        check_policy(policy)


def test_a_policy_that_other_processes_cannot_import_is_refused() -> None:
    class Local(Fifo):
        pass

    with pytest.raises(TypeError, match="put the policy at the top of a module"):
        check_policy(Local)
