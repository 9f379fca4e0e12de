"""``venn explain``: why a job or a device waits, and its story; live, or of a finished run."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from testbed.report.explain import Explanation, ask, explain
from testbed.report.history import read_history
from testbed.report.words import clock
from testbed.runfolder.lives import read_lives
from venn.wire.admission import client_token
from venn.wire.command import Context, application, client_command, execute
from venn.wire.exits import write_line
from venn.wire.text import printable

app = application()


@app.command("explain", epilog="Example: venn explain label-count --run runs/2026-05-12-140311-three-jobs-venn")
@client_command
def explain_(
    context: Context,
    subject: Annotated[str, typer.Argument(help="Job's name or key, or a device's id.", metavar="JOB|DEVICE")],
    run: Annotated[Path | None, typer.Option(help="Folder of a finished run.", metavar="DIR")] = None,
    tokens: Annotated[Path | None, typer.Option(help="Coordinator's tokens.", metavar="DIR")] = None,
) -> int:
    """Explain why a job or a device waits."""
    if run is not None:
        found = explain(read_history(read_lives(run)), subject)
    else:
        found = asyncio.run(ask(context.coordinator, client_token("admin", context.coordinator, dir=tokens), subject))
    if context.json:
        write_line(sys.stdout, json.dumps(asdict(found)))
    else:
        for line in _lines(found):
            write_line(sys.stdout, line)
    return 0


def _lines(found: Explanation) -> list[str]:
    head = [f"{printable(found.subject)}   {printable(found.state)}"]
    reasons = [f"  {printable(reason)}" for reason in found.reasons] or ["  it does not wait"]
    story = [f"{clock(line.at_s)}  {printable(line.kind):<9} {printable(line.text)}" for line in found.story]
    return [*head, *reasons, *([f"  times are {found.clock}, as minutes:seconds"] if story else []), *story]


def main(argv: list[str]) -> int:
    return execute(app, argv, "venn explain")
