"""Keys: a P-256 key for each device and person, made where it is used and never sent; and the folder they lie in.

A coordinator makes three local keys as it starts, one for each role. A program that can read the file of one has its
role: so the programs of one user on one machine need no enrolment.
"""

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, get_args

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from venn.wire.errors import UsageError
from venn.wire.files import file_error, write_atomic
from venn.wire.places import keys_folder

Role = Literal["device", "job", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
ID_BYTES = 32
COORDINATOR = "coordinator"  # the file with a coordinator's own id
COORDINATOR_BYTES = 16
LARGEST_FILE = 4096  # bytes that are read of a key's file
ALGORITHM = ec.ECDSA(hashes.SHA256())


@dataclass(frozen=True, slots=True)
class Key:
    """A private key."""

    private: ec.EllipticCurvePrivateKey
    public: bytes  # DER, SubjectPublicKeyInfo

    @property
    def id(self) -> bytes:
        """The name of the key: 32 bytes."""
        return id_of(self.public)

    def sign(self, message: bytes) -> bytes:
        """The signature of a message: ECDSA with SHA-256, DER."""
        return self.private.sign(message, ALGORITHM)

    def pem(self) -> bytes:
        """The private key as PEM (PKCS 8), not encrypted."""
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return self.private.private_bytes(encoding, form, serialization.NoEncryption())


@dataclass(frozen=True, slots=True)
class LocalKeys:
    """The local keys of a coordinator, and its id: 32 hexadecimal digits."""

    device: Key
    job: Key
    admin: Key
    coordinator: str


def id_of(public: bytes) -> bytes:
    """The id of the key with this public key (DER): its SHA-256."""
    return sha256(public).digest()


def exact(*parts: bytes) -> bytes:
    """Bytes to sign: each part after its length, so that no two lists of parts have the same bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def new_key() -> Key:
    """Make a key."""
    return _key(ec.generate_private_key(ec.SECP256R1()))


def verifies(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether a signature of a message was made with the key of this public key (DER)."""
    try:
        key = serialization.load_der_public_key(public)
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            return False
        key.verify(signature, message, ALGORITHM)
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return False
    return True


def ensure_keys(dir: Path | None = None) -> LocalKeys:
    """Read the local keys in a folder, and make those that are missing. Raises UsageError for an unsafe or damaged
    file.
    """
    folder = dir or keys_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder)
        for role in ROLES:
            _make(key_file(role, folder), lambda: new_key().pem())
        _make(folder / COORDINATOR, lambda: secrets.token_hex(COORDINATOR_BYTES).encode() + b"\n")
        device, job, admin = (read_key(key_file(role, folder)) for role in ROLES)
        return LocalKeys(device, job, admin, _coordinator(folder / COORDINATOR))
    except OSError as error:
        raise file_error(error, folder) from error


def key_file(role: Role, folder: Path) -> Path:
    """The file of the key of a role."""
    return folder / f"{role}.key"


def load_key(role: Role, *, dir: Path | None = None) -> Key:
    """Load the key of a role. Raises UsageError NO_KEY, KEY_UNSAFE or KEY_DAMAGED."""
    path = key_file(role, dir or keys_folder())
    try:
        check_private(path.parent)
        return read_key(path)
    except OSError as error:
        raise UsageError(
            "NO_KEY",
            f"no {role} key: {error.strerror}",
            where=str(path),
            fix="name the coordinator's folder with --keys DIR",
        ) from error


def read_key(path: Path) -> Key:
    """Read a private key. Raises OSError, and UsageError KEY_UNSAFE or KEY_DAMAGED."""
    check_private(path)
    try:
        key = serialization.load_pem_private_key(_start(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise UsageError(
            "KEY_DAMAGED", "this is no P-256 key", where=str(path), fix="copy it again, or remove it and start again"
        )
    return _key(key)


def check_private(path: Path) -> None:
    """Check that only its owner can use a file or a folder. Raises OSError, and UsageError KEY_UNSAFE."""
    found = path.stat()
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder = stat.S_ISDIR(found.st_mode)
        raise UsageError(
            "KEY_UNSAFE",
            "other users can open this folder of keys" if folder else "other users can read this key",
            where=str(path),
            fix=f"chmod {700 if folder else 600} {path}",
        )


def write_private(path: Path, data: bytes) -> None:
    """Write a secret so that only its owner can read it, and it is whole after a power cut."""
    write_atomic(path, data, mode=0o600, fsync=True)


def _key(private: ec.EllipticCurvePrivateKey) -> Key:
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return Key(private, private.public_key().public_bytes(encoding, form))


def _make(path: Path, content: Callable[[], bytes]) -> None:
    """Make a file unless it exists. Of several programs that start at once, the first one's stands, and none reads
    half of it.
    """
    if path.exists():
        return
    mine = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    write_private(mine, content())
    try:
        with suppress(FileExistsError):
            os.link(mine, path)
    finally:
        mine.unlink()


def _coordinator(path: Path) -> str:
    text = _start(path).decode(errors="replace").strip()
    if len(text) != 2 * COORDINATOR_BYTES or not set(text) <= set("0123456789abcdef"):
        raise UsageError("KEY_DAMAGED", "this is no coordinator's id", where=str(path), fix="remove it and start again")
    return text


def _start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(LARGEST_FILE)
