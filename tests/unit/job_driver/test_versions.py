"""Former models of an asynchronous job: kept while somebody may work with them, the oldest given up first."""

from pathlib import Path

import numpy as np
import pytest

from job_driver.checkpoint import SETTLE_S, Checkpoint, Checkpoints, Former, Versions

KEEP_S = 100.0


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path)


def replace(checkpoints: Checkpoints, versions: Versions, round_: int, now: float) -> None:
    """The model of a round is written, and replaced at ``now``."""
    arrays = {"w": np.full(3, float(round_))}
    artifact = checkpoints.write_model(arrays)
    checkpoints.commit(Checkpoint("me/test/1", round_, artifact.digest.hex()))
    versions.keep(round_, artifact, arrays, now)


def test_a_model_goes_when_its_leases_are_over(checkpoints: Checkpoints) -> None:
    versions = Versions(checkpoints, KEEP_S)
    versions.lease_granted(1, 7)
    replace(checkpoints, versions, 1, 0.0)
    versions.drop(SETTLE_S)
    assert list(versions.models) == [1]
    versions.lease_over(1, 7)
    versions.drop(SETTLE_S - 1.0)
    assert checkpoints.former(1).exists()
    versions.drop(SETTLE_S)
    assert not versions.models
    assert not checkpoints.former(1).exists()


def test_the_oldest_that_is_wanted_keeps_those_after_it(checkpoints: Checkpoints) -> None:
    versions = Versions(checkpoints, KEEP_S)
    versions.lease_granted(1, 7)
    for round_ in (1, 2, 3):
        replace(checkpoints, versions, round_, 0.0)
    versions.drop(50.0)
    assert list(versions.models) == [1, 2, 3]
    versions.drop(KEEP_S)  # no lease lasts so long
    assert not versions.models


def test_a_restart_finds_them_again(checkpoints: Checkpoints) -> None:
    versions = Versions(checkpoints, KEEP_S)
    for round_ in (1, 2):
        replace(checkpoints, versions, round_, 0.0)
    former = versions.former()
    checkpoints.former(2).write_bytes(b"damaged")
    again = Versions(checkpoints, KEEP_S)
    for one in (*former, Former(9, "00" * 32)):
        again.load(one, 0.0)
    assert list(again.models) == [1]
    assert again.models[1]["w"][0] == 1.0
    again.drop(KEEP_S - 1.0)  # its leases may not have been heard of
    assert list(again.models) == [1]
    assert again.digests() == {bytes.fromhex(former[0].digest)}


def test_another_coordinators_leases_are_no_reason(checkpoints: Checkpoints) -> None:
    versions = Versions(checkpoints, KEEP_S)
    versions.lease_granted(1, 7)
    replace(checkpoints, versions, 1, 0.0)
    versions.forget_leases()
    versions.drop(SETTLE_S)
    assert not versions.models


def test_a_model_some_of_whose_leases_may_have_been_missed_stays_as_long_as_a_lease_may_last(
    checkpoints: Checkpoints,
) -> None:
    versions = Versions(checkpoints, KEEP_S)
    replace(checkpoints, versions, 1, 0.0)
    versions.miss(2)
    for round_ in (2, 3):
        replace(checkpoints, versions, round_, 0.0)
    versions.drop(KEEP_S - 1.0)
    assert list(versions.models) == [1, 2, 3]
    versions.drop(KEEP_S)
    assert not versions.models
