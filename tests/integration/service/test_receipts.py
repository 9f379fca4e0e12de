"""A device is believed that its response was taken only with the driver's receipt."""

import secrets

import pytest

from coordinator.engine import effects
from coordinator.engine.model import FailureReason, LeaseEnd
from tests.integration.service.peers import Device, World, receipt_of, world
from venn.v1 import common_pb2, device_pb2
from venn.v1.common_pb2 import OUTCOME_COUNTED, OUTCOME_REJECTED, OUTCOME_STRAGGLER, Receipt


async def liar(made: World, name: str = "liar") -> Device:
    device = made.device(name)
    await device.check_in()
    return device


@pytest.mark.parametrize("outcome", [OUTCOME_COUNTED, OUTCOME_STRAGGLER, OUTCOME_REJECTED])
async def test_a_device_that_invents_receipts_holds_no_place(outcome: common_pb2.Outcome) -> None:
    """It said so 20 times and held 20 of 20 places until the deadline."""
    async with world() as made:
        driver = made.driver()
        await driver.start(demand=20)
        await driver.open()
        device = await liar(made)
        offer = await device.accept()
        invented = Receipt(lease=offer.lease, attempt=offer.attempt, outcome=outcome, digest=bytes(32), mac=bytes(32))
        await device.say(finished=device_pb2.Finished(lease=offer.lease, receipt=invented))
        ended = await made.until(effects.EndLease)
        assert (ended.lease, ended.reason, ended.failure) == (
            offer.lease,
            LeaseEnd.FAILED,
            FailureReason.RECEIPT_FORGED,
        )
        engine = made.coordinator.engine
        (request,) = engine.requests.values()
        assert (request.placed, request.counted) == (0, 0)
        assert request.job.id in engine.devices[ended.device].cooling
        assert len(made.of(effects.OfferLease)) == 1  # it cools for the job
        assert not request.job.crashed  # that is no fault of the job


async def test_a_receipt_of_another_lease_or_job_is_no_proof() -> None:
    async with world() as made:
        drivers = [made.driver(name) for name in ("digits", "faces")]
        for driver in drivers:
            await driver.start(demand=1)
            await driver.open()
        one, other = await liar(made, "one"), await liar(made, "other")
        offers = [await one.accept(), await other.accept()]
        stolen = receipt_of(offers[1])
        stolen.lease = offers[0].lease
        await one.say(finished=device_pb2.Finished(lease=offers[0].lease, receipt=stolen))
        assert (await made.until(effects.EndLease)).failure is FailureReason.RECEIPT_FORGED
        await other.finish(offers[1])
        assert (await drivers[1].record(offers[1].lease)).responses == 1


@pytest.mark.parametrize("genuine", [True, False])
async def test_a_lease_that_is_named_as_done_at_a_check_in_needs_the_receipt_too(genuine: bool) -> None:
    async with world() as made:
        driver = made.driver()
        await driver.start(demand=1)
        await driver.open()
        instance = secrets.token_bytes(16)
        device = made.device()
        welcome = await device.check_in(instance=instance)
        offer = await device.accept()
        await made.until(effects.RunLease)
        await device.vanish()
        await made.until(effects.MissLease)
        receipt = receipt_of(offer)
        receipt.digest = receipt.digest if genuine else bytes(reversed(range(32)))
        held = device_pb2.HeldLease(lease=offer.lease, incarnation=welcome.incarnation)
        held.done.receipt.CopyFrom(receipt)
        await made.device().check_in(instance=instance, held=[held])
        (request,) = made.coordinator.engine.requests.values()
        if genuine:
            assert (request.placed, made.of(effects.EndLease)) == (1, [])
        else:
            assert made.of(effects.EndLease)[0].failure is FailureReason.RECEIPT_FORGED
            assert request.placed == 0


async def test_the_drivers_record_counts_also_for_a_device_that_has_no_receipt() -> None:
    """It lost the receipt, or lied though it need not have: what the driver has acknowledged stands."""
    async with world() as made:
        driver = made.driver()
        await driver.start(demand=1)
        await driver.open()
        device = await liar(made)
        offer = await device.accept()
        await device.say(finished=device_pb2.Finished(lease=offer.lease, receipt=receipt_without_mac(offer)))
        await made.until(effects.EndLease)
        assert (await driver.record(offer.lease)).responses == 1
        assert made.of(effects.EndLease)[-1].reason is LeaseEnd.COUNTED


def receipt_without_mac(offer: device_pb2.Offer) -> Receipt:
    receipt = receipt_of(offer)
    receipt.ClearField("mac")
    return receipt
