"""Who owns each job: the identity that submitted it first, until the job is transferred."""

from collections.abc import Container

from coordinator.engine.ids import JobId
from coordinator.service.facts import Facts, JobOwned
from coordinator.service.identities import Identity


class Owners:
    """The owners of the jobs that the engine knows."""

    def __init__(self, facts: Facts) -> None:
        self._of = {fact.job: fact.owner for fact in facts.of(JobOwned)}  # the ids of keys, as text

    def claim(self, job: JobId, caller: Identity, known: Container[JobId]) -> bool:
        """Whether the caller owns a job; a job that is not ``known`` becomes the caller's. Let the engine hear of it in
        the same turn.
        """
        if job not in known:
            self._of[job] = caller.id
        return self._of.get(job) == caller.id

    def may_see(self, job: JobId, caller: Identity) -> bool:
        """Whether the caller may see and end a job: its owner and administrators."""
        return caller.role == "admin" or self._of.get(job) == caller.id

    def owns(self, job: JobId, caller: Identity) -> bool:
        """Whether the caller owns a job."""
        return self._of.get(job) == caller.id

    def transfer(self, job: JobId, owner: Identity) -> JobOwned:
        """Give a job to another owner; returns the fact to note."""
        self._of[job] = owner.id
        return JobOwned(job, owner.id)

    def inherit(self, old: Identity, new: Identity) -> list[JobOwned]:
        """Give all jobs of one owner to another; returns the facts to note."""
        return [self.transfer(job, new) for job in [job for job, owner in self._of.items() if owner == old.id]]

    def forget(self, job: JobId) -> None:
        """Forget a job that the engine does not know any more."""
        self._of.pop(job, None)
