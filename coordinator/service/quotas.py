"""Quotas of the owners of jobs: unfinished jobs, and what their drivers make the coordinator record."""

from coordinator.engine.ids import JobId
from coordinator.service.allowances import RECORD_BYTES, Allowances
from coordinator.service.bounds import CoordinatorBounds
from coordinator.service.identities import Identity
from coordinator.service.jobs import Jobs
from coordinator.service.owners import Owners
from venn.wire.bounds import Refusals
from venn.wire.errors import PeerError


class QuotaError(PeerError):
    """The refusal of what is over a quota: TOO_MANY_JOBS or TOO_FAST."""


class Quotas:
    """The quotas of all owners."""

    def __init__(self, bounds: CoordinatorBounds, refusals: Refusals, jobs: Jobs, owners: Owners) -> None:
        self._bounds, self._refusals, self._jobs, self._owners = bounds, refusals, jobs, owners
        self._recorded = Allowances(bounds.owner_at_once, bounds.owner)  # bytes

    def check_recorded(self, me: Identity, size: int) -> None:
        """Note a request of so many bytes that is to be recorded. Raises QuotaError."""
        if not self._recorded.of(me.id).take(size + RECORD_BYTES):
            self._refusals.met("owner", me.name, "too much to record")
            raise QuotaError(
                "TOO_FAST", "this owner's jobs make the coordinator record too much", fix="wait a little, and try again"
            )

    def check_jobs(self, me: Identity, job: JobId) -> None:
        """Check that an owner may have one job more, unless it is there already. Raises QuotaError."""
        if self._jobs.get(job) is not None:
            return
        own = sum(not known.ended and self._owners.owns(known.job, me) for known in self._jobs)
        if own >= self._bounds.jobs_per_owner:
            why = f"{own} jobs of this owner are unfinished"
            self._refusals.met("jobs_per_owner", me.name, why)
            raise QuotaError("TOO_MANY_JOBS", why, fix="end some, or wait until they have finished")
