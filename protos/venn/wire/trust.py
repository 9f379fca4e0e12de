"""The trust of a client: in the certificate authority of its coordinator, and in nobody else.

A coordinator has a small authority of its own (``venn.wire.authority``). A client never asks the system's authorities,
and looks for a name that is made of the authority's fingerprint: so addresses may change, and no other server with a
certificate can pose as the coordinator.
"""

import ssl
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc

from venn.wire.channel import is_loopback, open_channel
from venn.wire.errors import UsageError

CA = "ca.pem"  # in a folder of keys: the authority's certificate
NAME_DIGITS = 16  # of the fingerprint, in the coordinator's name
NOTHING = b""  # the fingerprint where nothing is encrypted


@dataclass(frozen=True)
class Trust:
    """The certificate that a server's own must be signed with, and the name that it must have."""

    pem: bytes
    name: str

    @cached_property
    def credentials(self) -> grpc.ChannelCredentials:
        """What a channel needs to check the server's certificate."""
        return grpc.ssl_channel_credentials(root_certificates=self.pem)

    @property
    def options(self) -> list[tuple[str, Any]]:
        """Options of a channel: which name to look for, whatever the address is."""
        return [("grpc.ssl_target_name_override", self.name), ("grpc.default_authority", self.name)]

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 of the certificate, 32 bytes."""
        return fingerprint_of(self.pem)


def open_trusted(address: str, trust: Trust | None, *, proxy: str | None = None) -> grpc.aio.Channel:
    """A channel to a server that is trusted so; None: nothing is encrypted. Raises UsageError ADDRESS."""
    if trust is None:
        return open_channel(address, proxy=proxy)
    return open_channel(address, proxy=proxy, credentials=trust.credentials, options=trust.options)


def fingerprint_of(pem: bytes) -> bytes:
    """SHA-256 of the one certificate in a PEM file. Raises ValueError."""
    return sha256(ssl.PEM_cert_to_DER_cert(pem.decode().strip())).digest()


def coordinator_name(fingerprint: bytes) -> str:
    """The name in the certificate of the coordinator that has the authority with this fingerprint."""
    return f"coordinator.{fingerprint.hex()[:NAME_DIGITS]}.venn"


def coordinator_trust(pem: bytes) -> Trust:
    """Trust in the coordinator that has this authority. Raises ValueError."""
    return Trust(pem, coordinator_name(fingerprint_of(pem)))


@lru_cache(64)
def driver_trust(certificate: bytes, job: str) -> Trust:
    """Trust in the driver of a job (owner/name/run) that has this certificate (DER)."""
    return Trust(ssl.DER_cert_to_PEM_cert(certificate).encode(), driver_name(job))


def driver_name(job: str) -> str:
    """The name in the certificate of the driver of a job (owner/name/run)."""
    return f"job-{sha256(job.encode()).hexdigest()[:NAME_DIGITS]}.driver.venn"


def kept_trust(folder: Path) -> Trust | None:
    """Trust in the coordinator of a folder of keys; None: it has no authority, or none is known here.

    Raises UsageError CA_DAMAGED.
    """
    path = folder / CA
    try:
        return coordinator_trust(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        fix = "copy it again from the coordinator, or join again"
        raise UsageError("CA_DAMAGED", f"this is no certificate: {error}", where=str(path), fix=fix) from error


def trust_for(address: str, folder: Path, *, insecure: bool) -> Trust | None:
    """Trust for calls to a coordinator; None: they are not encrypted, as was asked for or since they stay on this
    machine.

    Raises UsageError NOT_ENCRYPTED: it is on another machine, and no authority of it is known. CA_DAMAGED; ADDRESS.
    """
    trust = None if insecure else kept_trust(folder)
    if trust is None and not insecure and not is_loopback(address):
        raise UsageError(
            "NOT_ENCRYPTED",
            "this coordinator is on another machine, and its certificate authority is not known here",
            where=address,
            fix="join it (venn agent join, venn login), or give --insecure if you trust the network",
        )
    return trust
