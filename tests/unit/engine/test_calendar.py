"""The calendar of deadlines."""

import math
import random
from heapq import heappop, heappush

from coordinator.engine.deadlines import Calendar


def test_it_gives_what_a_heap_gives() -> None:
    rng = random.Random(4)
    calendar: Calendar[tuple[float, int]] = Calendar(lambda entry: entry[1] % 3 > 0)
    heap: list[tuple[float, int]] = []
    given, now = 0, 0.0
    for number in range(2000):
        entry = (now + rng.choice((0.0, rng.random(), 30 * rng.random(), 900 * rng.random())), number)
        calendar.note(entry)
        if number % 3:
            heappush(heap, entry)
        if rng.random() < 0.6 and heap:
            assert calendar.soonest <= heap[0][0]
            assert calendar.first() == heap[0]
            assert calendar.soonest == heap[0][0]
            assert calendar.pop() == heappop(heap)
            given += 1
        now += rng.random()
    assert given > 500
    while heap:
        assert calendar.first() == heap[0]
        assert calendar.pop() == heappop(heap)
    assert calendar.first() is None
    assert calendar.soonest == math.inf


def test_what_is_due_before_the_present_second_or_never_is_in_its_place() -> None:
    calendar: Calendar[tuple[float, str]] = Calendar(lambda entry: True)
    for entry in ((7.5, "b"), (math.inf, "never"), (-3.25, "before all")):
        calendar.note(entry)
    assert calendar.first() == (-3.25, "before all")
    calendar.pop()
    assert calendar.soonest == 7.0  # not looked at yet: its second
    assert calendar.first() == (7.5, "b")
    calendar.note((6.5, "a"))
    assert calendar.first() == (6.5, "a")
    assert [calendar.pop(), calendar.pop()] == [(6.5, "a"), (7.5, "b")]
    assert calendar.first() is None


def test_an_entry_that_is_noted_again_while_it_is_asked_about_comes_at_its_new_time() -> None:
    later = {1.0: 1.5, 1.5: 8.0}

    def stands(entry: tuple[float, str]) -> bool:
        moved = later.pop(entry[0], None)
        if moved is not None:
            calendar.note((moved, entry[1]))
        return moved is None

    calendar: Calendar[tuple[float, str]] = Calendar(stands)
    for entry in ((1.0, "moved"), (1.75, "stays")):
        calendar.note(entry)
    assert calendar.first() == (1.75, "stays")
    calendar.pop()
    assert calendar.first() == (8.0, "moved")
