"""Admits devices: those that show a ticket that the coordinator signed for this job and that has not expired."""

import time

from venn.v1.common_pb2 import Ticket, TicketPayload
from venn.wire import tickets


class Admission:
    """The job's ticket keys, and the coordinator's clock as far as it is known."""

    def __init__(self) -> None:
        self._keys: dict[str, bytes] = {}  # by id; the latest last, and the one before it
        self._ahead_s = 0.0  # coordinator's Unix time less our monotonic time

    def learn_key(self, key_id: str, key: bytes) -> None:
        """A coordinator that restarts has another key. Tickets of the former are still known, to be answered."""
        self._keys.pop(key_id, None)
        self._keys[key_id] = key
        while len(self._keys) > 2:
            del self._keys[next(iter(self._keys))]

    def learn_time(self, now_ms: int) -> None:
        """The coordinator's Unix time, in milliseconds, just heard."""
        self._ahead_s = now_ms / 1000 - time.monotonic()

    def now_ms(self) -> int:
        return round((time.monotonic() + self._ahead_s) * 1000)

    def admit(self, ticket: Ticket) -> TicketPayload:
        """What a genuine, living ticket says. Raises TicketError."""
        key = self._keys.get(ticket.key_id)
        if key is None:
            raise tickets.TicketError("TICKET_FORGED", "the ticket was not signed for this job", fix="take a new offer")
        return tickets.verify(ticket, key, ticket.key_id, now_ms=self.now_ms())

    def seconds_left(self, payload: TicketPayload) -> float:
        return max(0.0, (payload.not_after_ms - self.now_ms()) / 1000)

    def identify(self, challenge: bytes) -> bytes:
        """The proof of holding the newest key. Raises ValueError where the challenge is none, or no key is known."""
        if not self._keys:
            raise ValueError("no key is known yet")
        return tickets.identify_mac(next(reversed(self._keys.values())), challenge)
