"""Pages of devices, and names near a mistyped one, look at no more devices than they show."""

from typing import Any, cast

from coordinator.engine.effects import OpenSession
from coordinator.engine.ids import DeviceId, SessionSeq
from coordinator.service.host import Host
from coordinator.service.view import Roster


class Known(dict[DeviceId, Any]):
    """Counts who is looked up."""

    looked_up = 0

    def __contains__(self, name: object) -> bool:
        self.looked_up += 1
        return super().__contains__(name)


class Bench:
    def __init__(self) -> None:
        self.known = Known()
        self.roster = Roster(cast(Host, self), self.known)

    def listen(self, kind: type, listener: Any) -> None:
        self.listener = listener

    def check_in(self, *names: str) -> None:
        for name in map(DeviceId, names):
            self.known[name] = None
            self.listener(0.0, OpenSession(SessionSeq(1), name))


def test_devices_come_by_name_each_once() -> None:
    bench = Bench()
    bench.check_in("c", "a", "c")
    assert bench.roster.after("", 10) == ["a", "c"]
    bench.check_in("b", "a", "d", "d")
    assert bench.roster.after("", 10) == ["a", "b", "c", "d"]
    assert bench.roster.after("b", 1) == ["c"]
    assert bench.roster.after("bb", 9) == ["c", "d"]
    assert bench.roster.after("d", 9) == []


def test_devices_that_the_engine_forgot_are_left_out_and_go() -> None:
    bench = Bench()
    bench.check_in(*(f"d{number:04}" for number in range(100)))
    assert len(bench.roster.after("", 1000)) == 100
    for number in range(90):
        del bench.known[DeviceId(f"d{number:04}")]
    assert bench.roster.after("", 2) == ["d0090", "d0091"]
    bench.check_in("d0200")
    bench.roster.after("", 0)
    bench.known.looked_up = 0
    assert len(bench.roster.after("", 1000)) == 11
    assert bench.known.looked_up == 11


def test_a_page_and_a_guess_look_at_what_they_show() -> None:
    bench = Bench()
    bench.check_in(*(f"device-{number:06}" for number in range(20_000)))
    bench.roster.after("", 1)
    bench.known.looked_up = 0
    assert len(bench.roster.after("device-010000", 100)) == 100
    assert bench.known.looked_up <= 101
    near = bench.roster.near("device-0100001x", 50)
    assert "device-010000" in near
    assert len(near) == 100
    assert bench.known.looked_up <= 202
