"""Channels and servers with one set of options, and where a server may listen.

Liveness is the engine's matter (heartbeats); transport keepalive is the backstop, and never under 20 s: a shorter one
kills healthy uploads over slow links.
"""

import errno
import ipaddress
import os
import re
import socket
from collections.abc import Sequence
from typing import Any

import grpc

from venn.wire.bounds import ServerBounds, connections_within
from venn.wire.errors import UsageError
from venn.wire.process import allow_many_files

KEEPALIVE_MS = 30_000
PING_TIMEOUT_MS = 20_000
LEAST_PING_INTERVAL_MS = 15_000  # what a server tolerates; under the keepalive by a good margin
LARGEST_REQUEST = 2 * 2**20  # bytes, of a client; chunks are at most 1 MiB
LARGEST_RESPONSE = 16 * 2**20  # bytes; pages of devices, snapshots
FRAME_BYTES, READ_BYTES = 2**20, 2**16  # at most; gRPC's own are 16 KiB and 8 KiB
HANDSHAKE_MS = 10_000  # of TLS: a silent connection ends then
MOST_HOST = 255  # characters of a name
PORT = re.compile(r"[0-9]{1,5}")
RECONNECT_MS = (200, 5_000)  # gRPC's own backoff below ours: from, to

Options = list[tuple[str, Any]]


def channel_options(proxy: str | None = None) -> Options:
    """The options of a channel. A ``no_proxy`` of the environment that matches goes before ``proxy``: see
    ``ignore_no_proxy``.
    """
    through: Options = [("grpc.enable_http_proxy", 0)]
    if proxy is not None:
        through = [("grpc.enable_http_proxy", 1), ("grpc.http_proxy", f"http://{proxy}")]
    return [
        *_common_options(),
        ("grpc.max_send_message_length", LARGEST_REQUEST),
        ("grpc.max_receive_message_length", LARGEST_RESPONSE),
        ("grpc.use_local_subchannel_pool", 1),  # each emulated device has its own connection
        *through,
        ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS[0]),
        ("grpc.max_reconnect_backoff_ms", RECONNECT_MS[1]),
    ]


def server_options(bounds: ServerBounds) -> Options:
    """The options of a server. Options that a version of gRPC does not know are ignored without a word: a test holds
    the oldest and the newest to each bound here.
    """
    connections = min(bounds.connections, connections_within(allow_many_files()))
    return [
        *_common_options(),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server_handshake_timeout_ms", round(bounds.handshake * 1000)),
        ("grpc.max_concurrent_streams", bounds.streams),
        ("grpc.max_send_message_length", LARGEST_RESPONSE),
        ("grpc.max_receive_message_length", bounds.request_bytes),
        ("grpc.http2.min_ping_interval_without_data_ms", LEAST_PING_INTERVAL_MS),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.so_reuseport", 0),  # a second server on one port is an error, not a lottery
    ]


def _common_options() -> Options:
    return [
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", 3 * PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def open_channel(
    address: str,
    *,
    proxy: str | None = None,
    credentials: grpc.ChannelCredentials | None = None,
    options: Sequence[tuple[str, Any]] = (),
) -> grpc.aio.Channel:
    """A channel to ``host:port``; through an HTTP proxy (``host:port``) if there is one; encrypted where there are
    ``credentials``. Connects at the first call.

    Raises UsageError ADDRESS.
    """
    parse_address(address)
    every = [*channel_options(proxy), *options]
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=every)
    return grpc.aio.secure_channel(address, credentials, options=every)


def ignore_no_proxy() -> None:
    """Ignore ``no_proxy`` in the environment of a process that was given a proxy: what its environment exempts would go
    past it, unshaped.
    """
    for name in ("no_grpc_proxy", "no_proxy", "NO_PROXY"):
        os.environ.pop(name, None)


def make_server(
    *,
    bounds: ServerBounds | None = None,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    read_ahead: int | None = None,
) -> grpc.aio.Server:
    """A server with our options, and within these bounds; None: the default ones.

    ``read_ahead``: bytes that a peer may send on a stream beyond the message that is being read. By default gRPC widens
    that as far as it finds the connection fast, and holds as much in memory for each of them. It widens frames with it,
    so they are as large from the beginning here: of each, and of each read, the pieces are copied one by one.
    """
    options = server_options(bounds or ServerBounds())
    if read_ahead is not None:
        options += [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", read_ahead)]
        options += [("grpc.http2.max_frame_size", FRAME_BYTES), ("grpc.experimental.tcp_read_chunk_size", READ_BYTES)]
    return grpc.aio.server(options=options, interceptors=tuple(interceptors))


def bind(
    server: grpc.aio.Server,
    address: str,
    *,
    insecure: bool = False,
    credentials: grpc.ServerCredentials | None = None,
) -> str:
    """Open a port (0: any free one) and return the real ``host:port``; encrypted where there are ``credentials``.

    Raises UsageError NOT_LOOPBACK (an address that others can reach, without insecure or credentials), PORT_IN_USE,
    ADDRESS, or KEY_MISMATCH.
    """
    host, port = check_reach(address, insecure=insecure or credentials is not None)
    _try_port(address, host, port)
    try:
        if credentials is None:
            bound = server.add_insecure_port(join_address(host, port))
        else:
            bound = server.add_secure_port(join_address(host, port), credentials)
    except RuntimeError:  # newer grpcio raises, older returns 0
        bound = 0
    if bound == 0 and credentials is not None:  # the port was free just now
        fix = "restore both from one backup"
        raise UsageError("KEY_MISMATCH", "the server's key is not that of its certificate", where=address, fix=fix)
    if bound == 0:
        raise _port_in_use(address)
    return join_address(host, bound)


def check_reach(address: str, *, insecure: bool, remedy: str = "") -> tuple[str, int]:
    """Read the host and port to listen on. Raises UsageError ADDRESS, or NOT_LOOPBACK with the ``remedy``."""
    host, port = parse_address(address)
    if not insecure and not is_loopback(address):
        raise UsageError(
            "NOT_LOOPBACK",
            "others can reach this address, and nothing on it is encrypted",
            where=address,
            fix=f"listen on 127.0.0.1, {remedy}or give --insecure if you trust the network",
        )
    return host, port


def parse_address(text: str) -> tuple[str, int]:
    """Split ``127.0.0.1:9700``, ``[::1]:9700`` or ``name:9700`` into host and port. Raises UsageError ADDRESS."""
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    good = colon and 0 < len(host) <= MOST_HOST and (":" in host) == bracketed and PORT.fullmatch(port)
    if not good or int(port) > 65535 or not host.isprintable() or " " in host or "/" in host:
        where = repr(text if len(text) <= MOST_HOST else f"{text[:MOST_HOST]}...")
        raise UsageError("ADDRESS", "is no address", where=where, fix="write host:port, e.g. 127.0.0.1:9700")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    """``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach ``host:port``. Raises UsageError ADDRESS."""
    host, _ = parse_address(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_literal(address: str) -> bool:
    """Whether the host is an IP address and not a name. Raises UsageError ADDRESS."""
    host, _ = parse_address(address)
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def resolved(address: str) -> str:
    """The same address with an IP address for its host. Raises UsageError ADDRESS: its name has none."""
    host, port = parse_address(address)
    if is_literal(address):
        return address
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        problem = f"this name has no address: {error}"
        raise UsageError("ADDRESS", problem, where=address, fix="name an IP address") from error
    return join_address(str(found[0][4][0]), port)


def _try_port(address: str, host: str, port: int) -> None:
    """Raise UsageError where a port cannot be opened: gRPC does not say why. One of a name's addresses is enough."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _no_address(address, error) from error
    problem = OSError("no address")
    for family, kind, protocol, _, target in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(target)
            return
        except OSError as error:
            problem = error
            if error.errno == errno.EADDRINUSE:
                raise _port_in_use(address) from error
    raise _no_address(address, problem) from problem


def _no_address(address: str, error: OSError) -> UsageError:
    problem = f"cannot listen here: {error.strerror or error}"
    return UsageError("ADDRESS", problem, where=address, fix="use an address of this machine")


def _port_in_use(address: str) -> UsageError:
    return UsageError(
        "PORT_IN_USE", "another program listens here", where=address, fix="stop it, or choose another port (0: any)"
    )
