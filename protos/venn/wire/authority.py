"""The certificate authority of a coordinator, and certificates of servers. Its key never leaves its folder.

All certificates are valid from 1970 to 2099, so that a machine without a clock can join. P-256, because gRPC refuses
Ed25519 there. There are no authorities below this one.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from venn.wire.errors import UsageError
from venn.wire.files import file_error, write_atomic
from venn.wire.keys import Key, check_private, new_key, read_key, write_private
from venn.wire.trust import CA, coordinator_name, fingerprint_of

CA_KEY = "ca.key"
SERVER, SERVER_KEY = "server.pem", "server.key"  # the coordinator's own: its certificate and the authority's
FROM, UNTIL = datetime(1970, 1, 1, tzinfo=UTC), datetime(2099, 12, 31, tzinfo=UTC)
READABLE = 0o644


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """What a server needs to be trusted."""

    key: bytes  # PEM
    chain: bytes  # PEM: its own certificate first
    fingerprint: bytes  # of the last certificate, which others trust


def make_authority(folder: Path) -> ServerCertificate:
    """Make the authority of a coordinator in its folder of keys, and the coordinator's certificate.

    Raises UsageError CA_EXISTS.
    """
    if (folder / CA).exists():
        raise UsageError(
            "CA_EXISTS",
            "this coordinator has a certificate authority already",
            where=str(folder / CA),
            fix="keep it: those who have joined trust it",
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder)
        key = new_key()
        write_private(folder / CA_KEY, key.pem())
        authority = _certificate("Venn testbed", key, key, None)
        pem = authority.public_bytes(Encoding.PEM)
        own = new_key()
        leaf = _certificate(coordinator_name(fingerprint_of(pem)), own, key, authority)
        write_private(folder / SERVER_KEY, own.pem())
        write_atomic(folder / SERVER, leaf.public_bytes(Encoding.PEM) + pem, mode=READABLE, fsync=True)
        write_atomic(folder / CA, pem, mode=READABLE, fsync=True)  # the last: what is there now is whole
    except OSError as error:
        raise file_error(error, folder) from error
    return load_server(folder)


def load_server(folder: Path) -> ServerCertificate:
    """Load the coordinator's certificate. Raises UsageError NO_CA, KEY_UNSAFE or KEY_DAMAGED."""
    try:
        key, chain = read_key(folder / SERVER_KEY), (folder / SERVER).read_bytes()
        return ServerCertificate(key.pem(), chain, fingerprint_of((folder / CA).read_bytes()))
    except FileNotFoundError as error:
        raise UsageError(
            "NO_CA", "this coordinator has no certificate authority", where=str(folder), fix="venn coordinator init"
        ) from error
    except (OSError, ValueError) as error:
        fix = "restore the folder from a backup"
        raise UsageError(
            "KEY_DAMAGED", f"the certificates cannot be read: {error}", where=str(folder), fix=fix
        ) from error


def self_signed(name: str, key: Key) -> bytes:
    """A certificate of a server that only those trust who are given it (PEM)."""
    return _certificate(name, key, key, None, server=True).public_bytes(Encoding.PEM)


def _certificate(
    name: str, key: Key, signer: Key, authority: x509.Certificate | None, *, server: bool = False
) -> x509.Certificate:
    """A certificate of a key: of a server, or, if it is signed with itself, of an authority."""
    is_authority = authority is None and not server
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.subject)
        .public_key(key.private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(FROM)
        .not_valid_after(UNTIL)
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.private.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.private.public_key()), critical=False)
    )
    if is_authority:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = made.add_extension(usage, critical=True)
    else:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return made.sign(signer.private, hashes.SHA256())
