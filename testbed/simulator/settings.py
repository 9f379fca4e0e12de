"""The engine's settings in virtual time: nobody is silent, nobody is slow to answer, and nobody is too many."""

import math

from coordinator.engine.model import EngineSettings
from coordinator.policies.registry import tiers_of

_NO_BOUND = 2**62


def simulated_settings(seed: int, policy: str) -> EngineSettings:
    """Where a device is alive, answers at once and says when it leaves, no time of the protocol ever runs out."""
    return EngineSettings(
        seed=seed,
        policy=policy,
        tiers=tiers_of(policy),
        liveness_s=math.inf,
        accept_timeout_s=math.inf,
        recovery_grace_s=0.0,
        no_work_patience_s=math.inf,
        most_sessions=_NO_BOUND,
        most_devices=_NO_BOUND,
        most_jobs=_NO_BOUND,
    )
