"""Commands about what a run has left: ``venn report`` and ``venn replay``."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.shared import answer
from testbed.report.replay import Replayed, describe
from testbed.report.replay import replay as replay_run
from venn.wire.command import Context, application, command
from venn.wire.errors import ExitCode
from venn.wire.text import printable

app = application()


@app.command(epilog="Example: venn report runs/2026-05-12-140311-three-jobs-venn")
@command
def report(
    context: Context,
    folder: Annotated[Path, typer.Argument(help="Folder of a run or comparison.", metavar="DIR")],
) -> int:
    """Rebuild the report and figures/."""
    from testbed.compare.folder import MANIFEST, build_comparison, print_comparison
    from testbed.report.result import PAGE, build_report, print_summary
    from testbed.report.summary import to_json
    from testbed.report.terminal import console

    if (folder / MANIFEST).is_file():
        built = build_comparison(folder.absolute())
        if context.json or not context.quiet:
            print_comparison(built, context)
        return built.exit_code
    summary = build_report(folder)
    if context.json:
        answer(context, to_json(summary), ())
    elif not context.quiet:
        print_summary(summary, console(context), report=str(folder / PAGE))
    return ExitCode.OK if summary.passed and not summary.audit.findings else ExitCode.FAILED


@app.command(epilog="Example: venn replay runs/2026-05-12-140311-three-jobs-venn")
@command
def replay(context: Context, folder: Annotated[Path, typer.Argument(help="Run folder.", metavar="DIR")]) -> int:
    """Replay a run's events, and check that they have the same effects."""
    found = replay_run(folder)
    answer(context, {**asdict(found), "same": found.same}, _replayed(found))
    return ExitCode.OK if found.same else ExitCode.FAILED


def _replayed(found: Replayed) -> Iterator[str]:
    if found.same:
        ended = "" if found.recorded_digest else " (the run did not end cleanly: no digest to compare with)"
        yield f"{found.events} events gave the same {found.effects} effects, digest {found.digest}{ended}"
    elif found.difference is None:
        yield f"same effects, another digest: recorded {found.recorded_digest}, again {found.digest}"
    else:
        yield from (printable(line, 2000) for line in describe(found.difference))
