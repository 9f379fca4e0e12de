"""``venn report``: summary, page and figures of a run or a comparison, built again from what it left."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from testbed.compare.folder import MANIFEST, build_comparison, print_comparison
from testbed.report.build import PAGE, build_report
from testbed.report.summary import to_json
from testbed.report.table import print_summary
from testbed.report.terminal import console
from venn.wire.command import Context, application, command, execute
from venn.wire.errors import ExitCode
from venn.wire.exits import write_line

app = application()


@app.command(epilog="Example: venn report runs/2026-05-12-140311-three-jobs-venn")
@command
def report(
    context: Context,
    folder: Annotated[Path, typer.Argument(help="Folder of a run or comparison.", metavar="DIR")],
) -> int:
    """Rebuild the report and figures/."""
    if (folder / MANIFEST).is_file():
        return _comparison(context, folder)
    summary = build_report(folder)
    if context.json:
        write_line(sys.stdout, json.dumps(to_json(summary)))
    elif not context.quiet:
        print_summary(summary, console(context), report=str(folder / PAGE))
    return ExitCode.OK if summary.passed and not summary.audit.findings else ExitCode.FAILED


def _comparison(context: Context, folder: Path) -> int:
    written = build_comparison(folder.absolute())
    if context.json or not context.quiet:
        print_comparison(written, context)
    return written.exit_code


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn report")
