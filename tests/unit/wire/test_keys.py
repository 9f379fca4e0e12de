import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from venn.wire.errors import UsageError
from venn.wire.keys import (
    ROLES,
    ensure_keys,
    key_file,
    load_key,
    new_key,
    read_key,
    verifies,
    write_private,
)
from venn.wire.places import keys_folder


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VENN_KEYS", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_keys_are_made_once_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "keys"
    keys = ensure_keys(folder)
    again = ensure_keys(folder)
    assert [getattr(again, role).id for role in ROLES] == [getattr(keys, role).id for role in ROLES]
    assert again.coordinator == keys.coordinator
    assert len({keys.device.id, keys.job.id, keys.admin.id}) == 3
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for role in ROLES:
        assert load_key(role, dir=folder).id == getattr(keys, role).id
        assert stat.S_IMODE(key_file(role, folder).stat().st_mode) == 0o600


def test_programs_that_start_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(ensure_keys, [tmp_path / "keys"] * 16))
    assert len({(keys.device.id, keys.job.id, keys.admin.id, keys.coordinator) for keys in made}) == 1
    names = sorted(path.name for path in (tmp_path / "keys").iterdir())
    assert names == ["admin.key", "coordinator", "device.key", "job.key"]


def test_where_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert keys_folder() == tmp_path / "state" / "venn" / "keys"
    assert ensure_keys().job.id == load_key("job").id
    monkeypatch.delenv("XDG_STATE_HOME")
    assert keys_folder() == Path.home() / ".local/state/venn/keys"
    monkeypatch.setenv("VENN_KEYS", str(tmp_path))
    assert keys_folder() == tmp_path


@pytest.mark.parametrize(("role", "reason"), [("device", "NO_KEY"), ("job", "KEY_UNSAFE"), ("admin", "KEY_DAMAGED")])
def test_what_is_wrong_with_a_key_is_said(role: str, reason: str, tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    ensure_keys(folder)
    (folder / "device.key").unlink()
    (folder / "job.key").chmod(0o640)
    (folder / "admin.key").write_text("short\n")
    with pytest.raises(UsageError) as error:
        load_key(role, dir=folder)  # type: ignore[arg-type]
    assert error.value.reason == reason
    assert str(folder / f"{role}.key") in str(error.value)


def test_a_folder_that_others_can_open_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    ensure_keys(folder)
    folder.chmod(0o750)
    for use in (lambda: ensure_keys(folder), lambda: load_key("job", dir=folder)):
        with pytest.raises(UsageError, match="chmod 700") as error:
            use()
        assert error.value.reason == "KEY_UNSAFE"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose another place"):
        ensure_keys(tmp_path / "file" / "keys")


def test_a_damaged_id_of_a_coordinator_is_said(tmp_path: Path) -> None:
    ensure_keys(tmp_path / "keys")
    (tmp_path / "keys" / "coordinator").write_text("x" * 32)
    with pytest.raises(UsageError, match="no coordinator's id"):
        ensure_keys(tmp_path / "keys")


@pytest.mark.parametrize("other", [ec.generate_private_key(ec.SECP384R1()), ed25519.Ed25519PrivateKey.generate()])
def test_only_keys_of_p_256_are_taken(other: ec.EllipticCurvePrivateKey, tmp_path: Path) -> None:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    write_private(tmp_path / "key", other.private_bytes(encoding, form, serialization.NoEncryption()))
    with pytest.raises(UsageError, match="no P-256 key"):
        read_key(tmp_path / "key")


def test_a_signature_is_of_one_key_and_one_message() -> None:
    key, other = new_key(), new_key()
    signature = key.sign(b"message")
    assert verifies(key.public, signature, b"message")
    assert not verifies(key.public, signature, b"another")
    assert not verifies(other.public, signature, b"message")
    assert not verifies(key.public, b"", b"message")
    assert not verifies(b"nonsense", signature, b"message")
