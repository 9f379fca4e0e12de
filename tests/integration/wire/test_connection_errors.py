"""What goes wrong with a connection that is, or should be, encrypted: each is one line with a remedy."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from venn.v1 import auth_pb2
from venn.wire import status
from venn.wire.authority import self_signed
from venn.wire.calls import auth_stub
from venn.wire.channel import bind, make_server
from venn.wire.errors import PeerError
from venn.wire.keys import Key, new_key
from venn.wire.status import peer_error
from venn.wire.trust import Trust, open_trusted

NAME = "coordinator.test.venn"


def certificate(
    key: Key, *, years: tuple[int, int] = (1970, 2099), names: tuple[str, ...] = (NAME,), common: str = NAME
) -> bytes:
    """A certificate that has signed itself (PEM)."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.private.public_key())
        .serial_number(1)
        .not_valid_before(datetime(years[0], 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(years[1], 1, 1, tzinfo=UTC))
    )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
    return made.sign(key.private, hashes.SHA256()).public_bytes(Encoding.PEM)


@asynccontextmanager
async def grpc_server(key: Key, chain: bytes) -> AsyncIterator[str]:
    server = make_server()
    address = bind(server, "127.0.0.1:0", credentials=grpc.ssl_server_credentials([(key.pem(), chain)]))
    await server.start()
    yield address
    await server.stop(0)


@asynccontextmanager
async def raw_server(answer: Callable[..., Any], context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await answer(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield "{}:{}".format(*server.sockets[0].getsockname())
    server.close()
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)


async def said(address: str, trust: Trust | None, *, timeout_s: float = 10.0) -> PeerError:
    async with open_trusted(address, trust) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await auth_stub(channel).Begin(auth_pb2.BeginRequest(), timeout=timeout_s)
    error = peer_error(caught.value, where="it")
    assert error.fix
    assert len(str(error).splitlines()) == 1
    return error


async def portal(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://portal/\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    writer.close()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.transport.abort()


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def test_another_authority() -> None:
    key, other = new_key(), new_key()
    async with grpc_server(key, certificate(key)) as address:
        assert (await said(address, Trust(certificate(other, common="other"), NAME))).reason == "WRONG_CA"


@pytest.mark.parametrize(("years", "when"), [((1970, 1980), "no longer"), ((2090, 2099), "yet")])
async def test_a_certificate_that_is_not_valid_now(years: tuple[int, int], when: str) -> None:
    key = new_key()
    chain = certificate(key, years=years)
    async with grpc_server(key, chain) as address:
        error = await said(address, Trust(chain, NAME))
        assert error.reason == "CERTIFICATE_TIME"
        assert when in error.message
        assert f"{datetime.now(UTC):%Y-%m-%d}" in error.fix


async def test_another_name() -> None:
    key = new_key()
    chain = certificate(key, names=("another.venn",))
    async with grpc_server(key, chain) as address:
        assert (await said(address, Trust(chain, NAME))).reason == "WRONG_NAME"


async def test_a_server_that_does_not_encrypt() -> None:
    server = make_server()
    address = bind(server, "127.0.0.1:0")
    await server.start()
    assert (await said(address, Trust(certificate(new_key()), NAME))).reason == "NO_TLS"
    await server.stop(0)


async def test_a_server_that_encrypts_and_a_client_that_does_not() -> None:
    key = new_key()
    async with grpc_server(key, certificate(key)) as address:
        error = await said(address, None)
        assert error.reason == "UNREACHABLE"
        assert "join it" in error.fix


async def test_a_login_page_of_the_network() -> None:
    async with raw_server(portal) as address:
        assert (await said(address, None)).reason == "WEB_SERVER"
        assert (await said(address, Trust(certificate(new_key()), NAME))).reason == "NO_TLS"


def context_of(key: Key, chain: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        own, shown = Path(folder, "key"), Path(folder, "pem")
        own.write_bytes(key.pem())
        shown.write_bytes(chain)
        context.load_cert_chain(shown, own)
    return context


async def test_a_proxy_that_does_not_speak_http2() -> None:
    key = new_key()
    chain = self_signed(NAME, key)
    async with raw_server(silence, context_of(key, chain)) as address:
        assert (await said(address, Trust(chain, NAME))).reason == "NO_HTTP2"


async def test_a_connection_that_is_cut_at_once() -> None:
    async with raw_server(hang_up) as address:
        assert (await said(address, Trust(certificate(new_key()), NAME))).reason in ("HANDSHAKE", "UNREACHABLE")


async def test_a_silent_server() -> None:
    async with raw_server(silence) as address:
        assert (await said(address, Trust(certificate(new_key()), NAME), timeout_s=0.3)).reason == "TIMEOUT"


async def test_a_trusted_certificate_that_is_none() -> None:
    key = new_key()
    async with grpc_server(key, certificate(key)) as address:
        broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
        assert (await said(address, Trust(broken, NAME))).reason in ("BAD_CA", "UNREACHABLE")


@pytest.mark.parametrize("row", status.TRANSPORT, ids=lambda row: row[0])
def test_each_text_has_its_line(row: tuple[str, str, str, str]) -> None:
    text, reason, message, _ = row
    metadata = grpc.aio.Metadata()
    failed = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, metadata, metadata, details=f"last error: {text} (x)")
    error = peer_error(failed, where="it")
    assert (error.reason, error.message) == (reason, message)
    assert error.fix
