"""The connections of a container, as its kernel lists them in /proc/net."""

import socket

LIST = ["cat", "/proc/net/tcp", "/proc/net/tcp6"]  # the second is not there where there is no IPv6
_ESTABLISHED = "01"  # at this end: the other has not said that it is over, or nothing of that has come


def connected(listed: str, peer: str) -> bool:
    """Whether a connection with an IPv4 address is open; one from it to an IPv6 socket is listed as ::ffff:a.b.c.d."""
    written = socket.inet_aton(peer)[::-1].hex().upper()  # the kernel writes words as they lie in its memory
    rows = (line.split() for line in listed.splitlines())
    return any(len(row) > 3 and row[2].partition(":")[0][-8:] == written and row[3] == _ESTABLISHED for row in rows)
