"""How long a driver tries, and what it takes for passing."""

from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from job_driver.client import Link
from venn.v1 import job_pb2 as pb
from venn.wire.errors import PeerError


class Coordinator:
    """Answers SubmitJob with the status codes of a list, then with its incarnation."""

    def __init__(self, *codes: grpc.StatusCode, then: bool = True) -> None:
        self.codes, self.then, self.calls = list(codes), then, 0

    Drive = None

    async def SubmitJob(self, request: pb.SubmitJobRequest, **options: float) -> pb.SubmitJobResponse:
        self.calls += 1
        if self.codes or not self.then:
            code = self.codes.pop(0) if self.codes else grpc.StatusCode.UNAVAILABLE
            raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata())
        return pb.SubmitJobResponse(ticket_key=bytes(32), key_id="k", incarnation=7)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second, and no wait any."""
    ticks = iter(range(10_000))
    monkeypatch.setattr("job_driver.client.time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    monkeypatch.setattr("job_driver.client.job_stub", lambda channel: channel)
    monkeypatch.setattr("job_driver.client.Backoff.next_s", lambda self: 0.0)


def link(coordinator: Coordinator, *, patience_s: float | None = None, met: bool = False) -> Link:
    return Link(
        cast(Any, coordinator), "coordinator", pb.SubmitJobRequest(),
        patience_s=patience_s, met=met, restarted=lambda: None,
    )  # fmt: skip


@pytest.mark.parametrize("code", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE])
async def test_a_call_that_broke_off_is_repeated(code: grpc.StatusCode) -> None:
    coordinator = Coordinator(code, code)
    assert (await link(coordinator).submit()).incarnation == 7
    assert coordinator.calls == 3


async def test_an_answer_that_will_not_change_is_final() -> None:
    with pytest.raises(PeerError):
        await link(Coordinator(grpc.StatusCode.UNIMPLEMENTED)).submit()


@pytest.mark.parametrize(
    ("patience_s", "met", "tries"),
    [(None, False, 10), (None, True, 120), (3600.0, False, 3600), (2.0, True, 2)],
    ids=["never met", "met by an earlier driver", "told to wait", "told to hurry"],
)
async def test_how_long_a_coordinator_is_waited_for(patience_s: float | None, met: bool, tries: int) -> None:
    coordinator = Coordinator(then=False)
    with pytest.raises(PeerError):
        await link(coordinator, patience_s=patience_s, met=met).submit()
    assert coordinator.calls == tries


async def test_one_that_was_met_is_waited_for_longer() -> None:
    coordinator = Coordinator()
    made = link(coordinator)
    await made.submit()
    coordinator.then, coordinator.calls = False, 0
    with pytest.raises(PeerError):
        await made.submit()
    assert coordinator.calls == 120
