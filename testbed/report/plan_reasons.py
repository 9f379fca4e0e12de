"""Why requests waited, in the words of the plans of a run.

No journal has them: a coordinator makes them only for those who ask. So its events go through a fresh engine again,
with the policy that it had, which is asked after each turn with a new plan.
"""

from collections.abc import Iterator, Mapping

from coordinator.engine.effects import AdoptPlan
from coordinator.engine.engine import Engine
from coordinator.engine.events import PolicyChanged
from coordinator.engine.ids import JobId
from coordinator.engine.plan import Policy
from coordinator.policies.registry import PolicyError, in_file, load_policy, split, summary
from testbed.runfolder.journal import Journal

Told = tuple[float, Mapping[JobId, str]]  # engine seconds, job -> why its request waits


def plan_reasons(journal: Journal) -> list[Told]:
    """The reasons that plans gave, each unless the one before gave the same.

    It breaks off at a policy that is not installed here, or is in a file: a report runs no code that a run names.
    """
    if not journal.lives:
        return list(_of_one(journal, 0.0))
    return [
        told
        for life, part in zip(journal.lives, journal.parts, strict=True)
        for told in _of_one(part, life.started_s - part.started_s)
    ]


def _of_one(journal: Journal, shift_s: float) -> Iterator[Told]:
    """The reasons of plans in one life of the coordinator; ``shift_s`` is added to its times."""
    before: Mapping[JobId, str] = {}
    policy = _installed(journal.settings.policy)
    if policy is None:
        return
    engine = Engine(journal.settings, policy)
    for entry in journal.entries:
        if isinstance(entry.event, PolicyChanged):
            policy = _installed(entry.event.policy)
            if policy is None:
                return
            engine.set_policy(policy)
        effects = engine.handle(entry.event, entry.t)
        if any(isinstance(effect, AdoptPlan) for effect in effects) and engine.plan.reasons != before:
            before = engine.plan.reasons
            yield entry.t + shift_s, before


def rule_of(policy: str) -> str:
    """The one-line description of a policy; empty if it is not installed here, or is in a file."""
    return "" if _installed(policy) is None else summary(policy)


def _installed(name: str) -> Policy | None:
    file, _ = in_file(split(name)[0])
    try:
        return None if file is not None else load_policy(name)
    except PolicyError:
        return None
