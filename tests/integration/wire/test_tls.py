"""TLS between a coordinator and its clients: whom they trust, and whom they do not."""

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from tests.integration.gate import KEYS, login, write_keys
from tests.integration.service.peers import World, coordinator
from venn.v1 import admin_pb2
from venn.wire.authority import ServerCertificate, load_server, make_authority, self_signed
from venn.wire.calls import admin_stub, auth_stub
from venn.wire.channel import bind, make_server
from venn.wire.errors import UsageError
from venn.wire.keys import new_key
from venn.wire.login import Login, log_in
from venn.wire.status import peer_error
from venn.wire.trust import CA, Trust, coordinator_name, coordinator_trust, kept_trust


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_keys(tmp_path / "keys")


@pytest.fixture
def certificate(folder: Path) -> ServerCertificate:
    return make_authority(folder)


@asynccontextmanager
async def secured(certificate: ServerCertificate) -> AsyncIterator[World]:
    """A coordinator whose connections are encrypted; its own admin client is not used."""
    async with coordinator(certificate=certificate) as started:
        made = World(started)
        try:
            yield made
        finally:
            await made.close()


async def state(login: Login) -> str:
    """What a call with this login comes to: "" if it was answered."""
    async with login.channel() as channel:
        try:
            await admin_stub(channel).GetSnapshot(admin_pb2.GetSnapshotRequest(), timeout=10)
        except grpc.aio.AioRpcError as error:
            return peer_error(error, where="it").reason
    return ""


async def test_who_knows_the_authority_is_served_on_every_kind_of_call(
    folder: Path, certificate: ServerCertificate
) -> None:
    async with secured(certificate) as made:
        async with log_in("admin", made.address, folder).channel() as channel:
            admin: Any = admin_stub(channel)
            await admin.GetSnapshot(admin_pb2.GetSnapshotRequest())
            assert (await admin.Watch(admin_pb2.WatchRequest()).read()).HasField("snapshot")
        async with log_in("device", made.address, folder).channel() as channel:
            call: Any = channel.stream_stream("/venn.v1.DeviceService/Connect")()
            await call.write(b"")
            with pytest.raises(grpc.aio.AioRpcError):  # no check-in: but it was heard
                await call.read()
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_another_authority_another_name_and_none_are_refused(
    tmp_path: Path, certificate: ServerCertificate
) -> None:
    other = write_keys(tmp_path / "other")
    make_authority(other)
    async with secured(certificate) as made:
        assert await state(log_in("admin", made.address, other)) == "WRONG_CA"
        assert await state(log_in("admin", made.address, other, insecure=True)) == "UNREACHABLE"
        renamed = Trust((tmp_path / "keys" / CA).read_bytes(), "coordinator.0000000000000000.venn")
        assert await state(Login(made.address, KEYS.admin, "admin", renamed)) == "WRONG_NAME"


async def test_a_plaintext_coordinator_gets_nothing_of_a_client_that_knows_an_authority(
    folder: Path, certificate: ServerCertificate
) -> None:
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read(100_000))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    refused = await state(log_in("admin", f"{host}:{port}", folder))
    assert refused in ("HANDSHAKE", "UNREACHABLE")  # gRPC 1.70 says only "Socket closed"
    assert heard[:1] == b"\x16"  # a TLS handshake, and nothing else
    assert KEYS.admin.id not in heard
    server.close()


async def test_a_server_with_a_certificate_of_its_own_does_not_pass_for_the_coordinator(
    folder: Path, certificate: ServerCertificate
) -> None:
    """Not even under the coordinator's name; no proof reaches it."""
    asked: list[object] = []

    async def begin(request: object, context: Any) -> bytes:
        asked.append(request)
        return b""

    key = new_key()
    server = make_server()
    handlers = {"Begin": grpc.unary_unary_rpc_method_handler(begin)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("venn.v1.AuthService", handlers),))
    chain = self_signed(coordinator_name(certificate.fingerprint), key)
    address = bind(server, "127.0.0.1:0", credentials=grpc.ssl_server_credentials([(key.pem(), chain)]))
    await server.start()
    assert await state(log_in("admin", address, folder)) == "WRONG_CA"
    assert not asked
    await server.stop(0)


async def test_a_proof_for_another_authority_is_refused(certificate: ServerCertificate, folder: Path) -> None:
    """A proof that was made for a plaintext coordinator is worth nothing at an encrypted one, and vice versa."""
    async with coordinator() as plain:
        lied = login(plain.address, "admin")
        lied.trust = kept_trust(folder)
        channel = login(plain.address, "admin").channel()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await lied.shown(auth_stub(channel))
        assert peer_error(caught.value, where="it").reason == "PROOF"
        await channel.close()


def test_an_authority_is_made_once_and_its_keys_are_private(folder: Path, certificate: ServerCertificate) -> None:
    assert load_server(folder) == certificate
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert {modes[name] for name in ("ca.key", "server.key")} == {0o600}
    assert {modes[name] for name in ("ca.pem", "server.pem")} == {0o644}
    with pytest.raises(UsageError, match="keep it") as caught:
        make_authority(folder)
    assert caught.value.reason == "CA_EXISTS"


def test_certificates_hold_by_clocks_of_any_year(folder: Path, certificate: ServerCertificate) -> None:
    authority = x509.load_pem_x509_certificate((folder / CA).read_bytes())
    leaf, last = x509.load_pem_x509_certificates(certificate.chain)
    assert last == authority
    name = x509.DNSName(coordinator_name(certificate.fingerprint))
    for year in (1970, 2023, 2038, 2099):
        when = datetime(year, 1, 2, tzinfo=UTC)
        verifier = PolicyBuilder().store(Store([authority])).time(when).build_server_verifier(name)
        assert verifier.verify(leaf, [])[-1] == authority


def test_what_is_wrong_with_certificates_is_said(folder: Path, certificate: ServerCertificate) -> None:
    (folder / CA).write_text("nonsense")
    for use in (lambda: kept_trust(folder), lambda: log_in("admin", "127.0.0.1:1", folder)):
        with pytest.raises(UsageError) as caught:
            use()
        assert caught.value.reason == "CA_DAMAGED"
    with pytest.raises(UsageError) as caught:
        load_server(folder)
    assert caught.value.reason == "KEY_DAMAGED"
    (folder / "server.pem").unlink()
    with pytest.raises(UsageError, match="venn coordinator init"):
        load_server(folder)


async def test_a_key_of_another_certificate_is_said(certificate: ServerCertificate) -> None:
    wrong = grpc.ssl_server_credentials([(new_key().pem(), certificate.chain)])
    with pytest.raises(UsageError) as caught:
        bind(make_server(), "127.0.0.1:0", credentials=wrong)
    assert caught.value.reason == "KEY_MISMATCH"


def test_no_proof_goes_to_another_machine_in_clear(folder: Path) -> None:
    with pytest.raises(UsageError, match="venn agent join") as caught:
        log_in("device", "192.0.2.1:9700", folder)
    assert caught.value.reason == "NOT_ENCRYPTED"
    assert log_in("device", "192.0.2.1:9700", folder, insecure=True).trust is None
    assert log_in("device", "127.0.0.1:9700", folder).trust is None
    make_authority(folder)
    assert log_in("device", "192.0.2.1:9700", folder).trust == coordinator_trust((folder / CA).read_bytes())
    assert log_in("device", "127.0.0.1:9700", folder).trust is not None
