"""A device and its tasks, from the offer to the receipt, or what went wrong on the way."""

import grpc

from device_agent.machine import AllowedCode
from tests.integration.agent.conftest import LONG, MODEL, Stage, leased, synthetic, task_of
from tests.integration.agent.scripted import INCARNATION, offer
from venn.v1 import common_pb2 as common
from venn.v1 import device_pb2 as device
from venn.wire import tensors
from venn.wire.chunks import digest_of


async def test_a_task_from_the_offer_to_the_receipt(stage: Stage) -> None:
    stage.play(numbers={"cpu": 4.0}, labels={"site": ("lab",)}, tasks_per_session=2)
    stream = await stage.coordinator.stream()
    check_in = await stream.welcome()
    assert (check_in.device, check_in.interval, check_in.tasks_per_session) == ("d-1", 1, 2)
    assert check_in.capabilities.numbers["cpu"] == 4.0
    assert list(check_in.capabilities.labels["site"].values) == ["lab"]
    await stream.say(offer=offer(5, stage.driver, task_of(stage)))
    await stream.hear("accepted")
    finished = await stream.hear("finished")
    assert finished.receipt.outcome == common.OUTCOME_COUNTED
    assert finished.measure.download_bytes > len(MODEL)
    assert finished.measure.upload_bytes == len(stage.driver.received)
    assert tensors.decode(bytes(stage.driver.received))["w"].shape == (200_000,)
    [line] = stage.lines("receipts")
    assert line["digest"] == digest_of(stage.driver.received).hex()
    expected = {"device": "d-1", "lease": 5, "incarnation": INCARNATION, "job": "test/job/1", "round": 3, "attempt": 1}
    assert line.items() >= {**expected, "outcome": "counted"}.items()


async def test_each_device_fetches_an_artifact_once_and_all_share_one_copy(stage: Stage) -> None:
    task = task_of(stage)
    stage.play(device="a")
    stream = await leased(stage, task)
    await stream.hear("finished")
    stage.driver.received.clear()
    await stream.say(ack=device.Ack(through=3))
    await stream.say(offer=offer(6, stage.driver, task))
    await stream.hear("accepted")
    await stream.hear("finished")
    assert len(stage.driver.fetched) == 2
    stage.driver.received.clear()
    stage.play(device="b")
    await (await leased(stage, task)).hear("finished")
    assert len(stage.driver.fetched) == 4


async def test_cut_transfers_go_on_where_they_were_cut(stage: Stage) -> None:
    stage.driver.cut_fetch_at = stage.driver.cut_submit_at = 1 << 20
    task = synthetic(stage)
    stage.play()
    stream = await leased(stage, task)
    finished = await stream.hear("finished")
    assert [offset for _, offset in stage.driver.fetched] == [0, 1 << 20]
    assert stage.driver.resumed_at == [0, 1 << 20]
    assert stage.driver.headers[0] == stage.driver.headers[1]
    assert finished.measure.download_bytes == len(MODEL)


async def test_a_small_credit_is_kept_to(stage: Stage) -> None:
    stage.driver.credit = 100_000
    stage.play()
    await (await leased(stage, synthetic(stage))).hear("finished")


async def test_a_damaged_chunk_is_fetched_again_and_a_liar_given_up(stage: Stage) -> None:
    stage.driver.corrupt_fetches = 1
    task = synthetic(stage)
    stage.play()
    stream = await leased(stage, task)
    await stream.hear("finished")
    task.model.digest = bytes(32)
    stage.driver.artifacts[bytes(32)] = MODEL
    await stream.say(ack=device.Ack(through=3))
    await stream.say(offer=offer(6, stage.driver, task))
    await stream.hear("accepted")
    failed = await stream.hear("failed")
    assert (failed.phase, failed.reason) == (common.PHASE_FETCH, common.FAILURE_REASON_TRANSFER_FAILED)
    assert "do not have the digest of the offer" in failed.message


async def test_a_crashed_task_is_told_with_its_exception_and_output(stage: Stage) -> None:
    fails = "def work(model, task):\n    print('looked at the data')\n    raise ValueError('x has 0 rows')"
    stage.play()
    failed = await (await leased(stage, task_of(stage, fails))).hear("failed")
    assert (failed.phase, failed.reason) == (common.PHASE_ON_DEVICE, common.FAILURE_REASON_TASK_CRASHED)
    assert failed.message == "ValueError: x has 0 rows (task.py, line 4)"
    assert "looked at the data" in failed.output_tail
    assert "raise ValueError('x has 0 rows')" in failed.output_tail


async def test_code_that_the_agent_was_not_told_to_run_is_declined(stage: Stage) -> None:
    stage.allowed = AllowedCode(digests=frozenset({bytes(32)}))
    stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome()
    task = task_of(stage)
    await stream.say(offer=offer(5, stage.driver, task))
    declined = await stream.hear("declined")
    assert declined.reason == common.FAILURE_REASON_CODE_NOT_ALLOWED
    assert f"--allow-code {task.code.digest.hex()}" in declined.message
    assert not stage.driver.fetched


async def test_data_that_the_device_has_not_is_declined(stage: Stage) -> None:
    stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome()
    task = synthetic(stage)
    task.data = "digits"
    await stream.say(offer=offer(5, stage.driver, task))
    assert (await stream.hear("declined")).reason == common.FAILURE_REASON_DATA_MISSING


async def test_a_task_longer_than_the_coordinators_patience_does_not_silence_the_device(stage: Stage) -> None:
    """The worker does not look up for longer than the liveness interval; heartbeats go on."""
    stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome(heartbeat_s=0.2, liveness_s=2.0)
    await stream.say(
        offer=offer(5, stage.driver, task_of(stage, "def work(model, task):\n    import time; time.sleep(60)"))
    )
    await stream.hear("accepted")
    for _ in range(12):
        await stream.say(ack=device.Ack(through=2))
        await stream.hear("heartbeat")
    await stream.say(revoke=device.Revoke(lease=5))
    await stream.hear("released")


async def test_a_revoked_task_stops_and_is_released(stage: Stage) -> None:
    stage.play()
    stream = await leased(stage, task_of(stage, LONG))
    await stream.say(revoke=device.Revoke(lease=5, reason=common.LEASE_END_REVOKED))
    assert (await stream.hear("released")).lease == 5
    await stream.say(offer=offer(6, stage.driver, task_of(stage)))
    assert (await stream.hear("accepted")).lease == 6
    await stream.hear("finished")


async def test_modelled_time_is_held_and_lateness_is_told(stage: Stage) -> None:
    stage.modelled = True
    await stage.pool.warm()
    task = synthetic(stage)
    task.workload.compute.FromSeconds(4)
    stage.play(numbers={"cpu": 4.0})
    stream = await leased(stage, task)
    measure = (await stream.hear("finished")).measure
    assert not measure.HasField("late")
    assert 0 < measure.held.ToNanoseconds() / 1e9 <= 1.0
    stage.driver.received.clear()
    task.workload.compute.FromNanoseconds(1_000)
    await stream.say(ack=device.Ack(through=99))
    await stream.say(offer=offer(6, stage.driver, task))
    await stream.hear("accepted")
    measure = (await stream.hear("finished")).measure
    assert measure.late.ToNanoseconds() > 0


async def test_a_driver_that_was_never_there_costs_the_lease_and_no_more(stage: Stage) -> None:
    stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome()
    made = offer(5, stage.driver, synthetic(stage), remaining_s=1.0)
    made.driver_address = "127.0.0.1:9"
    await stream.say(offer=made)
    await stream.hear("accepted")
    failed = await stream.hear("failed")
    assert (failed.phase, failed.reason) == (common.PHASE_FETCH, common.FAILURE_REASON_DRIVER_UNREACHABLE)
    assert "driver at 127.0.0.1:9" in failed.message


async def test_a_driver_that_moved_is_followed(stage: Stage) -> None:
    stage.play()
    stream = await stage.coordinator.stream()
    await stream.welcome()
    made = offer(5, stage.driver, synthetic(stage))
    made.driver_address = "127.0.0.1:9"
    await stream.say(offer=made)
    await stream.hear("accepted")
    await stream.say(redirect=device.Redirect(lease=5, driver_address=stage.driver.address))
    await stream.hear("finished")


async def test_a_driver_that_refuses_the_ticket_ends_the_task(stage: Stage) -> None:
    stage.driver.refuse = (grpc.StatusCode.PERMISSION_DENIED, "TICKET_FORGED")
    stage.play()
    failed = await (await leased(stage, synthetic(stage))).hear("failed")
    assert failed.reason == common.FAILURE_REASON_TRANSFER_FAILED
