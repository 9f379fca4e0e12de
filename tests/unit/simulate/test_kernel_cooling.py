"""Cooling for places that were held in vain, in the compiled loop."""

import numpy as np

from testbed.simulate.compiled import kernel_cooling
from testbed.simulate.compiled.tables import more_room
from testbed.testing.worlds import job
from tests.unit.simulate.kernels import DEVICES, RULES, lease, small, uncompiled

COOLING = uncompiled(kernel_cooling)


def test_who_holds_places_for_longer_than_a_lease_and_a_half_cools_twice_as_long_each_time() -> None:
    t = small([job("a", 2, lease=20.0), job("b", 2, lease=20.0)])
    for now, until in ((20.0, 0.0), (40.0, 70.0), (90.0, 150.0)):
        _, one = lease(t, 0, 5)
        t.run.now = now
        RULES.expire(t, one)
        assert COOLING.cools(t, 0, 5) == (until > 0.0)
        assert not COOLING.cools(t, 1, 5)
        assert not COOLING.cools(t, 0, 6)
        assert t.run.wake == (until or np.inf)
        t.run.wake, t.run.now = np.inf, max(now, until)
        assert not COOLING.cools(t, 0, 5)
    assert t.devices[5].vain == 1


def test_a_response_ends_it() -> None:
    t = small([job("a", 2, lease=20.0)])
    for now in (20.0, 40.0):
        _, one = lease(t, 0, 5)
        t.run.now = now
        RULES.expire(t, one)
    t.run.now = 80.0
    _, one = lease(t, 0, 5)
    RULES.respond(t, one)
    assert t.devices[5].vain == 0
    _, one = lease(t, 0, 5)
    t.run.now = 100.0
    RULES.expire(t, one)
    assert not COOLING.cools(t, 0, 5)


def test_who_has_held_no_place_for_an_hour_begins_anew() -> None:
    for idle, cools in ((3600.0, True), (3600.5, False)):
        t = small([job("a", 2, lease=20.0)])
        _, one = lease(t, 0, 5)
        t.run.now = 20.0
        RULES.expire(t, one)
        t.run.now += idle
        _, one = lease(t, 0, 5)
        t.run.now += 20.0
        RULES.expire(t, one)
        assert COOLING.cools(t, 0, 5) == cools


def test_a_larger_table_has_what_is_not_forgotten_and_whose_job_goes_on() -> None:
    t = small([job(f"{number:02}", 20, lease=20.0) for number in range(12)])
    for row in range(12):
        for device in range(DEVICES):
            slot, one = lease(t, row, device)
            t.run.now += 1.0
            RULES.expire(t, one)
            RULES.close_session(t, slot)
            t.run.heap = t.run.fresh = 0
    COOLING.end_cooling(t, 0, 3)
    t.jobs[1].ended = t.run.now
    assert (t.run.vains, t.devices[3].vain, len(t.vain)) == (12 * DEVICES, 11, 256)
    t = more_room(t)
    assert (t.run.vains, len(t.vain)) == (11 * DEVICES - 1, 1024)
    assert [int(one.vain) for one in t.devices] == [11, 11, 11, 10] + [11] * (DEVICES - 4)
    held = {(int(one.device_no), int(one.job)): float(one.held) for one in t.vain if one.held > 0.0}
    assert held == {
        (device, row): 1.0 for device in range(DEVICES) for row in range(12) if row != 1 and (device, row) != (3, 0)
    }
    for device, row in held:  # each is found where it belongs
        COOLING.end_cooling(t, row, device)
    assert not t.devices["vain"].any()
