"""Venn with the simpler form of line 6, to see what the present one is worth."""

from coordinator.policies.venn.policy import Venn


class VennQueue(Venn):
    """venn that compares whole queues, requests included that would not be served sooner (an ablation)"""

    name = "venn-queue"
    whole_queues = True
