"""Asynchronous jobs in virtual time: who is at work, when rounds close, what is too stale."""

import numpy as np

from coordinator.engine.effects import Effect, OfferLease
from coordinator.engine.events import Event, ResponsesRecorded
from coordinator.engine.model import Asynchronous, LeaseEnd, Outcome
from coordinator.policies.fifo import Fifo
from testbed.simulate.events.loop import simulate_events
from testbed.testing.worlds import Session, job, world


def test_a_place_is_leased_again_as_soon_as_its_response_counts() -> None:
    """Two at work of three: 1 s, 2 s and 4 s a task. Worked by hand."""
    flying = job("a", 2, rounds=3, compute=1.0, asynchronous=Asynchronous(2))
    there = [Session(0.0, 100.0, device, slow=slow) for device, slow in enumerate((1.0, 2.0, 4.0))]
    offers: list[tuple[float, str]] = []

    def journal(now: float, event: Event, effects: list[Effect]) -> None:
        offers.extend((now, one.device) for one in effects if isinstance(one, OfferLease))

    outcome = simulate_events(world([flying], there), Fifo(), journal=journal, validate=True)
    # Device 2 takes the place that device 0 gives back at 1 s; at 2 s device 1 gives way to 0, which is free since 1 s.
    assert offers[:4] == [(0.0, "0"), (0.0, "1"), (1.0, "2"), (2.0, "0")]
    assert outcome.attempts.round.tolist() == [1, 2, 3]
    assert outcome.attempts.opened_s.tolist() == [0.0, *outcome.attempts.ended_s[:-1]]
    assert outcome.attempts.counted.tolist() == [2, 2, 2]
    assert (outcome.attempts.filled_s == outcome.attempts.opened_s).all()
    assert outcome.leases[LeaseEnd.COUNTED] == 6


def test_a_response_that_is_too_stale_is_a_straggler() -> None:
    """One device is as slow as ten rounds of the other."""
    flying = job("a", 2, rounds=20, compute=1.0, asynchronous=Asynchronous(1, max_staleness=5))
    there = [Session(0.0, 100.0, device, slow=slow) for device, slow in enumerate((1.0, 10.5))]
    said: list[tuple[int, Outcome]] = []

    def journal(now: float, event: Event, effects: list[Effect]) -> None:
        if isinstance(event, ResponsesRecorded):
            said.extend((event.round, outcome) for _, outcome in event.responses)

    outcome = simulate_events(world([flying], there), Fifo(), journal=journal, validate=True)
    assert (11, Outcome.STRAGGLER) in said
    assert outcome.leases[LeaseEnd.STRAGGLER] == 1
    assert outcome.ended_s.tolist() == [20.0]


def test_a_job_whose_rounds_are_unknown_ends_with_its_last_flush() -> None:
    flying = job("a", 2, rounds=2, known=False, compute=1.0, asynchronous=Asynchronous(2))
    there = [Session(0.0, 100.0, device) for device in range(3)]
    outcome = simulate_events(world([flying], there), Fifo(), validate=True)
    assert outcome.attempts.closed.tolist() == [True, True]
    assert not np.isnan(outcome.ended_s).any()


def test_it_shares_devices_with_a_job_in_rounds() -> None:
    flying = job("a", 3, rounds=10, compute=2.0, asynchronous=Asynchronous(2))
    rounds = job("b", 3, rounds=3, compute=2.0)
    there = [Session(float(device), 60.0, device, slow=1.0 + device / 4) for device in range(5)]
    outcome = simulate_events(world([flying, rounds], there), Fifo(), validate=True)
    assert not np.isnan(outcome.ended_s).any()
    assert outcome.attempts.closed.all()
