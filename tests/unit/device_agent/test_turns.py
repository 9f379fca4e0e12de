"""So many devices of a process connect at a time."""

import asyncio

import pytest

from device_agent.turns import Turns


async def rest() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_so_many_have_a_turn_and_the_next_one_begins_as_one_ends() -> None:
    turns = Turns(most=2, longest_s=3600.0)
    first, _ = await turns.take(), await turns.take()
    third = asyncio.create_task(turns.take())
    await rest()
    assert not third.done()
    first()
    await rest()
    assert third.done()


async def test_a_turn_that_ends_twice_gives_one_turn() -> None:
    turns = Turns(most=1, longest_s=3600.0)
    end = await turns.take()
    end()
    end()
    await turns.take()
    other = asyncio.create_task(turns.take())
    await rest()
    assert not other.done()
    other.cancel()


async def test_who_reaches_nobody_holds_up_others_for_no_longer_than_a_turn() -> None:
    turns = Turns(most=1, longest_s=0.01)
    await turns.take()
    await turns.take()


async def test_who_stops_waiting_takes_no_turn() -> None:
    turns = Turns(most=1, longest_s=3600.0)
    end = await turns.take()
    waiting = asyncio.create_task(turns.take())
    await rest()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    end()
    await turns.take()
