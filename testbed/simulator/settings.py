"""The engine's settings in virtual time: nobody is slow to answer, nobody is too many, and no heartbeats are counted.

Who is silent is known beforehand, so the simulation says it where a live engine would notice (``silent_at``).
"""

import math

from coordinator.engine.model import EngineSettings
from coordinator.policies.registry import tiers_of

LIVE = EngineSettings(seed=0, policy="")  # those of a live coordinator, unless it is told others
_NO_BOUND = 2**62


def silent_at(since_s: float, began_s: float) -> float:
    """When a coordinator that began at ``began_s`` ends the session of a device that says nothing any more."""
    return max(since_s + LIVE.liveness_s, began_s + LIVE.recovery_grace_s)


def simulated_settings(seed: int, policy: str, *, silent: bool = False) -> EngineSettings:
    """Where a device is alive, answers at once and says when it leaves, no time of the protocol ever runs out.

    ``silent``: devices can be out of reach, and take no offer then.
    """
    return EngineSettings(
        seed=seed,
        policy=policy,
        tiers=tiers_of(policy),
        liveness_s=math.inf,
        accept_timeout_s=LIVE.accept_timeout_s if silent else math.inf,
        recovery_grace_s=0.0,
        no_work_patience_s=math.inf,
        most_sessions=_NO_BOUND,
        most_devices=_NO_BOUND,
        most_jobs=_NO_BOUND,
    )
