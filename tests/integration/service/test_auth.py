"""Proofs, logins and the guard, between a real server and real clients."""

import secrets
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from coordinator.service import auth
from coordinator.service.auth import Logins, Nonces
from coordinator.service.guard import ALLOWED, OPEN
from coordinator.service.identities import Identity
from testbed.testing.clock import FakeClock
from tests.integration.gate import KEYS, login
from tests.integration.service.peers import world
from venn.v1 import admin_pb2, auth_pb2, device_pb2, job_pb2
from venn.wire.calls import admin_stub, auth_stub
from venn.wire.channel import open_channel
from venn.wire.keys import ROLES, Key, Role, new_key
from venn.wire.login import ROLE_TO_WIRE, Login, proof
from venn.wire.status import reason_of

ADMIN = Identity(KEYS.admin.id, KEYS.admin.public, "admin", "ann")


def methods() -> Iterator[str]:
    """Every method of every service that a coordinator may serve."""
    for file in (auth_pb2, device_pb2, job_pb2, admin_pb2, health_pb2, reflection_pb2):
        for service in file.DESCRIPTOR.services_by_name.values():
            yield from (f"/{service.full_name}/{method.name}" for method in service.methods)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), reason_of(caught.value)


def test_the_guard_names_every_method_and_no_other() -> None:
    known = set(methods())
    assert known == (ALLOWED.keys() | OPEN) & known
    assert ALLOWED.keys() | OPEN <= known | {"/grpc.health.v1.Health/List"}  # which newer versions have
    assert not ALLOWED.keys() & OPEN
    assert all(roles <= set(ROLES) and roles for roles in ALLOWED.values())


@pytest.mark.parametrize("role", [None, *ROLES])
async def test_each_role_is_admitted_to_its_own_methods_only(role: Role | None) -> None:
    refused = (grpc.StatusCode.PERMISSION_DENIED, "ROLE") if role else (grpc.StatusCode.UNAUTHENTICATED, "LOGIN")
    async with world(reflection=True) as made:
        channel = login(made.address, role).channel() if role else open_channel(made.address)
        for method in sorted(ALLOWED):
            if role not in ALLOWED[method]:
                call: Any = channel.stream_stream(method)()
                assert await refusal(call.read()) == refused, method
        await channel.close()


async def prove(
    channel: grpc.aio.Channel,
    key: Key = KEYS.admin,
    *,
    role: Role = "admin",
    begun: Any = None,
    changes: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """The answer to a proof; ``changes`` to its fields, after the signature."""
    stub, own = auth_stub(channel), secrets.token_bytes(32)
    begun = begun or await stub.Begin(auth_pb2.BeginRequest(key_id=key.id))
    exact = proof(
        authority=b"", coordinator=begun.coordinator, role=role, key_id=key.id, nonce=begun.nonce, own_nonce=own
    )
    request = auth_pb2.ProveRequest(
        key_id=key.id, role=ROLE_TO_WIRE[role], nonce=begun.nonce, own_nonce=own, signature=key.sign(exact)
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return await stub.Prove(request)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"own_nonce": bytes(32)}, "PROOF"),
        ({"own_nonce": b"short"}, "MALFORMED"),
        ({"nonce": bytes(32)}, "NONCE"),
        ({"nonce": b""}, "NONCE"),
        ({"signature": b""}, "PROOF"),
        ({"signature": bytes(1000)}, "MALFORMED"),
        ({"key_id": KEYS.job.id}, "NONCE"),
        ({"key_id": b"nobody"}, "UNKNOWN_KEY"),
        ({"role": auth_pb2.ROLE_DEVICE}, "ROLE"),
        ({"role": auth_pb2.ROLE_UNSPECIFIED}, "ROLE"),
    ],
)
async def test_a_proof_that_was_changed_is_refused(changes: dict[str, Any], reason: str) -> None:
    async with world() as made, open_channel(made.address) as channel:
        assert (await refusal(prove(channel, changes=changes)))[1] == reason


async def test_a_proof_is_good_once() -> None:
    async with world() as made, open_channel(made.address) as channel:
        begun = await auth_stub(channel).Begin(auth_pb2.BeginRequest(key_id=KEYS.admin.id))
        assert (await prove(channel, begun=begun)).token
        assert await refusal(prove(channel, begun=begun)) == (grpc.StatusCode.UNAUTHENTICATED, "NONCE")


async def test_a_devices_proof_is_not_an_admins() -> None:
    async with world() as made, open_channel(made.address) as channel:
        wrong = await refusal(prove(channel, KEYS.device, role="admin"))
        assert wrong == (grpc.StatusCode.PERMISSION_DENIED, "ROLE")
        signed_as_device = prove(channel, KEYS.device, role="device", changes={"key_id": KEYS.admin.id})
        assert (await refusal(signed_as_device))[1] == "NONCE"


async def test_a_proof_for_another_coordinator_is_refused() -> None:
    async with world() as made, open_channel(made.address) as channel:
        begun = await auth_stub(channel).Begin(auth_pb2.BeginRequest(key_id=KEYS.admin.id))
        begun.coordinator = "f" * 32
        assert await refusal(prove(channel, begun=begun)) == (grpc.StatusCode.UNAUTHENTICATED, "PROOF")


def test_nonces_end_and_belong_to_one_key_and_one_life() -> None:
    clock = FakeClock()
    nonces, key_id = Nonces(clock), KEYS.admin.id
    nonce = nonces.new(key_id)
    assert nonces.is_good(nonce, key_id)
    assert not nonces.is_good(nonce, KEYS.job.id)
    assert not Nonces(clock).is_good(nonce, key_id)
    clock.now += auth.NONCE_S + 1
    assert not nonces.is_good(nonce, key_id)


def test_used_nonces_are_remembered_no_longer_than_they_could_be_used() -> None:
    clock = FakeClock()
    nonces = Nonces(clock)
    for _ in range(100):
        nonces.use(nonces.new(ADMIN.key_id))
        clock.now += 1.0
    assert len(nonces._used) <= auth.NONCE_S + 1


def test_logins_end_and_are_bounded() -> None:
    clock = FakeClock()
    logins = Logins(clock)
    tokens = [logins.begin(ADMIN) for _ in range(auth.MOST_LOGINS + 1)]
    assert logins.find(tokens[0]) is None  # the oldest made room
    assert [logins.find(token) for token in tokens[1:]] == [ADMIN] * auth.MOST_LOGINS
    assert logins.find("nobody") is None
    clock.now += auth.LOGIN_S
    assert logins.find(tokens[-1]) is None
    last = logins.begin(ADMIN)
    assert len(logins._found) == 1
    logins.end(ADMIN.key_id)
    assert logins.find(last) is None
    logins.end(ADMIN.key_id)


def test_a_device_key_is_that_of_one_device_and_the_local_one_of_any() -> None:
    key = new_key()
    assert Identity(key.id, key.public, "device", "pi").is_device("pi")
    assert not Identity(key.id, key.public, "device", "pi").is_device("phone")
    assert Identity(key.id, key.public, "device", "local", local=True).is_device("phone")
    assert not Identity(key.id, key.public, "admin", "local", local=True).is_device("local")


class Counted(Login):
    """Counts the proofs."""

    proofs = 0

    async def _prove(self, channel: grpc.aio.Channel) -> None:
        self.proofs += 1
        await super()._prove(channel)


async def test_the_channels_of_a_program_share_one_login_which_is_renewed_in_time() -> None:
    clock = FakeClock()
    async with world(time=clock) as made:
        counted = Counted(made.address, KEYS.admin, "admin")
        channels = [counted.channel() for _ in range(5)]
        for channel in channels:
            await admin_stub(channel).GetSnapshot(admin_pb2.GetSnapshotRequest())
        assert counted.proofs == 1
        counted._renew_at = 0.0  # as if the time had come
        await admin_stub(channels[0]).GetSnapshot(admin_pb2.GetSnapshotRequest())
        assert counted.proofs == 2
        clock.now += auth.LOGIN_S  # the coordinator has forgotten, and the client does not know
        await admin_stub(channels[0]).GetSnapshot(admin_pb2.GetSnapshotRequest())
        assert counted.proofs == 3
        for channel in channels:
            await channel.close()


async def test_who_cannot_prove_is_told_so_on_every_kind_of_call() -> None:
    async with world() as made, Login(made.address, new_key(), "admin").channel() as channel:
        assert (await refusal(admin_stub(channel).GetSnapshot(admin_pb2.GetSnapshotRequest())))[1] == "UNKNOWN_KEY"
        stream: Any = admin_stub(channel).Watch(admin_pb2.WatchRequest())
        assert (await refusal(stream.read()))[1] == "UNKNOWN_KEY"
        both: Any = channel.stream_stream("/venn.v1.DeviceService/Connect")()
        assert (await refusal(both.write(b"")))[1] == "UNKNOWN_KEY"
        assert both.done()
