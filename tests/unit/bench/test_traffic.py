"""What a device's end measures, against ends that do what a test says."""

import asyncio
import random
import socket
import statistics

import pytest

from testbed.bench import loads
from testbed.bench.emulation import got_bytes, jitter_of
from testbed.live.throttle.means import CGROUP, RLIMIT, probe


class Loses(loads.Echo):
    """Every fifth datagram."""

    came = 0

    def datagram_received(self, data: bytes, sender: tuple[str | object, int]) -> None:
        self.came += 1
        if self.came % 5:
            super().datagram_received(data, sender)


@pytest.mark.parametrize(("other", "part"), [(loads.Echo, 0.0), (Loses, 0.2)])
async def test_datagrams_that_do_not_come_back_are_lost(
    other: type[loads.Echo], part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if part:
        monkeypatch.setattr(loads, "QUIET_S", 0.05)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(other, local_addr=("127.0.0.1", 0), family=socket.AF_INET)
    host, port = transport.get_extra_info("sockname")
    assert await asyncio.to_thread(loads.lost, f"{host}:{port}", 250) == part
    transport.close()
    await asyncio.sleep(0)  # the loop closes its socket


def test_the_jitter_of_a_round_trip_is_found_from_its_quartiles() -> None:
    rng, jitter = random.Random(1), 0.03
    trips = [0.05 + rng.uniform(-jitter / 2, jitter / 2) + rng.uniform(-jitter / 2, jitter / 2) for _ in range(40_000)]
    first, _, third = statistics.quantiles(trips, n=4)
    assert jitter_of(third - first) == pytest.approx(jitter, rel=0.02)


@pytest.mark.parametrize("means", [CGROUP, RLIMIT])
def test_a_process_gets_the_memory_that_it_is_limited_to(means: str) -> None:
    machine, asked = probe(), 96 * 10**6
    if not machine.can("memory", means):
        pytest.skip(machine.why_not("memory"))
    assert 0.85 * asked < got_bytes(machine, means, asked) <= asked
