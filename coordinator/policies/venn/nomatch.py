"""Venn without tier matching, to see what that is worth."""

from coordinator.policies.venn.policy import Venn


class VennNomatch(Venn):
    """venn that never restricts a request to a tier of devices (an ablation)"""

    name = "venn-nomatch"

    def __init__(self, fairness: float = 0.0) -> None:
        super().__init__(fairness, tiers=1)
