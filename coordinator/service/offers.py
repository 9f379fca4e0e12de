"""Offers: what all leases of an attempt share is built once; a lease adds its ticket and its remaining time."""

from coordinator.engine.effects import OfferLease
from coordinator.engine.model import EngineSettings
from coordinator.service.convert.devices import offer_bytes, offer_template
from coordinator.service.host import Host
from coordinator.service.jobs import Job, Jobs, Template
from venn.v1 import common_pb2
from venn.wire.tickets import FORMAT, mac_of

TICKET_SPARE_MS = 60_000  # a ticket outlives its lease by this, however late that ends


class Offers:
    """Builds the offers of leases, from the jobs' templates."""

    def __init__(self, host: Host, jobs: Jobs, settings: EngineSettings) -> None:
        self._host, self._jobs, self._settings = host, jobs, settings

    def prepare(self, job: Job, attempt: common_pb2.AttemptKey, task: common_pb2.Task) -> None:
        """An attempt opens: build what its offers share."""
        offer = offer_template(attempt, task, job.key_id, self._settings)
        ticket = common_pb2.TicketPayload(version=FORMAT, attempt=attempt)
        job.templates[(attempt.round, attempt.attempt)] = Template(offer, ticket)

    def offer(self, effect: OfferLease, now: float) -> bytes | None:
        """None if the attempt's task is not known any more: then the lease is not accepted, and ends."""
        job = self._jobs.get(effect.job)
        template = job.templates.get((effect.round, effect.attempt)) if job else None
        if job is None or template is None:
            return None
        ticket = template.ticket
        ticket.device, ticket.lease = effect.device, effect.lease
        ticket.not_after_ms = self._host.wall_ms(effect.ends_at + self._settings.driver_grace_s) + TICKET_SPARE_MS
        payload = ticket.SerializeToString()
        return offer_bytes(
            template.offer,
            effect.lease,
            payload=payload,
            mac=mac_of(payload, job.ticket_key),
            address=job.verified,
            remaining_s=effect.ends_at - now,
        )
