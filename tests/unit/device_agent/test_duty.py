"""The account of a duty cycle, on a processor that the test plays."""

import pytest

from device_agent.throttle import PERIOD_S, Account


@pytest.mark.parametrize("cores", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("late_s", [0.0, 0.001, 0.004])
def test_a_task_that_never_pauses_gets_its_share(cores: float, late_s: float) -> None:
    account, now, used, running, ran = Account(cores, 0.0), 0.0, 0.0, True, 0.0
    while now < 20.0:
        wait = account.wait_s(running) + late_s
        now += wait
        used = wait if running else 0.0
        ran += used
        account.book(now, used)
        if running and account.empty:
            running = False
        elif not running and account.full:
            running = True
    assert ran / now == pytest.approx(cores, rel=0.05)


def test_what_was_not_used_is_not_saved_up() -> None:
    account = Account(0.5, 0.0)
    account.book(100.0, 0.0)
    account.book(100.0, 2 * 0.5 * PERIOD_S)
    assert account.empty
