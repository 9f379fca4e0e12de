"""CSV files read line by line, with the line in every refusal."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from venn.wire.errors import UsageError
from venn.wire.text import printable

FIX = "see docs/population.md for what the file holds"
LATEST_S = 366 * 86_400.0  # of a session; as long as a coordinator counts
Rows = Iterator[tuple[int, list[str]]]  # with their lines, from 1


def bad(where: object, message: str) -> UsageError:
    """A file that cannot be used."""
    return UsageError("POPULATION", message, where=str(where), fix=FIX)


@contextmanager
def opened_csv(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[list[str], Rows]]:
    """The columns' names and the rows, each as long as those; blank lines are left out. Raises UsageError."""
    reader = csv.reader(())
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            if not header:
                raise bad(f"{path}:1", f"is empty; its first line names the columns {', '.join(needed)}")
            for name in needed:
                if name not in header:
                    raise bad(f"{path}:1", f"has no column {name}")
            for name in header:
                if header.count(name) > 1:
                    raise bad(f"{path}:1", f"has the column {printable(name, 40)} twice")

            def rows() -> Rows:
                for row in reader:
                    line = reader.line_num
                    if row:
                        if len(row) != len(header):
                            message = f"has {len(row)} values, and the first line names {len(header)} columns"
                            raise bad(f"{path}:{line}", message)
                        yield line, row

            yield header, rows()
    except OSError as error:
        raise bad(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise bad(path, f"is not UTF-8 text after line {reader.line_num}") from error
    except csv.Error as error:
        raise bad(f"{path}:{reader.line_num}", f"is no CSV: {error}") from error
