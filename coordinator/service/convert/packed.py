"""Serialised frames that leave together travel as one message, for a message costs more than what it carries."""

from collections.abc import Sequence

from venn.v1 import device_pb2, job_pb2

_LENGTH_DELIMITED = 2  # wire type of an embedded message
TO_DEVICES = bytes([device_pb2.ConnectResponse.MORE_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
TO_FOLLOWERS = bytes([job_pb2.FollowJobResponse.MORE_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])


def joined(frames: Sequence[bytes], more: bytes) -> bytes:
    """The first frame, with the others as its ``more``: ``more`` is the tag of that field."""
    parts = [frames[0]]
    for frame in frames[1:]:
        parts += (more, _varint(len(frame)), frame)
    return b"".join(parts)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)
