"""Lines of JSON, each with a checksum over itself and the one before it.

A line is an object whose last field is ``"crc"``: eight hexadecimal digits of the CRC-32 of the object without that
field, continued from the checksum of the line before (0 before the first line of a file). So a changed, missing or
exchanged line is found where it is, and what follows it is read all the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

_SEAL = b',"crc":"%08x"}\n'
_SEAL_LENGTH = len(_SEAL % 0) - 1  # without the end of the line


def seal(bodies: Iterable[str], crc: int) -> tuple[bytes, int]:
    """The lines of JSON objects, and the checksum of the last one. ``crc``: that of the line before."""
    lines: list[bytes] = []
    for body in bodies:
        raw = body.encode()
        crc = crc32(raw, crc)
        lines += (raw[:-1], _SEAL % crc)
    return b"".join(lines), crc


@dataclass(frozen=True, slots=True)
class Unsealed:
    """What is whole of a file of sealed lines, up to the first line that is not."""

    bodies: tuple[bytes, ...]  # JSON objects without their checksums
    size: int  # bytes of these lines in the file
    crc: int  # of the last of them
    torn: int  # bytes after them that are no whole line: the end of what was being written
    damaged: int | None  # number of the first line, from 1, that is not whole although a later one is; None: none


def unseal(data: bytes) -> Unsealed:
    """Check the lines of a file, in their order.

    What is not whole at the end was being written when its writer was killed or lost its power. What is not whole and
    has a whole line after it was changed later. Zeros at the end are room that the writer had reserved.
    """
    data = data.rstrip(b"\0")
    lines = data.split(b"\n")
    rest = lines.pop()  # empty, or a line without its end
    bodies: list[bytes] = []
    size = crc = 0
    for line in lines:
        body = line[:-_SEAL_LENGTH] + b"}"
        after = crc32(body, crc)
        if line[-_SEAL_LENGTH:] != (_SEAL % after)[:-1]:
            break
        bodies.append(body)
        size, crc = size + len(line) + 1, after
    number = len(bodies)
    if number == len(lines):
        return Unsealed(tuple(bodies), size, crc, len(rest), None)
    goes_on = any(_follows(before, line) for before, line in zip(lines[number:], lines[number + 1 :], strict=False))
    return Unsealed(tuple(bodies), size, crc, len(data) - size, number + 1 if goes_on else None)


def _follows(before: bytes, line: bytes) -> bool:
    """Whether a line is whole, by what the line before it says its own checksum is."""
    try:
        crc = int(before[-10:-2], 16)
    except ValueError:
        return False
    body = line[:-_SEAL_LENGTH] + b"}"
    return line[-_SEAL_LENGTH:] == (_SEAL % crc32(body, crc))[:-1]
