"""Offers: what all leases of an attempt share is built once; a lease adds its ticket and its remaining time."""

from coordinator.engine.effects import OfferLease
from coordinator.service.convert.devices import offer_bytes, offer_template
from coordinator.service.host import Host
from coordinator.service.jobs import Job, Jobs, Template
from venn.v1 import common_pb2
from venn.wire.tickets import sign

TICKET_GRACE_MS = 60_000  # a ticket outlives its lease by this


class Offers:
    """Builds the offers of leases, from the jobs' templates."""

    def __init__(self, host: Host, jobs: Jobs, accept_within_s: float) -> None:
        self._host, self._jobs, self._accept_within_s = host, jobs, accept_within_s

    def prepare(self, job: Job, attempt: common_pb2.AttemptKey, task: common_pb2.Task) -> None:
        """An attempt opens: build what its offers share."""
        template = offer_template(attempt, task, self._accept_within_s)
        job.templates[(attempt.round, attempt.attempt)] = Template(template, template.offer.attempt)

    def offer(self, effect: OfferLease, now: float) -> bytes | None:
        """None if the attempt's task is not known any more: then the lease is not accepted, and ends."""
        job = self._jobs.get(effect.job)
        template = job.templates.get((effect.round, effect.attempt)) if job else None
        if job is None or template is None:
            return None
        payload = common_pb2.TicketPayload(
            device=effect.device,
            attempt=template.attempt,
            lease=effect.lease,
            not_after_ms=self._host.wall_ms(effect.ends_at) + TICKET_GRACE_MS,
        )
        ticket = sign(payload, job.ticket_key, job.key_id)
        return offer_bytes(template.offer, effect, ticket, job.verified, effect.ends_at - now)
