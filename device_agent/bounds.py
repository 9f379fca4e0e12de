"""The bounds of an agent on what jobs can make it hold."""

from dataclasses import dataclass

from venn.wire.bounds import bound


@dataclass(frozen=True, slots=True)
class AgentBounds:
    """The bounds of an agent or a swarm."""

    artifact: int = bound(512 * 2**20, "bytes", "a model, and a job's code", "the offer is declined")
    artifacts: int = bound(
        256 * 2**20, "bytes", "models and code kept for the next task", "those used longest ago are dropped"
    )
    free_disk: int = bound(
        256 * 2**20, "bytes", "disk that stays free, where the agent and its tasks write", "offers are declined"
    )
