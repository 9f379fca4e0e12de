"""Lines with checksums: what was cut short is told from what was damaged."""

import json

import pytest

from coordinator.service.sealed import seal, unseal

BODIES = tuple(f'{{"n":{number}}}' for number in range(1, 6))
WHOLE, _ = seal(BODIES, 0)
LINES = WHOLE.splitlines(keepends=True)


def test_a_line_is_a_json_object_and_reads_as_it_was_written() -> None:
    assert [json.loads(line)["n"] for line in LINES] == [1, 2, 3, 4, 5]
    read = unseal(WHOLE)
    assert (tuple(body.decode() for body in read.bodies), read.size, read.torn) == (BODIES, len(WHOLE), 0)
    assert read.damaged is None


def test_lines_that_are_written_later_continue_the_checksum() -> None:
    first, crc = seal(BODIES[:2], 0)
    second, _ = seal(BODIES[2:], crc)
    assert first + second == WHOLE
    assert unseal(first).crc == crc


@pytest.mark.parametrize("cut", range(1, len(LINES[-1]) + 1))
def test_an_end_that_is_cut_anywhere_is_torn(cut: int) -> None:
    read = unseal(WHOLE[:-cut])
    assert (len(read.bodies), read.size, read.damaged) == (4, len(WHOLE) - len(LINES[-1]), None)
    assert read.torn == len(LINES[-1]) - cut


def test_a_last_block_that_never_reached_the_disk_is_torn() -> None:
    zeros = b"".join(LINES[:3]) + bytes(100) + b"\n" + bytes(20) + b"x"
    assert (len(unseal(zeros).bodies), unseal(zeros).damaged) == (3, None)


@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_a_changed_line_before_a_whole_one_is_damaged(line: int) -> None:
    changed = [*LINES]
    changed[line - 1] = changed[line - 1].replace(b'"n":', b'"m":')
    read = unseal(b"".join(changed))
    assert (len(read.bodies), read.damaged) == (line - 1, line)


@pytest.mark.parametrize("lines", [(0, 1, 3, 4), (0, 2, 1, 3, 4), (0, 1, 1, 2, 3, 4), (1, 2, 3, 4)])
def test_a_missing_an_exchanged_and_a_repeated_line_are_damage(lines: tuple[int, ...]) -> None:
    read = unseal(b"".join(LINES[number] for number in lines))
    expected = next(place for place, number in enumerate(lines, 1) if number != place - 1)
    assert read.damaged == expected


def test_zeros_at_the_end_are_room_that_was_reserved() -> None:
    read = unseal(WHOLE + bytes(4096))
    assert (len(read.bodies), read.size, read.torn, read.damaged) == (5, len(WHOLE), 0, None)
    assert unseal(WHOLE[:-4] + bytes(4096)).torn == len(LINES[-1]) - 4


def test_an_empty_file_has_nothing() -> None:
    assert (unseal(b"").bodies, unseal(b"").torn, unseal(b"").damaged) == ((), 0, None)
