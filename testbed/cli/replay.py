"""``venn replay``: the recorded events again, through a fresh engine in a fresh process."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from testbed.report.replay import describe, replay
from venn.wire.command import Context, application, command, execute
from venn.wire.errors import ExitCode
from venn.wire.exits import write_line
from venn.wire.text import printable

app = application()


@app.command("replay", epilog="Example: venn replay runs/2026-05-12-140311-three-jobs-venn")
@command
def replay_(context: Context, folder: Annotated[Path, typer.Argument(help="Run folder.", metavar="DIR")]) -> int:
    """Replay a run's events, and check that they have the same effects."""
    found = replay(folder)
    if context.json:
        write_line(sys.stdout, json.dumps({**asdict(found), "same": found.same}))
    elif found.same:
        ended = "" if found.recorded_digest else " (the run did not end cleanly: no digest to compare with)"
        write_line(
            sys.stdout, f"{found.events} events gave the same {found.effects} effects, digest {found.digest}{ended}"
        )
    elif found.difference is None:
        write_line(sys.stdout, f"same effects, another digest: recorded {found.recorded_digest}, again {found.digest}")
    else:
        for line in describe(found.difference):
            write_line(sys.stdout, printable(line, 2000))
    return ExitCode.OK if found.same else ExitCode.FAILED


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn replay")
