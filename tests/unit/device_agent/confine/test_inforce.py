"""What holds a worker: believed only as far as the kernel says the same, and told in one line."""

import os
import sys
from pathlib import Path

import pytest

from device_agent.confine.inforce import NAMES, InForce, NotInForceError, read_back
from device_agent.confine.orders import Orders
from device_agent.confine.settings import Confinement, Wanted

ORDERS = Confinement().orders(0, (), None, "")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells it on Linux only")
TOLD = InForce(user=61184, namespaces=True, files=True, landlock=7, limits={"RLIMIT_NOFILE": 256, "RLIMIT_NPROC": 64})


def kernel(folder: Path, *, files: int = 256, **status: str) -> Path:
    """A /proc with a worker that is held as ``TOLD``, but for these."""
    rows = {
        "Uid": "61184\t61184\t61184\t61184",
        "Gid": "61184\t61184\t61184\t61184",
        "Groups": "",
        "NSpid": "77\t2",
        "CapEff": "0" * 16,
        "NoNewPrivs": "1",
        **status,
    }
    for name in ("77", "self"):
        (folder / name).mkdir()
    (folder / "77" / "status").write_text("".join(f"{name}:\t{value}\n" for name, value in rows.items()))
    (folder / "self" / "status").write_text("NSpid:\t12\n")
    limits = {"RLIMIT_NOFILE": files, "RLIMIT_NPROC": 64}
    lines = [f"{NAMES[name]:<26}{value:<21}{value:<21}units" for name, value in limits.items()]
    (folder / "77" / "limits").write_text("\n".join(["Limit   Soft Limit   Hard Limit   Units", *lines]) + "\n")
    return folder


@LINUX
def test_what_the_kernel_says_as_well_is_in_force(tmp_path: Path) -> None:
    assert read_back(77, TOLD.to_json(), ORDERS, kernel(tmp_path)) == TOLD
    assert TOLD.holds
    assert str(TOLD) == (
        "user 61184, namespaces (processes, network, IPC, files), Landlock 7, rlimits (256 open files, 64 processes)"
    )


@LINUX
@pytest.mark.parametrize(
    "other",
    [
        {"Uid": "61184\t0\t61184\t61184"},
        {"Gid": "0\t0\t0\t0"},
        {"Groups": "0"},
        {"CapEff": "000001fffeffffff"},
        {"NoNewPrivs": "0"},
        {"NSpid": "77"},
    ],
    ids=str,
)
def test_what_the_kernel_says_otherwise_is_no_confinement(tmp_path: Path, other: dict[str, str]) -> None:
    with pytest.raises(NotInForceError):
        read_back(77, TOLD.to_json(), ORDERS, kernel(tmp_path, **other))


@LINUX
def test_a_limit_that_the_kernel_does_not_have_is_no_limit(tmp_path: Path) -> None:
    with pytest.raises(NotInForceError, match="RLIMIT_NOFILE of the worker is 20000, not 256"):
        read_back(77, TOLD.to_json(), ORDERS, kernel(tmp_path, files=20000))


def test_what_is_not_in_force_is_told_with_its_reason() -> None:
    held = InForce(limits={"RLIMIT_DATA": 10**9}, why_not={"landlock": "this kernel has none"}, readable=["/token"])
    assert str(held) == "rlimits (data 1 GB); not in force: landlock: this kernel has none; /token can be read"
    assert not held.holds


@pytest.mark.parametrize(
    ("held", "holds"),
    [
        (InForce(user=61184), True),
        (InForce(namespaces=True), True),
        (InForce(landlock=6), True),
        (InForce(landlock=5), False),  # it could kill its keeper, and outlive it
        (InForce(namespaces=True, readable=["/token"]), False),
    ],
)
def test_who_requires_confinement_gets_it_or_an_error(held: InForce, holds: bool) -> None:
    Confinement().check(held)
    required = Confinement(wanted=Wanted.REQUIRED)
    if holds:
        required.check(held)
    else:
        with pytest.raises(NotInForceError, match="--confine required"):
            required.check(held)


def test_orders_are_read_as_they_were_written() -> None:
    orders = Confinement(secrets=(Path("/s"),)).orders(5, (Path("/a b"), Path("/c")), 61184, "")
    assert Orders.from_argument(orders.to_argument()) == orders
    assert orders.agent == os.getpid()
    assert orders.reads == ("/a b", "/c")
    assert Confinement(wanted=Wanted.OFF).orders(5, (), None, "").means == ()
