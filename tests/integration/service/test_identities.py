"""Keys that join, rotate, leave and are revoked; and those who try to without a right."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from coordinator.service.facts import IdentityKnown, TokenMade
from testbed.testing.clock import FakeClock
from tests.integration.gate import KEYS, login, write_keys
from tests.integration.service.peers import Device, World, coordinator, world
from venn.v1 import auth_pb2, device_pb2, job_pb2
from venn.wire.authority import ServerCertificate, make_authority
from venn.wire.calls import identity_stub, job_stub
from venn.wire.errors import PeerError, UsageError
from venn.wire.join import JOINED, JOINING, Joined, Link, forget, join, joined_at, parse_link
from venn.wire.keys import Key, Role, key_file, load_key, new_key
from venn.wire.login import ROLE_TO_WIRE, Login, log_in, rotation
from venn.wire.status import reason_of
from venn.wire.trust import CA, Trust, kept_trust


@pytest.fixture
def certificate(tmp_path: Path) -> ServerCertificate:
    return make_authority(write_keys(tmp_path / "keys"))


class Gate(World):
    """An encrypted coordinator that keeps what it knows, and lets keys join."""

    trust: Trust | None = None

    async def link(self, role: Role = "device", **fields: Any) -> Link:
        """A join line for a new token."""
        made = await self.ask("MakeJoinToken", auth_pb2.MakeJoinTokenRequest(role=ROLE_TO_WIRE[role], **fields))
        return Link(self.address, made.authority, made.token)

    async def ask(self, method: str, request: Any, using: Login | None = None) -> Any:
        async with (using or self.local("admin")).channel() as channel:
            return await getattr(identity_stub(channel), method)(request)

    def local(self, role: Role) -> Login:
        made = login(self.address, role)
        made.trust = self.trust
        return made


@asynccontextmanager
async def gate(tmp_path: Path, certificate: ServerCertificate, **options: Any) -> AsyncIterator[Gate]:
    async with coordinator(certificate=certificate, folder=tmp_path / "run", **options) as started:
        made = Gate(started)
        made.trust = kept_trust(tmp_path / "keys")
        try:
            yield made
        finally:
            await made.close()


async def enter(link: Link, folder: Path, role: Role | None = "device", name: str = "pi") -> Joined:
    return await join(link, folder, role=role, name=name, insecure=False)


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), reason_of(caught.value)


async def reason(call: Any) -> str:
    with pytest.raises((PeerError, UsageError)) as caught:
        await call
    return caught.value.reason


async def test_a_device_joins_with_one_line_and_is_then_itself(tmp_path: Path, certificate: ServerCertificate) -> None:
    async with gate(tmp_path, certificate) as made:
        link = parse_link((await made.link()).text())
        joined = await enter(link, tmp_path / "pi")
        assert joined == joined_at(tmp_path / "pi")
        assert (joined.coordinator, joined.role, joined.name) == (made.address, "device", "pi")
        assert not (tmp_path / "pi" / JOINING).exists()
        itself = log_in("device", made.address, tmp_path / "pi")
        device = Joins(made, itself, "pi")
        assert (await device.check_in()).session
        other = Joins(made, itself, "phone")  # device A says that it is B
        assert await refused(other.check_in()) == (grpc.StatusCode.PERMISSION_DENIED, "DEVICE_ID")
        await device.close()
        await other.close()


class Joins:
    """A stream of a device with its own key."""

    def __init__(self, made: World, login: Login, name: str) -> None:
        self._device = Device(made.address, name)
        self.channel = login.channel()
        self._device.call = self.channel.stream_stream(
            "/venn.v1.DeviceService/Connect",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=parse,
        )()
        self.call = self._device.call

    async def check_in(self) -> Any:
        return await self._device.check_in()

    async def end(self) -> tuple[grpc.StatusCode, str]:
        code, error = await self._device.end()
        return code, reason_of(error) if error else ""

    async def close(self) -> None:
        self.call.cancel()
        await self.channel.close()
        await self._device.vanish()


def parse(raw: bytes) -> Any:
    return device_pb2.ConnectResponse.FromString(raw)


async def test_of_twenty_who_race_for_one_token_one_wins_and_its_retry_is_let_in(
    tmp_path: Path, certificate: ServerCertificate
) -> None:
    async with gate(tmp_path, certificate) as made:
        link = await made.link()
        tries = [enter(link, tmp_path / f"d{n}", name=f"d{n}") for n in range(20)]
        found = await asyncio.gather(*tries, return_exceptions=True)
        winners = [each for each in found if isinstance(each, Joined)]
        assert len(winners) == 1
        losers = [each for each in found if isinstance(each, PeerError)]
        assert {each.reason for each in losers} == {"TOKEN_USED"}
        assert len(losers) == 19
        won = tmp_path / winners[0].name  # its answer was lost
        key_file("device", won).rename(won / JOINING)
        (won / JOINED).unlink()
        (won / CA).unlink()
        assert await enter(link, won, name=winners[0].name) == winners[0]


async def test_tokens_have_a_role_an_end_and_a_number_of_uses(tmp_path: Path, certificate: ServerCertificate) -> None:
    time = FakeClock()
    async with gate(tmp_path, certificate, time=time) as made:
        person, device = await made.link("job"), await made.link()
        assert await reason(enter(person, tmp_path / "a")) == "ROLE"
        assert await reason(enter(device, tmp_path / "a", role=None)) == "ROLE"
        assert (await enter(person, tmp_path / "ann", role=None, name="ann")).role == "job"
        twice = await made.link(uses=2)
        await enter(twice, tmp_path / "b", name="b")
        await enter(twice, tmp_path / "c", name="c")
        assert await reason(enter(twice, tmp_path / "d", name="d")) == "TOKEN_USED"
        time.now += 15 * 60 + 1
        assert await reason(enter(device, tmp_path / "a")) == "TOKEN_ENDED"
        await made.link()  # which forgets those that have ended
        assert await reason(enter(device, tmp_path / "a")) == "TOKEN"
        assert await reason(enter(replace(device, token=bytes(16)), tmp_path / "a")) == "TOKEN"


async def test_names_of_devices_are_their_own(tmp_path: Path, certificate: ServerCertificate) -> None:
    async with gate(tmp_path, certificate) as made:
        link = await made.link(uses=3)
        await enter(link, tmp_path / "a", name="pi")
        assert await reason(enter(link, tmp_path / "b", name="pi")) == "NAME_TAKEN"
        assert await reason(enter(link, tmp_path / "b", name="../pi")) == "NAME"
        await made.ask("Revoke", auth_pb2.RevokeRequest(name="pi"))
        assert (await enter(link, tmp_path / "b", name="pi")).name == "pi"


async def test_no_token_reaches_a_server_with_another_authority(tmp_path: Path, certificate: ServerCertificate) -> None:
    other = make_authority(write_keys(tmp_path / "theirs"))
    async with gate(tmp_path, certificate) as made, coordinator(certificate=other, folder=tmp_path / "x") as thief:
        link = replace(await made.link(), address=thief.address)
        assert await reason(enter(link, tmp_path / "pi")) == "WRONG_CA"
        assert not (tmp_path / "pi" / CA).exists()
        assert not list(thief.admission.identities.joined())


async def test_a_true_chain_without_its_key_gets_no_token(tmp_path: Path, certificate: ServerCertificate) -> None:
    """A server that relays the handshake of the true one shows its chain, and cannot go on."""
    async with gate(tmp_path, certificate) as made:
        host, _, port = made.address.rpartition(":")
        heard = bytearray()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """The true server's part of the handshake; from then on its own, which it cannot encrypt."""
            true_reader, true_writer = await asyncio.open_connection(host, int(port))
            true_writer.write(await reader.read(65536))
            writer.write(await true_reader.read(65536))
            heard.extend(await reader.read(65536))
            true_writer.close()
            writer.close()

        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        address = "{}:{}".format(*server.sockets[0].getsockname())
        link = replace(await made.link(), address=address)
        with pytest.raises(PeerError):
            await enter(link, tmp_path / "pi")
        assert link.token not in heard
        assert not list(made.coordinator.admission.identities.joined())
        server.close()


async def test_a_revoked_device_is_cut_off_and_stays_out_after_a_restart(
    tmp_path: Path, certificate: ServerCertificate
) -> None:
    async with gate(tmp_path, certificate) as made:
        await enter(await made.link(), tmp_path / "pi")
        itself = log_in("device", made.address, tmp_path / "pi")
        device = Joins(made, itself, "pi")
        await device.check_in()
        before = itself._shown
        answer = await made.ask("Revoke", auth_pb2.RevokeRequest(name="pi"))
        assert answer.identity.revoked_ms
        assert await device.end() == (grpc.StatusCode.UNAUTHENTICATED, "REVOKED")
        assert made.coordinator.admission.logins.find(str(before).partition("Bearer ")[2][:64]) is None
        again = Joins(made, itself, "pi")  # with the token from before
        assert await refused(again.check_in()) == (grpc.StatusCode.UNAUTHENTICATED, "LOGIN")
        for each in (device, again):
            await each.close()
    async with gate(tmp_path, certificate) as made:
        late = Joins(made, log_in("device", made.address, tmp_path / "pi"), "pi")
        assert (await refused(late.check_in()))[1] == "REVOKED"
        await late.close()


async def test_who_has_joined_is_known_after_a_restart_and_the_journal_has_no_secret(
    tmp_path: Path, certificate: ServerCertificate
) -> None:
    async with gate(tmp_path, certificate) as made:
        used, left = await made.link(), await made.link()
        await enter(used, tmp_path / "pi")
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("events*"))
    for link in (used, left):
        assert link.token not in written
        assert link.token.hex().encode() not in written
    async with gate(tmp_path, certificate) as made:
        facts = made.coordinator.host.facts
        assert [(known.role, known.name) for known in facts.of(IdentityKnown)] == [("device", "pi")]
        assert len(list(facts.of(TokenMade))) == 2
        device = Joins(made, log_in("device", made.address, tmp_path / "pi"), "pi")
        assert (await device.check_in()).session
        await device.close()
        assert await reason(enter(replace(used, address=made.address), tmp_path / "b", name="b")) == "TOKEN_USED"
        await enter(replace(left, address=made.address), tmp_path / "b", name="b")
        listed = await made.ask("ListIdentities", auth_pb2.ListIdentitiesRequest(page_size=1))
        assert [each.name for each in listed.identities] == ["pi"]
        rest = await made.ask(
            "ListIdentities", auth_pb2.ListIdentitiesRequest(page_size=1, page_token=listed.next_page_token)
        )
        assert ([each.name for each in rest.identities], rest.next_page_token) == (["b"], "")


async def rotated(made: Gate, folder: Path, role: Role, new: Key) -> Any:
    old = load_key(role, dir=folder)
    request = auth_pb2.RotateKeyRequest(public_key=new.public, signature=new.sign(rotation(old.id, new.public)))
    return await made.ask("RotateKey", request, log_in(role, made.address, folder))


async def test_the_old_key_is_good_until_the_new_one_is_used_and_jobs_move_along(
    tmp_path: Path, certificate: ServerCertificate
) -> None:
    async with gate(tmp_path, certificate) as made:
        await enter(await made.link("job"), tmp_path / "ann", role=None, name="ann")
        old, new = log_in("job", made.address, tmp_path / "ann"), new_key()
        driver = made.driver()
        async with old.channel() as channel:
            await job_stub(channel).SubmitJob(driver.submission())
        await rotated(made, tmp_path / "ann", "job", new)
        await rotated(made, tmp_path / "ann", "job", new)  # its answer was lost
        renewed = Login(made.address, new, "job", old.trust)
        watch = job_pb2.WatchJobRequest(job=driver.key)
        async with old.channel() as before, renewed.channel() as after:
            first: Any = job_stub(before).WatchJob(watch)
            assert (await first.read()).job.key == driver.key
            now: Any = job_stub(after).WatchJob(watch)
            assert (await now.read()).job.key == driver.key
            assert await refused(drained(first)) == (grpc.StatusCode.UNAUTHENTICATED, "REVOKED")
        wrong = auth_pb2.RotateKeyRequest(public_key=new.public, signature=b"")
        assert (await refused(made.ask("RotateKey", wrong, renewed)))[1] == "MALFORMED"
        assert (await refused(made.ask("RotateKey", wrong)))[1] == "MALFORMED"


async def drained(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def test_a_job_is_transferred_by_its_owner(tmp_path: Path, certificate: ServerCertificate) -> None:
    async with gate(tmp_path, certificate) as made:
        link = await made.link("job", uses=2)
        await enter(link, tmp_path / "ann", role=None, name="ann")
        await enter(link, tmp_path / "ben", role=None, name="ben")
        ann, ben = (log_in("job", made.address, tmp_path / name) for name in ("ann", "ben"))
        driver = made.driver()
        transfer = job_pb2.TransferJobRequest(job=driver.key, to="ben")
        async with ann.channel() as hers, ben.channel() as his:
            await job_stub(hers).SubmitJob(driver.submission())
            assert (await refused(job_stub(his).TransferJob(transfer)))[1] == "UNKNOWN_JOB"
            nobody = job_pb2.TransferJobRequest(job=driver.key, to="nobody")
            assert (await refused(job_stub(hers).TransferJob(nobody)))[1] == "UNKNOWN_IDENTITY"
            await job_stub(hers).TransferJob(transfer)
            assert (await refused(job_stub(hers).SubmitJob(driver.submission())))[1] == "OTHER_OWNER"
            assert (await job_stub(his).SubmitJob(driver.submission())).ticket_key


async def test_who_leaves_is_let_in_no_more(tmp_path: Path, certificate: ServerCertificate) -> None:
    async with gate(tmp_path, certificate) as made:
        await enter(await made.link(), tmp_path / "pi")
        itself = log_in("device", made.address, tmp_path / "pi")
        await made.ask("Leave", auth_pb2.LeaveRequest(), itself)
        assert (await refused(made.ask("Leave", auth_pb2.LeaveRequest(), itself)))[1] == "REVOKED"
        assert (await refused(made.ask("Leave", auth_pb2.LeaveRequest())))[1] == "LOCAL"
        forget(tmp_path / "pi")
        assert not list((tmp_path / "pi").iterdir())


async def test_who_forgets_at_its_end_lets_nobody_join() -> None:
    async with world() as made, login(made.address, "admin").channel() as channel:
        request = auth_pb2.MakeJoinTokenRequest(role=auth_pb2.ROLE_DEVICE)
        assert (await refused(identity_stub(channel).MakeJoinToken(request)))[1] == "NO_FOLDER"


async def test_a_folder_holds_the_keys_of_one_coordinator(tmp_path: Path, certificate: ServerCertificate) -> None:
    async with gate(tmp_path, certificate) as made:
        link = await made.link(uses=2)
        await enter(link, tmp_path / "pi")
        assert await reason(enter(link, tmp_path / "pi")) == "JOINED"
        assert await reason(enter(link, tmp_path / "keys")) == "JOINED"  # the coordinator's own


@pytest.mark.parametrize(
    "text",
    ["", "http://x/y/z", "VENN://host/AA/BB", "VENN://host:1/AA/BB", "VENN://host:1/" + "A" * 52, "VENN://a:1/!/B"],
)
def test_what_is_no_join_line_is_said_without_its_token(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_link(text)
    assert caught.value.reason == "LINK"
    assert text == "" or text not in str(caught.value)


def test_a_join_line_fits_a_small_qr_code() -> None:
    link = Link("192.168.178.100:9700", KEYS.admin.id, bytes(16))
    assert len(link.text()) <= 108  # QR version 5, alphanumeric, level M is 122
    assert set(link.text()) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 $%*+-./:")
    assert parse_link(link.text()) == parse_link(link.text().lower()) == link


async def test_a_silent_and_an_absent_server_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("venn.wire.join.CONNECT_S", 0.1)
    silent = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    address = "{}:{}".format(*silent.sockets[0].getsockname())
    link = Link(address, bytes(32), bytes(16))
    assert await reason(enter(link, tmp_path / "a")) == "UNREACHABLE"
    silent.close()
    assert await reason(enter(link, tmp_path / "a")) == "UNREACHABLE"
    web = await asyncio.start_server(answer_http, "127.0.0.1", 0)
    address = "{}:{}".format(*web.sockets[0].getsockname())
    assert await reason(enter(replace(link, address=address), tmp_path / "a")) == "NO_TLS"
    web.close()


async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()  # until the client has gone
    writer.close()


async def answer_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://portal/\r\n\r\n")
    await writer.drain()
    writer.close()
