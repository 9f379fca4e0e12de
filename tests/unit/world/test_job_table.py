"""The paper's jobs, and tables of one's own."""

from fractions import Fraction
from pathlib import Path

import pytest

from testbed.world.jobs import PAPER, JobSize, TableError, Which, read_table, subset

TABLE = read_table(PAPER)


def test_the_table_of_the_paper() -> None:
    assert len(TABLE) == 33
    assert TABLE[0] == JobSize(1500, 856, 1000.0)
    assert TABLE.count(JobSize(200, 1000, 600.0)) == 2
    assert [row.rounds for row in TABLE[20:]] == [
        930, 980, 1280, 1620, 530, 1900, 1750, 1800, 1360, 1600, 1290, 1980, 640,
    ]  # fmt: skip  # as the paper lists them
    assert {(row.participants, row.deadline_s) for row in TABLE[20:]} == {(500, 1000.0)}
    assert sum(row.total for row in TABLE) == 18_149_712
    assert sum(row.participants for row in TABLE) == 12_644


@pytest.mark.parametrize(
    ("which", "count", "least", "most"),
    [
        (Which.SMALL, 18, 20 * 2000, 500 * 980),
        (Which.LARGE, 15, 200 * 3000, 1500 * 856),
        (Which.LOW, 14, 20, 200),
        (Which.HIGH, 19, 400, 1500),
    ],
)
def test_the_subsets_lie_on_their_side_of_the_average(which: Which, count: int, least: int, most: int) -> None:
    """The averages are 549,991 devices over all rounds, and 383 in a round."""
    rows = subset(TABLE, which)
    sizes = [row.total if which in (Which.SMALL, Which.LARGE) else row.participants for row in rows]
    assert (len(rows), min(sizes), max(sizes)) == (count, least, most)


def test_opposite_subsets_are_the_table() -> None:
    for one, other in ((Which.SMALL, Which.LARGE), (Which.LOW, Which.HIGH)):
        assert len(subset(TABLE, one)) + len(subset(TABLE, other)) == len(TABLE)
    assert subset(TABLE, Which.ALL) == TABLE


def test_an_average_row_is_in_neither() -> None:
    table = [JobSize(count, 1, 1.0) for count in (1, 2, 3)]
    assert [[row.participants for row in subset(table, which)] for which in (Which.LOW, Which.HIGH)] == [[1], [3]]
    assert Fraction(sum(row.participants for row in table), 3) == 2


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("name,rounds,participants,deadline_s\na,3,20,90.5\n")
    assert read_table(str(file)) == (JobSize(20, 3, 90.5),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("participants,rounds\n2,3\n", ":1: has no column deadline_s; the first line names"),
        ("participants,rounds,deadline_s\n", ": has no job; give each a line"),
        ("participants,rounds,deadline_s\n2,3,60\n2.5,3,60\n", ":3: participants is 2.5; write a whole number from 1"),
        ("participants,rounds,deadline_s\n2,0,60\n", ":2: rounds is 0; write a whole number"),
        ("participants,rounds,deadline_s\n2,3\n", ":2: deadline_s is empty; write seconds"),
        ("participants,rounds,deadline_s\n2,3,nan\n", ":2: deadline_s is nan"),
        ("participants,rounds,deadline_s\n2,3,0\n", ":2: deadline_s is 0"),
    ],
)
def test_what_is_wrong_in_a_file(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(text)
    with pytest.raises(TableError) as caught:
        read_table(str(file))
    assert str(caught.value).startswith(f"{file}{told}")
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"nowhere\.csv: cannot be read: No such file"):
        read_table(str(tmp_path / "nowhere.csv"))
    (tmp_path / "image.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TableError, match="is not a CSV file"):
        read_table(str(tmp_path / "image.csv"))
