"""What a comparison leaves for people: its page and figures, and what is printed; built from the files of its runs."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.cli.terminal import console
from testbed.compare.manifest import read_comparisons
from testbed.report.comparison import Comparison
from testbed.report.comparison_page import write_comparison
from testbed.report.comparison_table import comparison_csv, comparison_json, comparison_table, intervals_csv
from testbed.report.jsonlines import texts
from testbed.report.overview import overview_json, overview_table, overviews
from venn.wire.command import Context
from venn.wire.errors import ExitCode
from venn.wire.exits import write_line
from venn.wire.files import file_error, write_atomic

INTERVALS = "intervals.csv"
LEAST_WIDTH = 240  # columns that the tables may take


@dataclass(frozen=True, slots=True)
class Written:
    """A comparison that is read and whose page is written."""

    comparisons: Sequence[Comparison]
    policies: Sequence[str]
    page: Path

    @property
    def exit_code(self) -> int:
        whole = all(one.trusted and one.complete for one in self.comparisons)
        return ExitCode.OK if whole else ExitCode.FAILED


def build_comparison(folder: Path) -> Written:
    """Read the folder of a comparison and write its page, figures and intervals.csv. Raises UsageError."""
    about, comparisons = read_comparisons(folder)
    page = write_comparison(comparisons, folder, about)
    write_atomic(folder / INTERVALS, intervals_csv(comparisons).encode())
    return Written(comparisons, texts(about, "policies"), page)


def print_comparison(written: Written, context: Context, csv: Path | None = None) -> None:
    """On stdout: a table for each workload and one for all, or one JSON object; every job of every run into ``csv``.

    Raises UsageError where that cannot be written, and PeerError on a full disk.
    """
    found = written.comparisons
    if csv is not None:
        try:
            write_atomic(csv, comparison_csv(found).encode())
        except OSError as error:
            raise file_error(error, csv) from error
    if context.json:
        said: dict[str, object] = {"comparisons": [comparison_json(one) for one in found]}
        if len(found) > 1:
            said["overviews"] = [overview_json(one) for one in overviews(found, written.policies)]
        write_line(sys.stdout, json.dumps(said))
        return
    screen = console(context, least_width=LEAST_WIDTH)
    for one in found:
        screen.print(comparison_table(one), crop=False)
    if len(found) > 1:
        screen.print(overview_table(overviews(found, written.policies)), crop=False)
    screen.print(f"report  {written.page}", soft_wrap=True, markup=False, highlight=False)
