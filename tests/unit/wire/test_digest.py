"""One digest, whichever way an object comes to it."""

from pathlib import Path

from venn.wire.chunks import DIGEST_BYTES, Hasher, digest_of, digest_of_file


def test_it_is_blake3() -> None:
    """As the test vectors of its authors have it: of no bytes, and of 0, 1, 2, ... 250, 0, 1, ..."""
    assert digest_of(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    numbers = bytes(number % 251 for number in range(2048))
    assert digest_of(numbers).hex() == "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"


def test_it_is_the_same_of_pieces_and_of_a_file(tmp_path: Path) -> None:
    body = bytes(range(256)) * 5000
    pieces = Hasher()
    for start in range(0, len(body), 100_000):
        pieces.update(memoryview(body)[start : start + 100_000])
    (tmp_path / "body").write_bytes(body)
    assert pieces.digest() == digest_of_file(tmp_path / "body") == digest_of(body)
    assert len(pieces.digest()) == DIGEST_BYTES
